"""The TFDS data set `trace_prediction`: what does a program do on its way?"""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import tensorflow_datasets as tfds

from jaxgrpo.problems.generated_builder import GeneratedBuilder
from jaxgrpo.problems.generation import generated_splits, split_of_text
from jaxgrpo.problems.progress import Report
from jaxgrpo.problems.trace_prediction.worker import Asked

WORKER = "jaxgrpo.problems.trace_prediction.worker"
"""Module that makes chunks."""
TEXTS = ("code", "call", "prompt", "answer", "question", "difficulty", "variable")
NUMBERS = ("line", "turn")


class TracePrediction(GeneratedBuilder):
    """Small Python functions with a call, a question about its run, and the answer."""

    def features(self) -> Mapping[str, tfds.features.FeatureConnector]:
        """Texts, but for two numbers."""
        return {
            **{name: tfds.features.Text() for name in TEXTS},
            **{name: tfds.features.Scalar(dtype=np.int32) for name in NUMBERS},
        }

    def splits(
        self, seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
    ) -> Mapping[str, list[Asked]]:
        """No function text is in two splits, nor in another of `output_prediction`."""
        return generated_splits(
            WORKER,
            seed,
            sizes,
            example_of=lambda row: Asked(*row),
            split_of=lambda asked: split_of_text(asked.code),
            key_of=lambda asked: asked.prompt,
            num_workers=num_workers,
            report=report,
        )

    def record(self, example: Asked) -> dict[str, object]:
        """The question as it is."""
        return asdict(example)
