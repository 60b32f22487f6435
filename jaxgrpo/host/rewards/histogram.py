"""How the values of a reward are spread over a step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NUM_BINS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of values between neighbouring edges, the last edge included."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


def histogram_of(values: Sequence[float]) -> Histogram | None:
    """Returns the histogram of what is no NaN, in equal bins; None of nothing.

    Equal values lie in the middle of a range of length 1.

    Args:
      values: Of one reward; NaN abstains.

    Example:
      >>> histogram_of([0.0, 1.0, 1.0]).counts
      (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2)
    """
    present = np.array([value for value in values if value == value], np.float64)
    if not len(present):
        return None
    counts, edges = np.histogram(present, bins=NUM_BINS)
    return Histogram(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()))
