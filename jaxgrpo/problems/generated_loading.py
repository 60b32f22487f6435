"""Generated data sets as sequences of problems."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.converted import Converted
from jaxgrpo.problems.generated_builder import (
    GeneratedBuilder,
    GeneratedConfig,
    prepare_generated,
)
from jaxgrpo.problems.progress import Report


def load_generated(
    builder: type[GeneratedBuilder],
    problem_of: Callable[[dict[str, object]], Problem],
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
      builder: The data set.
      problem_of: Converts one of its records.
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
    prepared = prepare_generated(
        builder, config, cache_dir, num_workers=num_workers, report=report
    )
    # A decorator hides the method's signature from type checkers.
    as_data_source: Any = prepared.as_data_source
    return Converted(as_data_source(split), problem_of)
