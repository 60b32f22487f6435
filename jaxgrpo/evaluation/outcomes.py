"""From scored completions to what each came to, and to the numbers of an evaluation."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxgrpo.evaluation.estimates import (
    Interval,
    majority_at_k,
    mean_and_error,
    pass_at_k,
)
from jaxgrpo.host.judge import ERROR_CLASSES
from jaxgrpo.host.judge.literal import LITERAL_CLASSES
from jaxgrpo.host.judge.votes import PROGRAM_KINDS, vote_of
from jaxgrpo.host.records import Completion, Group, ProblemKind, Score, VerdictStatus

_LITERAL_KINDS: tuple[ProblemKind, ...] = ("output", "trace")
"""Kinds whose answer is compared with a literal."""

Evaluation = dict[str, Any]
"""`num_problems`, `dropped_prompts`, and {"value", "se"} by metric name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one completion came to."""

    status: VerdictStatus
    error_class: str
    num_tokens: int
    is_clipped: bool
    """Cut off by the token budget."""
    vote: str
    """Equal for samples of a problem that say the same; empty without an answer."""
    num_passed: int = 0
    num_tests: int = 0

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict on the completion, not only our own failure."""
        return self.status != "INFRA"

    @property
    def is_correct(self) -> bool:
        """Whether everything that was judged passed."""
        return self.status == "OK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one problem."""

    problem_id: str
    kind: ProblemKind
    tags: Mapping[str, str] = field(default_factory=dict)
    greedy: Answer
    samples: tuple[Answer, ...] = ()
    """Empty where none were drawn."""


def answers_of(group: Group) -> tuple[Answer, ...]:
    """Returns what each completion of a scored group came to.

    Args:
      group: With scores.
    """
    return tuple(
        _answer(group.problem.kind, completion, score)
        for completion, score in zip(group.completions, group.scores, strict=True)
    )


def _answer(kind: ProblemKind, completion: Completion, score: Score) -> Answer:
    verdict = score.verdict
    return Answer(
        status="INFRA" if verdict is None else verdict.status,
        error_class=score.error_class,
        num_tokens=len(completion.token_ids),
        is_clipped=completion.finish_reason == "length",
        vote="" if verdict is None else vote_of(kind, verdict),
        num_passed=0 if verdict is None else verdict.num_passed,
        num_tests=0 if verdict is None else verdict.num_tests,
    )


def columns_of(
    outcomes: Sequence[Outcome], pass_at: Sequence[int]
) -> dict[str, np.ndarray]:
    """Returns the value of each metric for each problem; NaN where it has none.

    A greedy completion that could not be judged counts as not exact, and shows in
    `errored`. A sample that could not be judged is as if it had not been drawn; a
    problem with fewer than k judged samples has no value at k.

    Args:
      outcomes: In the order that the values keep.
      pass_at: The k of pass@k and, above 1, of majority@k.
    """
    greedy = [outcome.greedy for outcome in outcomes]
    columns = {"exact_match": _array(answer.is_correct for answer in greedy)}
    for name in _classes(outcomes):
        columns[f"error_class/{name}"] = _array(
            answer.error_class == name for answer in greedy
        )
    columns["errored"] = _array(not answer.is_judged for answer in greedy)
    if any(outcome.kind in PROGRAM_KINDS for outcome in outcomes):
        columns["tests_passed"] = _array(map(_share_passed, outcomes))
    columns["mean_length"] = _array(answer.num_tokens for answer in greedy)
    columns["clipped_ratio"] = _array(answer.is_clipped for answer in greedy)
    if any(outcome.samples for outcome in outcomes):
        columns |= _columns_of_samples(outcomes, pass_at)
    return columns


def summary(
    columns: Mapping[str, np.ndarray],
    num_dropped: int = 0,
    intervals: Mapping[str, Interval] | None = None,
) -> Evaluation:
    """Returns the means over problems with their errors, and intervals if given.

    Args:
      columns: From `columns_of`; at least one problem.
      num_dropped: Problems left out because their prompt is too long.
      intervals: By metric, to stand beside the means as `low` and `high`.
    """
    evaluation: Evaluation = {
        "num_problems": len(columns["exact_match"]),
        "dropped_prompts": num_dropped,
    }
    for name, values in columns.items():
        mean, error = mean_and_error(values)
        evaluation[name] = {"value": mean, "se": error}
        if intervals is not None:
            low, high = intervals[name]
            evaluation[name] |= {"low": low, "high": high}
    return evaluation


def _columns_of_samples(
    outcomes: Sequence[Outcome], pass_at: Sequence[int]
) -> dict[str, np.ndarray]:
    judged = [[a for a in outcome.samples if a.is_judged] for outcome in outcomes]
    counts = [(len(found), sum(a.is_correct for a in found)) for found in judged]
    columns: dict[str, np.ndarray] = {}
    for k in pass_at:
        columns[f"pass@{k}"] = _array(
            pass_at_k(n, c, k) if n >= k else math.nan for n, c in counts
        )
    for k in pass_at:
        if k > 1:  # majority@1 is pass@1
            columns[f"majority@{k}"] = _array(
                majority_at_k(_ballot(found), len(found), k)
                if len(found) >= k
                else math.nan
                for found in judged
            )
    shares = {
        "frac_reward_all_zero": [c == 0 for _, c in counts],
        "frac_reward_mixed": [0 < c < n for n, c in counts],
        "frac_reward_all_one": [c == n for n, c in counts],
    }
    for name, flags in shares.items():
        columns[name] = _array(
            flag if n else math.nan for flag, (n, _) in zip(flags, counts, strict=True)
        )
    return columns


def _ballot(answers: Sequence[Answer]) -> list[tuple[int, int]]:
    """How many samples gave each answer, and how many of them are correct."""
    sizes = Counter(answer.vote for answer in answers if answer.vote)
    correct = Counter(a.vote for a in answers if a.vote and a.is_correct)
    return [(size, correct[vote]) for vote, size in sizes.items()]


def _classes(outcomes: Sequence[Outcome]) -> list[str]:
    """Classes to report: all of literals where these are asked for; what occurs."""
    found = {o.greedy.error_class for o in outcomes if o.greedy.is_judged}
    if any(outcome.kind in _LITERAL_KINDS for outcome in outcomes):
        found |= set(LITERAL_CLASSES)
    known = [*LITERAL_CLASSES, *ERROR_CLASSES]
    return [name for name in known if name in found] + sorted(found - set(known))


def _share_passed(outcome: Outcome) -> float:
    answer = outcome.greedy
    if outcome.kind not in PROGRAM_KINDS or not answer.is_judged:
        return math.nan
    return answer.num_passed / answer.num_tests if answer.num_tests else math.nan


def _array(values: Any) -> np.ndarray:
    return np.array([float(value) for value in values], np.float64)
