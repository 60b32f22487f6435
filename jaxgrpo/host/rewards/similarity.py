"""How alike a text and the reference look: the dense reward that saturates."""

import difflib
import math

from jaxgrpo.host.records import Completion, Problem, Verdict

MAX_CHARACTER_PAIRS = 200_000
"""Longest text times longest reference that are compared character by character."""
_NEGLIGIBLE = 0.1


def similarity(problem: Problem, completion: Completion, verdict: Verdict) -> float:
    """Returns the share of characters that the text has in common with the reference.

        r = 2 M / (|text| + |reference|)

    where M counts the characters in matching blocks: the longest common substring, and
    recursively those to its left and right. r is 1 only for the exact text. A text that
    is wrong in its one hard character is close to 1, so this reward goes on rewarding
    copies when exact match has stopped rising.

    Two edges keep the cost of a row bounded. If the lengths alone keep r under 0.1, it
    is taken as 0. If both are so long that MAX_CHARACTER_PAIRS is exceeded, the reward
    abstains: it is meant for short answers.

    Args:
      problem: Its reference is compared with.
      completion: Its text is.
      verdict: Not used.

    Returns:
      In [0, 1], or NaN to abstain.

    Reference:
      Ratcliff and Metzener, Pattern Matching: The Gestalt Approach, Dr. Dobb's Journal,
      July 1988; https://docs.python.org/3/library/difflib.html, `ratio`. Differs from
      the library's default: no character is taken for junk however frequent it is.
    """
    text, reference = completion.text, problem.reference
    if text == reference:
        return 1.0
    bound = 2 * min(len(text), len(reference)) / (len(text) + len(reference))
    if bound < _NEGLIGIBLE:
        return 0.0
    if len(text) * len(reference) > MAX_CHARACTER_PAIRS:
        return math.nan
    return difflib.SequenceMatcher(None, text, reference, autojunk=False).ratio()
