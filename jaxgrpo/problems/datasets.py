"""Data sets by name, as sequences of problems."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.output_prediction.assembly import Report
from jaxgrpo.problems.progress import ProgressLine


def load_problems(
    name: str,
    split: str,
    *,
    cache_dir: Path,
    seed: int,
    num_train: int,
    num_validation: int,
    num_test: int,
    build_workers: int,
    report: Report | None = None,
) -> Sequence[Problem]:
    """Returns a split of a data set, which is prepared first if it is missing.

    Args:
      name: `output_prediction`.
      split: `train`, `validation` or `test`.
      cache_dir: Folder of prepared data sets; made if missing, `~` is expanded.
      seed: Seed of the data set's generator.
      num_train: Problems of the train split.
      num_validation: Problems of the validation split.
      num_test: Problems of the test split.
      build_workers: Processes that prepare the data set; 0 takes one per CPU core.
      report: Called with (done, wanted) while the data set is prepared; lines on
        standard error if not given.

    Returns:
      Random access; a record is read and converted when it is asked for.
    """
    if name != "output_prediction":
        raise ValueError(
            f"unknown data set: {name!r}. Set data.dataset to 'output_prediction'."
        )
    from jaxgrpo.problems.output_prediction.builder import (
        OutputPredictionConfig,
        prepare,
    )

    config = OutputPredictionConfig(
        seed=seed, num_train=num_train, num_validation=num_validation, num_test=num_test
    )
    if split not in config.sizes:
        raise ValueError(f"unknown split: {split!r}. Take one of {list(config.sizes)}.")
    builder = prepare(
        config,
        cache_dir.expanduser(),
        num_workers=build_workers,
        report=report or ProgressLine(f"Preparing {name}", sys.stderr),
    )
    # A decorator hides the method's signature from type checkers.
    as_data_source: Any = builder.as_data_source
    return OutputProblems(as_data_source(split))


class OutputProblems(Sequence[Problem]):
    """Records of `output_prediction` as problems of the kind `output`."""

    def __init__(self, records: Sequence[dict[str, object]]):
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"problem {index} of {len(self)}")
        return output_problem(self._records[index % len(self)])


def output_problem(record: dict[str, object]) -> Problem:
    """Converts one record, whose texts are UTF-8 bytes."""
    text = {k: v.decode() for k, v in record.items() if isinstance(v, bytes)}
    return Problem(
        id=text["id"],
        kind="output",
        prompt=f"{text['code']}\n{text['call']}",
        reference=text["answer"],
        tags={"output_type": text["output_type"], "difficulty": text["difficulty"]},
        columns={
            "code": text["code"],
            "call": text["call"],
            "executed_lines": int(record["executed_lines"]),  # type: ignore[arg-type]
        },
    )
