"""The data set `trace_prediction` as sequences of problems."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.converted import Converted
from jaxgrpo.problems.generated_builder import GeneratedConfig, prepare_generated
from jaxgrpo.problems.progress import Report
from jaxgrpo.problems.trace_prediction.builder import NUMBERS, TracePrediction

COLUMNS = ("code", "call", "question", "variable")
"""Texts that a problem keeps beside its message and its answer."""


def load(
    split: str,
    *,
    cache_dir: Path,
    seed: int,
    sizes: Mapping[str, int],
    num_workers: int,
    report: Report,
) -> Sequence[Problem]:
    """Returns a split, which is prepared first if it is missing.

    Args:
      split: `train`, `validation` or `test`.
      cache_dir: Folder of prepared data sets; made if missing.
      seed: Seed of the generator.
      sizes: Problems by split.
      num_workers: Processes that prepare; 0 takes one per CPU core.
      report: Called with (done, wanted) while problems are made.
    """
    config = GeneratedConfig(
        seed=seed,
        num_train=sizes["train"],
        num_validation=sizes["validation"],
        num_test=sizes["test"],
    )
    builder = prepare_generated(
        TracePrediction, config, cache_dir, num_workers=num_workers, report=report
    )
    # A decorator hides the method's signature from type checkers.
    as_data_source: Any = builder.as_data_source
    return Converted(as_data_source(split), trace_problem)


def trace_problem(record: dict[str, object]) -> Problem:
    """Converts one record, whose texts are UTF-8 bytes."""
    text = {k: v.decode() for k, v in record.items() if isinstance(v, bytes)}
    columns: dict[str, object] = {name: text[name] for name in COLUMNS}
    for name in NUMBERS:
        columns[name] = int(record[name])  # type: ignore[call-overload]
    return Problem(
        id=text["id"],
        kind="trace",
        prompt=text["prompt"],
        reference=text["answer"],
        tags={"question": text["question"], "difficulty": text["difficulty"]},
        columns=columns,
    )
