"""How well made each passing completion of a group is, without running it: GAR's grade.

Three graders, each from 0 to 1, none of which is published:

    ruff         1 - sum of severities / 10, at least 0 (`rewards/ruff.py`)
    length       tokens of the group's shortest passing completion / own tokens
    complexity   the group's least cyclomatic complexity / own
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxgrpo.host.linting import Linter
from jaxgrpo.host.records import Completion, Group, Score
from jaxgrpo.host.rewards import ruff as ruff_reward
from jaxgrpo.host.rewards.judged import Judged

QUALITY = "quality"
"""Name of the column of scores that tells grades, or why there are none."""
_FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySettings:
    """How passing completions are graded."""

    graders: tuple[str, ...]
    """Names in GRADERS; their grades are averaged."""
    floor: float = 0.5
    """Quality of a completion that all graders give 0; in (0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """The passing completions of one group. Both tuples are aligned."""

    completions: tuple[Completion, ...]
    sources: tuple[str, ...]
    """The answer that was taken from each."""


def graded(
    judged: Judged, scores: Sequence[Score], settings: QualitySettings
) -> tuple[Score, ...]:
    """Returns the scores of a group, its passing completions with their quality.

        q_i = floor + (1 - floor) mean over graders of g_i

    Graded are groups with a failing completion and two passing ones at least: in others
    there is nothing to redistribute. If a grader fails on one completion the whole
    group has no grades, and keeps its advantages.

    Args:
      judged: The group.
      scores: Of its completions, in their order.
      settings: Who grades.

    Reference:
      Groupwise Agentic Grading, 2026, https://arxiv.org/abs/2609.32577: there a model
      ranks the passing completions in one workspace. The map from its judgement to q is
      not published; this one is by ratio and not by rank, so that a difference of one
      token stays as small as it is.
    """
    rows = passing_rows(scores)
    if not rows:
        return tuple(scores)
    passing = Passing(
        completions=tuple(judged.completions[row] for row in rows),
        sources=tuple(scores[row].extracted for row in rows),
    )
    changed = list(scores)
    try:
        grades = {name: GRADERS[name](passing) for name in settings.graders}
    except Exception as error:  # A grader must not take the rewards down.
        told = {_FAILED: f"{type(error).__name__}: {error}"}
        for row in rows:
            changed[row] = _with(scores[row], told, None)
        return tuple(changed)
    for place, row in enumerate(rows):
        told = {name: round(given[place], 4) for name, given in grades.items()}
        mean = math.fsum(given[place] for given in grades.values()) / len(grades)
        quality = settings.floor + (1.0 - settings.floor) * mean
        changed[row] = _with(scores[row], told, quality)
    return tuple(changed)


def passing_rows(scores: Sequence[Score]) -> list[int]:
    """Returns the rows that can be graded: the passing ones of a group that has some.

    Args:
      scores: Of a group.

    Returns:
      Their indices; none where fewer than two pass or none that was judged fails.
    """
    judged = [
        (row, score.verdict)
        for row, score in enumerate(scores)
        if score.verdict is not None and score.verdict.status != "INFRA"
    ]
    rows = [row for row, verdict in judged if verdict.is_correct]
    return rows if 2 <= len(rows) < len(judged) else []


def _with(score: Score, told: Mapping[str, object], quality: float | None) -> Score:
    return replace(score, quality=quality, extra=score.extra | {QUALITY: dict(told)})


def quality_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Returns how many groups are graded and how well; of a run that grades.

    Args:
      groups: That are learned from.
    """
    gradable = [g.scores for g in groups if passing_rows(g.scores)]
    qualities = [
        [score.quality for score in scores if score.quality is not None]
        for scores in gradable
    ]
    flat = [quality for found in qualities for quality in found]
    number = sum(map(bool, qualities))
    mean = math.fsum(flat) / len(flat) if flat else math.nan
    return {
        "redistribution/quality_mean": mean,
        "redistribution/graded_groups": float(number),
        "redistribution/ungraded": float(len(gradable) - number),
    }


Grader = Callable[[Passing], list[float]]
_RUFF = ruff_reward.Settings()


def _ruff(passing: Passing) -> list[float]:
    found = Linter(_RUFF.select).violations(passing.sources)
    if any(codes is None for codes in found):
        raise RuntimeError("ruff failed on a program")
    severities = [sum(map(ruff_reward.severity, codes or ())) for codes in found]
    return [1.0 - min(1.0, total / _RUFF.cap) for total in severities]


def _length(passing: Passing) -> list[float]:
    return _relative([len(c.token_ids) for c in passing.completions])


def _complexity(passing: Passing) -> list[float]:
    return _relative([complexity(source) for source in passing.sources])


def _relative(sizes: Sequence[int]) -> list[float]:
    least = min(sizes)
    return [least / size for size in sizes]


GRADERS: dict[str, Grader] = {
    "ruff": _ruff,
    "length": _length,
    "complexity": _complexity,
}
"""By the name that the configuration gives them."""

_BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler,
    ast.comprehension, ast.match_case,
)  # fmt: skip


def complexity(source: str) -> int:
    r"""Returns the cyclomatic complexity of a program: 1 and its decisions.

    A decision is an `if`, an `elif`, a loop, an `except`, a `case`, a conditional
    expression, each `for` and each `if` of a comprehension, and each `and` or `or`.

    Args:
      source: Python.

    Raises:
      SyntaxError: It is not.

    Example:
      >>> complexity("def f(x):\n    return 1 if x and x > 2 else [y for y in x if y]")
      5

    Reference:
      McCabe, A Complexity Measure, 1976. Of a whole program: the functions' decisions
      are added up.
    """
    decisions = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _BRANCHES):
            decisions += 1
        if isinstance(node, ast.comprehension):
            decisions += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            decisions += len(node.values) - 1
    return 1 + decisions


def check_graders(settings: QualitySettings | None) -> None:
    """Raises where grading is not possible on this machine.

    Args:
      settings: Who grades; None for nobody.

    Raises:
      LinterMissingError: Ruff is asked for and not installed.
    """
    if settings is not None and "ruff" in settings.graders:
        ruff_reward.check_installed(_RUFF)
