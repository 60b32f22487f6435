"""The TFDS data set `output_prediction`: what does this call return?

Prepared without TensorFlow and without a network, in the array_record format.
"""

import dataclasses
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from jaxgrpo.problems.output_prediction.assembly import Report, build_splits
from jaxgrpo.problems.output_prediction.execution import Example


@dataclass(eq=False)
class OutputPredictionConfig(tfds.core.BuilderConfig):
    """What the records depend on. The name says it all, so folders never clash."""

    name: str = dataclasses.field(init=False)
    seed: int = 0
    """Seed of the generator."""
    num_train: int = 20_000
    num_validation: int = 512
    num_test: int = 2_000

    def __post_init__(self) -> None:
        self.name = (
            f"seed{self.seed}-train{self.num_train}"
            f"-validation{self.num_validation}-test{self.num_test}"
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Examples by split."""
        return {
            "train": self.num_train,
            "validation": self.num_validation,
            "test": self.num_test,
        }


class OutputPrediction(tfds.core.GeneratorBasedBuilder):
    """Small Python functions with a call and the `repr` of its result."""

    # TFDS would look for checksums of downloads beside this file, by way of a package
    # it does not declare (importlib_resources). There are no downloads.
    code_path = None

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012

    def __init__(self, *, num_workers: int, report: Report, **kwargs: object) -> None:
        self._num_workers = num_workers
        self._report = report
        super().__init__(file_format="array_record", **kwargs)

    @property
    def _config(self) -> OutputPredictionConfig:
        assert isinstance(self.builder_config, OutputPredictionConfig)
        return self.builder_config

    def _info(self) -> tfds.core.DatasetInfo:
        features = {
            "id": tfds.features.Text(),
            "code": tfds.features.Text(),
            "call": tfds.features.Text(),
            "answer": tfds.features.Text(),
            "output_type": tfds.features.Text(),
            "difficulty": tfds.features.Text(),
            "executed_lines": tfds.features.Scalar(dtype=np.int32),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description=OutputPrediction.__doc__,
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, dict[str, object]]]]:
        del dl_manager  # Everything is generated here.
        splits = build_splits(
            self._config.seed,
            self._config.sizes,
            num_workers=self._num_workers,
            report=self._report,
        )
        return {
            name: self._generate_examples(name, examples)
            for name, examples in splits.items()
        }

    def _generate_examples(
        self, split: str, examples: list[Example]
    ) -> Iterator[tuple[int, dict[str, object]]]:
        prefix = f"{self.name}/{self._config.seed}/{split}"
        for index, example in enumerate(examples):
            yield index, {"id": f"{prefix}/{index:06d}", **asdict(example)}

    def _log_download_bytes(self) -> None:
        """Prints nothing: nothing is downloaded, and `report` tells the rest."""

    def _log_download_done(self) -> None:
        """Prints nothing."""


def prepare(
    config: OutputPredictionConfig,
    cache_dir: Path,
    *,
    num_workers: int,
    report: Report,
) -> OutputPrediction:
    """Returns the builder of a prepared data set, preparing it if it is missing.

    Records are written to a temporary folder that takes its final name when it is
    complete: an interrupted build leaves nothing that a later run would read. Two
    processes that need the same data set build it once; the second waits.

    Args:
      config: Seed and sizes.
      cache_dir: Folder of all prepared data sets; made if missing.
      num_workers: Processes that build; 0 takes one per CPU core.
      report: Called as the data set grows; never if it is already there.
    """
    cache_dir.mkdir(parents=True, exist_ok=True)
    lock = cache_dir / f".output_prediction-{config.name}.lock"
    with lock.open("w") as file, _quiet_tfds():
        fcntl.flock(file, fcntl.LOCK_EX)
        builder = OutputPrediction(
            config=config,
            data_dir=os.fspath(cache_dir),
            num_workers=num_workers,
            report=report,
        )
        for leftover in Path(builder.data_dir).parent.glob("incomplete.*"):
            shutil.rmtree(leftover)  # Of a build that was killed: we hold the lock.
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(try_download_gcs=False)
        )
    return builder


@contextmanager
def _quiet_tfds() -> Iterator[None]:
    """Keeps TFDS from warning that the config is a custom one, and from its bars."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    tfds.disable_progress_bar()
    try:
        yield
    finally:
        tfds.enable_progress_bar()
        logger.setLevel(level)
