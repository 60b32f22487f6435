"""Random choices that a seed repeats on every machine and every Python.

Only `random.Random.random` is used: its stream is the one that Python promises to
keep between versions.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Dice:
    """Random choices, all made from `random.Random.random`.

    Args:
      seed: Any text; the same text gives the same choices.
    """

    def __init__(self, seed: str):
        self._random = random.Random(seed).random

    def fraction(self) -> float:
        """Returns a number of [0, 1)."""
        return self._random()

    def chance(self, probability: float) -> bool:
        """Returns True with a probability."""
        return self._random() < probability

    def between(self, low: int, high: int) -> int:
        """Returns an integer of [low, high], each equally likely."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, options: Sequence[_T]) -> _T:
        """Returns one of the options, each equally likely."""
        return options[int(self._random() * len(options))]

    def weighted(self, options: Sequence[_T], cumulative: Sequence[float]) -> _T:
        """Returns one of the options, by the running sums of their weights."""
        return options[bisect_right(cumulative, self._random() * cumulative[-1])]
