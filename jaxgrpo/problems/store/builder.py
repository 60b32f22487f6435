"""The TFDS data set of a user's problems, in the array_record format.

Its folder holds, beside the records, `tests.bin` with all tests and `counts.json` with
what became of the rows. All of it takes its name when all of it is written.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tensorflow_datasets as tfds

import jaxgrpo
from jaxgrpo.problems import formats
from jaxgrpo.problems.formats.format import Format
from jaxgrpo.problems.preparing import prepare_once
from jaxgrpo.problems.progress import Report, throttled
from jaxgrpo.problems.store.conversion import convert, records_file
from jaxgrpo.problems.store.counts import Counts, counts_of_json
from jaxgrpo.problems.store.records import TEXTS
from jaxgrpo.problems.store.settings import StoreSettings
from jaxgrpo.problems.store.sources import SourceFile, sources_digest

COUNTS_FILE = "counts.json"


@dataclass(eq=False)
class StoreConfig(tfds.core.BuilderConfig):
    """A data set by a name that says everything, so that folders never clash."""

    name: str = dataclasses.field(init=False)
    data_set: Format = dataclasses.field(kw_only=True)
    sources: Sequence[SourceFile] = dataclasses.field(kw_only=True)
    settings: StoreSettings = dataclasses.field(kw_only=True)
    digest: str = dataclasses.field(kw_only=True)
    """Of the files."""
    num_lines: int = dataclasses.field(kw_only=True, default=0)
    """Of the files, for the progress; 0 if not known."""
    columns: tuple[tuple[str, str], ...] = dataclasses.field(kw_only=True, default=())
    """The column map of the format `file`."""

    def __post_init__(self) -> None:
        s = self.settings
        others = (self.columns, dataclasses.astuple(s), _code_digest())
        digest = hashlib.blake2b(repr(others).encode(), digest_size=8).hexdigest()
        self.name = (
            f"{self.data_set.name}-{s.splits}-{s.malformed}"
            f"-tests{s.max_tests}-bytes{s.max_test_bytes}-{self.digest}-{digest}"
        )


class Problems(tfds.core.GeneratorBasedBuilder):
    """Problems of a user's data set, in an order that a hash of their ids decides.

    The first problems of a split are a fair sample of it, however the files are sorted.
    """

    # TFDS would look for checksums of downloads beside this file, by way of a package
    # it does not declare (importlib_resources). There are no downloads.
    code_path = None

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012

    def __init__(self, *, report: Report, **kwargs: object) -> None:
        self._report = report
        super().__init__(file_format="array_record", **kwargs)

    @property
    def _config(self) -> StoreConfig:
        assert isinstance(self.builder_config, StoreConfig)
        return self.builder_config

    def _info(self) -> tfds.core.DatasetInfo:
        features = {name: tfds.features.Text() for name in (*TEXTS, "rest")}
        return tfds.core.DatasetInfo(
            builder=self,
            description=Problems.__doc__,
            features=tfds.features.FeaturesDict(features),
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[str, dict[str, str]]]]:
        del dl_manager  # The files are here.
        config, folder = self._config, Path(self.data_dir)  # the temporary one
        total, show = config.num_lines, throttled(self._report)
        counts = convert(
            config.data_set,
            config.sources,
            config.settings,
            folder,
            lambda done: show(min(done, total - 1) if total else done, total),
        )
        if not counts.num_problems:
            first = f" The first: {counts.skipped[0]}" if counts.skipped else ""
            raise ValueError(
                f"{config.data_set.name}: none of {counts.num_rows} rows is a problem "
                f"({counts.num_skipped} skipped).{first} Correct the files, or "
                "choose others by data.path."
            )
        self._report(counts.num_rows, counts.num_rows)
        (folder / COUNTS_FILE).write_text(json.dumps(counts.to_json(), indent=2))
        return {
            split: self._generate_examples(records_file(folder, split))
            for split in counts.sizes
        }

    def _generate_examples(self, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
        with path.open(encoding="ascii") as file:
            for line in file:
                record = json.loads(line)
                yield record["id"], record
        path.unlink()

    def _log_download_bytes(self) -> None:
        """Prints nothing: nothing is downloaded, and `report` tells the rest."""

    def _log_download_done(self) -> None:
        """Prints nothing."""


def prepare(
    data_set: Format,
    sources: Sequence[SourceFile],
    settings: StoreSettings,
    cache_dir: Path,
    *,
    columns: tuple[tuple[str, str], ...] = (),
    report: Report,
) -> Problems:
    """Returns the builder of a prepared data set, preparing it if it is missing.

    Args:
      data_set: What its rows look like.
      sources: Its files.
      settings: What to keep.
      cache_dir: Folder of all prepared data sets; made if missing.
      columns: The column map of the format `file`.
      report: Called as the data set grows; never if it is already there.
    """
    digest, num_lines = sources_digest(sources)
    config = StoreConfig(
        data_set=data_set,
        sources=sources,
        settings=settings,
        digest=digest,
        num_lines=num_lines,
        columns=columns,
    )

    def make_builder() -> Problems:
        return Problems(config=config, data_dir=os.fspath(cache_dir), report=report)

    return prepare_once(cache_dir / f".problems-{config.name}.lock", make_builder)


def kept_counts(builder: Problems) -> Counts:
    """Returns what became of the rows of a prepared data set."""
    text = (Path(builder.data_dir) / COUNTS_FILE).read_text()
    return counts_of_json(json.loads(text))


@cache
def _code_digest() -> str:
    """Of the modules that turn rows into records: changed ones make other records."""
    folders = (Path(formats.__file__).parent, Path(__file__).parent)
    digest = hashlib.blake2b(jaxgrpo.__version__.encode(), digest_size=8)
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
