"""How alike a text and the reference look: the dense reward that saturates."""

import difflib
import math
from dataclasses import dataclass

from jaxgrpo.host.rewards.judged import Judged

MAX_CHARACTER_PAIRS = 200_000
"""Longest text times longest reference that are compared character by character."""
_NEGLIGIBLE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """There is nothing to set."""


def similarity(judged: Judged, settings: Settings) -> list[float]:
    """Returns the share of characters that answers have in common with the reference.

        r = 2 M / (|text| + |reference|)

    where M counts the characters in matching blocks: the longest common substring, and
    recursively those to its left and right. r is 1 only for the exact text. A text that
    is wrong in its one hard character is close to 1, so this reward goes on rewarding
    copies when exact match has stopped rising.

    Two edges keep the cost of a row bounded. If the lengths alone keep r under 0.1, it
    is taken as 0. If both are so long that MAX_CHARACTER_PAIRS is exceeded, the reward
    abstains: it is meant for short answers.

    Args:
      judged: The answers found in its texts, which may be the whole texts, are compared
        with the problem's reference.
      settings: None.

    Returns:
      Each in [0, 1], or NaN to abstain.

    Reference:
      Ratcliff and Metzener, Pattern Matching: The Gestalt Approach, Dr. Dobb's Journal,
      July 1988; https://docs.python.org/3/library/difflib.html, `ratio`. Differs from
      the library's default: no character is taken for junk however frequent it is.
    """
    reference = judged.problem.reference
    return [ratio(verdict.extracted, reference) for verdict in judged.verdicts]


def ratio(text: str, reference: str) -> float:
    """Returns the share of characters in common, or NaN where both texts are long.

    Args:
      text: Any text.
      reference: What it should look like.
    """
    if text == reference:
        return 1.0
    bound = 2 * min(len(text), len(reference)) / (len(text) + len(reference))
    if bound < _NEGLIGIBLE:
        return 0.0
    if len(text) * len(reference) > MAX_CHARACTER_PAIRS:
        return math.nan
    return difflib.SequenceMatcher(None, text, reference, autojunk=False).ratio()
