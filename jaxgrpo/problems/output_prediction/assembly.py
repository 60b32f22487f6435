"""The splits of the data set, by the text of the function."""

from jaxgrpo.problems.generation import generated_splits, split_of_text
from jaxgrpo.problems.output_prediction.execution import Example
from jaxgrpo.problems.progress import Report

WORKER = "jaxgrpo.problems.output_prediction.worker"
"""Module that makes chunks."""

Splits = dict[str, list[Example]]


def build_splits(
    seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
) -> Splits:
    """Returns the splits of a data set; they do not depend on the workers.

    No function text is in two splits, whatever the seed.

    Args:
      seed: Seed of the data set.
      sizes: Examples wanted by split: train, validation and test.
      num_workers: Processes to use; 0 takes one per CPU core.
      report: Called after every chunk.
    """
    return generated_splits(
        WORKER,
        seed,
        sizes,
        example_of=lambda row: Example(*row),
        split_of=lambda example: split_of_text(example.code),
        key_of=lambda example: (example.code, example.call),
        num_workers=num_workers,
        report=report,
    )
