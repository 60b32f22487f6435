"""Verdicts to scores: the completions of a group, in whichever process asks for it."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jaxgrpo.host.records import Score, Verdict
from jaxgrpo.host.rewards import Columns, Reward
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.sandbox.levels import SandboxUnavailableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """What one reward gave the completions of a group. All tuples are aligned."""

    values: tuple[float, ...]
    """NaN abstains."""
    failures: tuple[str, ...]
    """How the reward failed on a completion; empty where it did not."""
    seconds: float = 0.0
    """Time that it took, in all."""
    columns: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Columns that a function of the user's logged."""
    numbers: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """What else the reward tells of each completion, by name."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers that it logged."""


def earned(reward: Reward, judged: Judged, columns_of: Columns | None = None) -> Earned:
    """Returns what a reward of the host gives a group, and any failure as a reason.

    Args:
      reward: A function with its settings.
      judged: The group.
      columns_of: What else the reward tells of each completion; None for nothing.
    """
    started_s = time.monotonic()
    try:
        values = tuple(map(float, reward(judged)))
        rows = columns_of(judged) if columns_of else ()
        if len(values) != len(judged.completions):
            raise ValueError(
                f"{len(values)} values for {len(judged.completions)} completions"
            )
    except SandboxUnavailableError:
        raise
    except Exception as error:  # A reward must not take the other rewards down.
        return failed(f"{type(error).__name__}: {error}", len(judged.completions))
    return Earned(
        values=values,
        failures=("",) * len(values),
        seconds=time.monotonic() - started_s,
        numbers={
            column: tuple(row.get(column, 0.0) for row in rows)
            for column in dict.fromkeys(name for row in rows for name in row)
        },
    )


def failed(reason: str, num_completions: int) -> Earned:
    """Returns what a reward gives that failed on a whole group.

    Args:
      reason: How, in words.
      num_completions: Of the group.
    """
    return Earned(
        values=(math.nan,) * num_completions, failures=(reason,) * num_completions
    )


def scores_of(judged: Judged, by_name: Mapping[str, Earned]) -> tuple[Score, ...]:
    """Returns the scores of a group, one per completion.

    After an INFRA verdict all rewards abstain, with the verdict's detail as the reason.
    A failure of ours is never mistaken for a wrong answer.

    Args:
      judged: The group.
      by_name: What each reward gave it; scores keep their order.
    """
    return tuple(
        abstaining_score(tuple(by_name), verdict, verdict.detail)
        if verdict.status == "INFRA"
        else _score(row, verdict, by_name)
        for row, verdict in enumerate(judged.verdicts)
    )


def _score(row: int, verdict: Verdict, by_name: Mapping[str, Earned]) -> Score:
    num_rows = {name: len(given.values) for name, given in by_name.items()}
    failures = {
        name: given.failures[row]
        for name, given in by_name.items()
        if given.failures[row]
    }
    extra: dict[str, object] = {}
    logged: dict[str, float] = {}
    for name, given in by_name.items():
        for column, values in given.columns.items():
            extra[f"{name}/{column}" if column in extra else column] = values[row]
        for column, values in given.numbers.items():
            extra[f"{name}/{column}"] = values[row]
        for metric, value in given.metrics.items():
            logged[f"{name}/{metric}" if metric in logged else metric] = value
    rewards = {name: given.values[row] for name, given in by_name.items()}
    return Score(
        rewards=rewards,
        verdict=verdict,
        error_class=verdict.error_class,
        extracted=verdict.extracted,
        spans=verdict.spans,
        abstain_reason=_reason(rewards, failures),
        failures=failures,
        timings={
            f"reward/{name}": given.seconds / num_rows[name]
            for name, given in by_name.items()
        },
        extra=extra,
        logged=logged,
    )


def _reason(rewards: Mapping[str, float], failures: Mapping[str, str]) -> str:
    silent = [
        name
        for name, value in rewards.items()
        if math.isnan(value) and name not in failures
    ]
    parts = [f"{name}: {reason}" for name, reason in failures.items()]
    if silent:
        parts.append(f"no reward from {', '.join(silent)}")
    return "; ".join(parts)


def abstaining_score(
    reward_names: Sequence[str], verdict: Verdict, reason: str
) -> Score:
    """Returns the score of a completion that earns no reward: every one is NaN.

    Args:
      reward_names: In config order.
      verdict: The judge's, or an INFRA verdict if there is none.
      reason: Why the rewards abstain, in words.
    """
    return Score(
        rewards=dict.fromkeys(reward_names, math.nan),
        verdict=verdict,
        error_class=verdict.error_class,
        extracted=verdict.extracted,
        spans=verdict.spans,
        abstain_reason=reason,
    )
