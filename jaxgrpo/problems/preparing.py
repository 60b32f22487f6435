"""Prepares a TFDS data set once, without TensorFlow and without a network."""

import fcntl
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import tensorflow_datasets as tfds

Builder = TypeVar("Builder", bound=tfds.core.DatasetBuilder)


def prepare_once(lock: Path, make_builder: Callable[[], Builder]) -> Builder:
    """Returns the builder of a prepared data set, preparing it if it is missing.

    Records are written to a temporary folder that takes its final name when it is
    complete: an interrupted build leaves nothing that a later run would read. Two
    processes that need the same data set build it once; the second waits.

    Args:
      lock: File that stands for the data set; made, with its folder, if missing.
      make_builder: Called while the lock is held.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file, _quiet_tfds():
        fcntl.flock(file, fcntl.LOCK_EX)
        builder = make_builder()
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
