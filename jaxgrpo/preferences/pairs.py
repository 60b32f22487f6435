"""Pairs of answers to one problem, of which one passes all tests and one does not."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxgrpo.host.prompts import stable_hash

Rejected = Literal["valid", "running"]
"""Which wrong answers are learned from: all that parse, or those that also run to their
end in every test and only give a wrong result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """What was extracted from a completion, and what the judge said."""

    problem_id: str
    answer: str
    """Never empty, and Python that parses."""
    is_right: bool
    """All tests passed."""
    has_run: bool
    """It ran to its end, right or wrong: no error, no limit exceeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to a problem."""

    problem_id: str
    preferred: str
    """Passes all tests."""
    rejected: str
    """Fails at least one."""


def distinct(answers: Iterable[JudgedAnswer]) -> list[JudgedAnswer]:
    """Returns each answer to a problem once, in the order of first occurrence.

    An answer that was judged right and wrong, as at the edge of a time limit, is left
    out: nothing is to be learned from it.

    Args:
      answers: In any order.
    """
    first: dict[tuple[str, str], JudgedAnswer] = {}
    disputed: set[tuple[str, str]] = set()
    for judged in answers:
        key = judged.problem_id, judged.answer
        if first.setdefault(key, judged).is_right != judged.is_right:
            disputed.add(key)
    return [judged for key, judged in first.items() if key not in disputed]


def pairs_of(
    answers: Sequence[JudgedAnswer], *, rejected: Rejected, per_problem: int, seed: int
) -> list[Pair]:
    """Returns pairs of right and wrong answers, problem by problem.

    No pair occurs twice. Within a problem every right answer is used as often as
    another, up to one pair, and so is every wrong one. Problems with answers of one
    kind only have none. Which pairs a problem gives depends on no other problem.

    Args:
      answers: From `distinct`.
      rejected: Which wrong answers may be in a pair.
      per_problem: Most pairs of a problem.
      seed: Of the choice.

    Example:
      >>> answers = [
      ...     JudgedAnswer(problem_id="p", answer=text, is_right=right, has_run=True)
      ...     for text, right in (("a", True), ("b", False), ("c", False))
      ... ]
      >>> pairs = pairs_of(answers, rejected="valid", per_problem=8, seed=0)
      >>> sorted((pair.preferred, pair.rejected) for pair in pairs)
      [('a', 'b'), ('a', 'c')]
    """
    right: dict[str, list[str]] = {}
    wrong: dict[str, list[str]] = {}
    for judged in answers:
        if judged.is_right:
            right.setdefault(judged.problem_id, []).append(judged.answer)
        elif rejected == "valid" or judged.has_run:
            wrong.setdefault(judged.problem_id, []).append(judged.answer)
    return [
        Pair(problem_id=name, preferred=preferred, rejected=other)
        for name in right
        if name in wrong
        for preferred, other in _balanced(
            right[name], wrong[name], per_problem, (seed, *stable_hash(name))
        )
    ]


def _balanced(
    right: list[str], wrong: list[str], limit: int, seed: tuple[int, ...]
) -> list[tuple[str, str]]:
    """Distinct pairs, each side in turns; all of them where the limit allows."""
    rng = np.random.default_rng(seed)
    # Sorted first: the order in which completions came must not matter.
    right = [sorted(right)[i] for i in rng.permutation(len(right))]
    wrong = [sorted(wrong)[i] for i in rng.permutation(len(wrong))]
    round_length = math.lcm(len(right), len(wrong))
    return [
        (right[i % len(right)], wrong[(i + i // round_length) % len(wrong)])
        for i in range(min(limit, len(right) * len(wrong)))
    ]


def is_held_out(problem_id: str, fraction: float, seed: int) -> bool:
    """Returns whether a problem is one to measure with, not to learn from.

    A matter of its id alone, so that no answer to it is ever on both sides.

    Args:
      problem_id: Of the problem.
      fraction: Of all problems that are held out.
      seed: Of the choice.
    """
    return stable_hash(f"{seed}/{problem_id}")[0] < fraction * 2**32
