"""The TFDS data set `step_prediction`: what does a program print on its way?"""

from collections.abc import Mapping
from dataclasses import asdict, fields

import tensorflow_datasets as tfds

from jaxgrpo.problems.generated_builder import GeneratedBuilder
from jaxgrpo.problems.generation import generated_splits, split_of_text
from jaxgrpo.problems.progress import Report
from jaxgrpo.problems.step_prediction.worker import Stepped

WORKER = "jaxgrpo.problems.step_prediction.worker"
"""Module that makes chunks."""


class StepPrediction(GeneratedBuilder):
    """Small Python functions that print their steps, a call, and what it prints."""

    def features(self) -> Mapping[str, tfds.features.FeatureConnector]:
        """Texts."""
        return {field.name: tfds.features.Text() for field in fields(Stepped)}

    def splits(
        self, seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
    ) -> Mapping[str, list[Stepped]]:
        """No function text is in two splits, nor in another of `output_prediction`."""
        return generated_splits(
            WORKER,
            seed,
            sizes,
            example_of=lambda row: Stepped(*row),
            split_of=lambda stepped: split_of_text(stepped.code),
            key_of=lambda stepped: (stepped.code, stepped.call),
            num_workers=num_workers,
            report=report,
        )

    def record(self, example: Stepped) -> dict[str, object]:
        """The example as it is."""
        return asdict(example)
