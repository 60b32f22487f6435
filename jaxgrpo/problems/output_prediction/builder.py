"""The TFDS data set `output_prediction`: what does this call return?"""

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
import tensorflow_datasets as tfds

from jaxgrpo.problems.generated_builder import GeneratedBuilder
from jaxgrpo.problems.output_prediction.assembly import Splits, build_splits
from jaxgrpo.problems.output_prediction.execution import Example
from jaxgrpo.problems.progress import Report


class OutputPrediction(GeneratedBuilder):
    """Small Python functions with a call and the `repr` of its result."""

    def features(self) -> Mapping[str, tfds.features.FeatureConnector]:
        """Texts, but for a count."""
        texts = ("code", "call", "answer", "output_type", "difficulty")
        return {
            **{name: tfds.features.Text() for name in texts},
            "executed_lines": tfds.features.Scalar(dtype=np.int32),
        }

    def splits(
        self, seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
    ) -> Splits:
        """No function text is in two splits."""
        return build_splits(seed, sizes, num_workers=num_workers, report=report)

    def record(self, example: Example) -> dict[str, object]:
        """The example as it is."""
        return asdict(example)
