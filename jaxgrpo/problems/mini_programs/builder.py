"""The TFDS data set `mini_programs`: write a function that does what is said."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields

import tensorflow_datasets as tfds

from jaxgrpo.problems.generated_builder import GeneratedBuilder
from jaxgrpo.problems.generation import generated_splits, split_of_text
from jaxgrpo.problems.mini_programs.execution import Example
from jaxgrpo.problems.progress import Report

WORKER = "jaxgrpo.problems.mini_programs.worker"
"""Module that makes chunks."""
_LISTS = ("knowledge", "planning", "solution")
"""Fields that are stored as the text of a JSON list."""


class MiniPrograms(GeneratedBuilder):
    """Small specifications in English with tests, a reference solution and hints."""

    def features(self) -> Mapping[str, tfds.features.FeatureConnector]:
        """All are texts."""
        return {field.name: tfds.features.Text() for field in fields(Example)}

    def splits(
        self, seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
    ) -> dict[str, list[Example]]:
        """No specification is in two splits, and no two functions that do the same."""
        return generated_splits(
            WORKER,
            seed,
            sizes,
            example_of=lambda row: Example(*row),
            split_of=lambda example: split_of_text(example.behaviour),
            key_of=lambda example: example.prompt,
            num_workers=num_workers,
            report=report,
        )

    def record(self, example: Example) -> dict[str, object]:
        """Lists as JSON, all else as it is."""
        record: dict[str, object] = asdict(example)
        return record | {name: json.dumps(record[name]) for name in _LISTS}
