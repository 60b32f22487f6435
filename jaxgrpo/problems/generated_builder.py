"""TFDS data sets whose examples a seeded generator makes.

Prepared without TensorFlow and without a network, in the array_record format.
"""

import abc
import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tensorflow_datasets as tfds

from jaxgrpo.problems.preparing import prepare_once
from jaxgrpo.problems.progress import Report


@dataclass(eq=False)
class GeneratedConfig(tfds.core.BuilderConfig):
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


class GeneratedBuilder(tfds.core.GeneratorBasedBuilder):
    """Base of the data sets: says what an example is and how the splits are made."""

    # TFDS would look for checksums of downloads beside this file, by way of a package
    # it does not declare (importlib_resources). There are no downloads.
    code_path = None

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}  # noqa: RUF012

    def __init__(self, *, num_workers: int, report: Report, **kwargs: object) -> None:
        self._num_workers = num_workers
        self._report = report
        super().__init__(file_format="array_record", **kwargs)

    @abc.abstractmethod
    def features(self) -> Mapping[str, tfds.features.FeatureConnector]:
        """Returns the features of an example, besides its id."""

    @abc.abstractmethod
    def splits(
        self, seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
    ) -> Mapping[str, list[Any]]:
        """Returns the examples of each split."""

    @abc.abstractmethod
    def record(self, example: Any) -> dict[str, object]:
        """Returns the values of an example's features."""

    @property
    def _config(self) -> GeneratedConfig:
        assert isinstance(self.builder_config, GeneratedConfig)
        return self.builder_config

    def _info(self) -> tfds.core.DatasetInfo:
        features = {"id": tfds.features.Text(), **self.features()}
        return tfds.core.DatasetInfo(
            builder=self,
            description=type(self).__doc__,
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, dict[str, object]]]]:
        del dl_manager  # Everything is generated here.
        splits = self.splits(
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
        self, split: str, examples: list[Any]
    ) -> Iterator[tuple[int, dict[str, object]]]:
        prefix = f"{self.name}/{self._config.seed}/{split}"
        for index, example in enumerate(examples):
            yield index, {"id": f"{prefix}/{index:06d}", **self.record(example)}

    def _log_download_bytes(self) -> None:
        """Prints nothing: nothing is downloaded, and `report` tells the rest."""

    def _log_download_done(self) -> None:
        """Prints nothing."""


_Builder = TypeVar("_Builder", bound=GeneratedBuilder)


def prepare_generated(
    builder: type[_Builder],
    config: GeneratedConfig,
    cache_dir: Path,
    *,
    num_workers: int,
    report: Report,
) -> _Builder:
    """Returns the builder of a prepared data set, preparing it if it is missing.

    Args:
      builder: The data set.
      config: Seed and sizes.
      cache_dir: Folder of all prepared data sets; made if missing.
      num_workers: Processes that build; 0 takes one per CPU core.
      report: Called as the data set grows; never if it is already there.
    """

    def make_builder() -> _Builder:
        return builder(
            config=config,
            data_dir=os.fspath(cache_dir),
            num_workers=num_workers,
            report=report,
        )

    return prepare_once(cache_dir / f".{builder.name}-{config.name}.lock", make_builder)
