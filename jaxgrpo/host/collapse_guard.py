"""Stops a run that collapses, and says why.

A policy that pays itself for being sure gains at first and then collapses: its outputs
grow shorter and shorter, it stops to reason, and what it is sure of is wrong. Its own
reward goes on rising meanwhile. So the guard looks at what that reward does not see:

    length      mean tokens of the last steps' completions against the first steps'
    entropy     likewise, where asked for
    pass rate   of greedy completions on held-out problems, evaluation by evaluation

Reference:
  Intrinsic rewards and their collapse, 2026, https://arxiv.org/abs/2606.20881. Its
  abstract alone was at hand; the conditions are our reading of it.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run must not fall below."""

    window_steps: int
    """Steps averaged over, at the start and now."""
    min_length_ratio: float
    """Least mean length, as a share of the start's; 0 for no limit."""
    min_entropy_ratio: float
    """Least mean entropy, as a share of the start's; 0 for no limit."""
    max_falling: int
    """Falls of the pass rate from one evaluation to the next, in a row, that end the
    run; 0 for no limit."""
    min_fall: float
    """Least fall of the pass rate over all of these: a level rate falls three times in
    a row by chance in one of 24 cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """As much of a run as the guard looks at."""

    first_lengths: tuple[float, ...] = ()
    """Mean tokens of the first steps."""
    last_lengths: tuple[float, ...] = ()
    first_entropies: tuple[float, ...] = ()
    """Mean nats per token of the first steps."""
    last_entropies: tuple[float, ...] = ()
    pass_rates: tuple[float, ...] = ()
    """Of the last evaluations."""


def after_step(
    history: History, *, mean_length: float, entropy: float, limits: Limits
) -> History:
    """Returns the history with one more step.

    Args:
      history: Before it.
      mean_length: Tokens of its completions.
      entropy: Nats per token.
      limits: How many steps to remember.
    """
    window = limits.window_steps
    return replace(
        history,
        first_lengths=(*history.first_lengths, mean_length)[:window],
        last_lengths=(*history.last_lengths, mean_length)[-window:],
        first_entropies=(*history.first_entropies, entropy)[:window],
        last_entropies=(*history.last_entropies, entropy)[-window:],
    )


def after_evaluation(history: History, *, pass_rate: float, limits: Limits) -> History:
    """Returns the history with one more evaluation.

    Args:
      history: Before it.
      pass_rate: Share of the held-out problems that were solved.
      limits: How many evaluations to remember.
    """
    kept = limits.max_falling + 1
    return replace(history, pass_rates=(*history.pass_rates, pass_rate)[-kept:])


def reason_to_stop(history: History, limits: Limits) -> str:
    """Returns why a run should end here, in one line; empty if it may go on.

    Args:
      history: Of the run.
      limits: What it must not fall below.

    Example:
      >>> limits = Limits(window_steps=1, min_length_ratio=0.5, min_entropy_ratio=0.0,
      ...                 max_falling=0, min_fall=0.0)
      >>> history = History()
      >>> for length in (80.0, 90.0, 30.0):
      ...     history = after_step(history, mean_length=length, entropy=1.0,
      ...                          limits=limits)
      >>> reason_to_stop(history, limits)
      'mean completion length is 30 tokens, which is 0.38 of the 80 at the start and
      below guard.min_length_ratio 0.5.'
    """
    reasons = [
        _too_small(
            "length", "tokens", history.first_lengths, history.last_lengths,
            limits.min_length_ratio,
        ),
        _too_small(
            "entropy", "nats", history.first_entropies, history.last_entropies,
            limits.min_entropy_ratio,
        ),
        _falling(history.pass_rates, limits.max_falling, limits.min_fall),
    ]  # fmt: skip
    return " Also, ".join(filter(None, reasons))


def _too_small(
    name: str,
    unit: str,
    first: Sequence[float],
    last: Sequence[float],
    min_ratio: float,
) -> str:
    ratio = ratio_to_start(first, last)
    if not ratio < min_ratio:
        return ""
    return (
        f"mean completion {name} is {_mean(last):.3g} {unit}, which is {ratio:.2g} of "
        f"the {_mean(first):.3g} at the start and below guard.min_{name}_ratio "
        f"{min_ratio:g}."
    )


def _falling(pass_rates: Sequence[float], max_falling: int, min_fall: float) -> str:
    falls = [later < earlier for earlier, later in pairwise(pass_rates)]
    if not max_falling or len(falls) < max_falling or not all(falls):
        return ""
    if pass_rates[0] - pass_rates[-1] < min_fall:
        return ""
    course = ", ".join(f"{rate:.3f}" for rate in pass_rates)
    return (
        f"the pass rate on held-out problems has fallen {max_falling} times in a row "
        f"({course}), which is guard.max_falling."
    )


def ratio_to_start(first: Sequence[float], last: Sequence[float]) -> float:
    """Returns the mean of the last values over that of the first; NaN without any.

    Args:
      first: Of the first steps.
      last: Of the last steps.
    """
    start = _mean(first)
    return _mean(last) / start if start > 0 else math.nan


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


class CollapseGuard:
    """Watches the metrics of a run. Its state is saved with the run's.

    Args:
      limits: What the run must not fall below; None watches nothing.
    """

    def __init__(self, limits: Limits | None) -> None:
        self._limits = limits
        self._history = History()

    @property
    def reason(self) -> str:
        """Why the run should end here; empty if it may go on."""
        if self._limits is None:
            return ""
        return reason_to_stop(self._history, self._limits)

    def observe(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Takes note of a step's metrics, and returns the guard's own.

        Args:
          metrics: Of the step, and of the evaluation after it where there was one.
        """
        if self._limits is None:
            return {}
        self._history = after_step(
            self._history,
            mean_length=metrics["completions/mean_length"],
            entropy=metrics["entropy"],
            limits=self._limits,
        )
        if "eval/exact_match" in metrics:
            pass_rate = metrics["eval/exact_match"]
            self._history = after_evaluation(
                self._history, pass_rate=pass_rate, limits=self._limits
            )
        h = self._history
        return {
            "guard/length_ratio": ratio_to_start(h.first_lengths, h.last_lengths),
            "guard/entropy_ratio": ratio_to_start(h.first_entropies, h.last_entropies),
        }

    def state_dict(self) -> dict[str, Any]:
        """Returns what has been seen, as plain data."""
        fields = dataclasses.asdict(self._history)
        return {name: list(values) for name, values in fields.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[float]]) -> None:
        """Continues from a saved state."""
        self._history = History(**{name: tuple(state[name]) for name in state})
