"""Data sets by name, as sequences of problems."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jaxgrpo.config_data import DataConfig
from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats import load_format
from jaxgrpo.problems.formats.format import Format
from jaxgrpo.problems.progress import ProgressLine, Report
from jaxgrpo.problems.store.settings import INEXPRESSIBLE, StoreSettings
from jaxgrpo.problems.store.sources import find_sources
from jaxgrpo.problems.store.splits import SPLITS
from jaxgrpo.problems.where import matching

if TYPE_CHECKING:
    from jaxgrpo.problems.store.builder import Problems


ENDINGS = (".jsonl", ".jsonl.gz", ".parquet", ".json", ".json.gz", ".csv", ".csv.gz")
"""Of files with rows of the user's own, the first that is there first."""


def load_problems(
    data: DataConfig, split: str, *, report: Report | None = None
) -> Sequence[Problem]:
    """Returns a split of the configured data set, prepared first if it is missing.

    Args:
      data: Which data set, where it is, and how much of it.
      split: `train`, `validation` or `test`.
      report: Called with (done, wanted) while the data set is prepared; wanted is 0
        while it is not known. Lines on standard error if not given.

    Returns:
      Random access; a record is read and converted when it is asked for, and tests
      stay on disk.

    Raises:
      ValueError: The split is unknown or empty, a file is missing, or a row of it is
        no problem.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split: {split!r}. Take one of {list(SPLITS)}.")
    report = report or ProgressLine(f"Preparing {data.dataset}", sys.stderr)
    if data.is_generated:
        return _generated(data, split, report)
    builder = prepared_store(data, report)
    problems = _stored(data, builder, split)
    if problems is None:
        raise ValueError(_no_split(data, builder, split))
    return problems


def load_splits(
    data: DataConfig, report: Report | None = None
) -> dict[str, Sequence[Problem]]:
    """Returns all splits of the configured data set that have problems.

    Args:
      data: Which data set, where it is, and how much of it.
      report: As for `load_problems`.
    """
    report = report or ProgressLine(f"Preparing {data.dataset}", sys.stderr)
    if data.is_generated:
        return {split: _generated(data, split, report) for split in SPLITS}
    builder = prepared_store(data, report)
    found = {split: _stored(data, builder, split) for split in SPLITS}
    return {split: problems for split, problems in found.items() if problems}


def prepared_store(data: DataConfig, report: Report) -> "Problems":
    """Returns the builder of a data set that is not made here, prepared.

    Args:
      data: Which data set, and where it is.
      report: As for `load_problems`.
    """
    # Imported late: TFDS takes a second, and most commands need no data.
    from jaxgrpo.problems.store.builder import prepare

    data_set = format_of(data)
    cache_dir = Path(data.cache_dir).expanduser()
    return prepare(
        data_set,
        find_sources(data_set, data.path, cache_dir),
        settings_of(data),
        cache_dir,
        columns=tuple(sorted(data.columns.items())),
        report=report,
    )


def format_of(data: DataConfig) -> Format:
    """Returns how the rows of a data set are read that is not made here."""
    found = load_format(data.dataset)
    if data.dataset != "file":
        return found
    from jaxgrpo.problems.formats.file import columns_problem

    names = {split: (f"{split}.*", f"{split}[-_]*.*") for split in SPLITS}
    return replace(
        found,
        files=names | {"": tuple(f"*{ending}" for ending in ENDINGS)},
        problem=partial(columns_problem, columns=data.columns),
    )


def settings_of(data: DataConfig) -> StoreSettings:
    """Returns what the configuration says of how rows become records."""
    return StoreSettings(
        malformed=data.malformed,
        max_tests=data.max_tests,
        max_test_bytes=data.max_test_bytes,
        splits=data.splits,
        validation_fraction=data.validation_fraction,
        test_fraction=data.test_fraction,
        seed=data.seed,
        per_row=data.per_row,
    )


def _stored(
    data: DataConfig, builder: "Problems", split: str
) -> Sequence[Problem] | None:
    from jaxgrpo.problems.store.reading import stored_problems

    limit = data.limit_of(split)
    found = stored_problems(
        builder,
        split,
        limit=0 if data.where else limit,
        include_inexpressible=data.include_inexpressible,
    )
    return found and matching(found, data.where, limit)


def _generated(data: DataConfig, split: str, report: Report) -> Sequence[Problem]:
    module = importlib.import_module(f"jaxgrpo.problems.{data.dataset}.loading")
    problems = module.load(
        split,
        cache_dir=Path(data.cache_dir).expanduser(),
        seed=data.seed,
        sizes={name: data.limit_of(name) for name in SPLITS},
        num_workers=data.build_workers,
        report=report,
    )
    return matching(problems, data.where)


def _no_split(data: DataConfig, builder: "Problems", split: str) -> str:
    from jaxgrpo.problems.store.builder import kept_counts

    sizes = kept_counts(builder).sizes
    marked = sizes.get(split + INEXPRESSIBLE, 0)
    if marked:
        return (
            f"{data.dataset}: all {marked} problems of the split {split!r} have tests "
            "that must run in the program's own process. Set "
            "data.include_inexpressible = true to take them all the same."
        )
    have = ", ".join(f"{name} {size}" for name, size in sizes.items())
    return (
        f"{data.dataset} has no problems for the split {split!r}, only {have}. Set "
        "data.splits = 'hashed' to divide all of them anew, take another split, or "
        "add the file."
    )
