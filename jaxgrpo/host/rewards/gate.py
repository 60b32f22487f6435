"""An easy reward counts only where a hard one is reached."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What another reward has to reach."""

    of: str
    """Its name."""
    at: float
    """The least value with which the gate is open."""


def gated(rewards: Mapping[str, float], gates: Mapping[str, Gate]) -> dict[str, float]:
    """Returns the rewards of a completion as they count.

        r'_n = r_n  where r_m >= c,  0 elsewhere

    for a reward n with a gate at value c of reward m. What a gate looks at is m's value
    before any gate of its own, so that the order of gates does not matter. Where m
    abstains, n does.

    Args:
      rewards: By name; NaN abstains.
      gates: By the name of the reward that stands behind it.

    Example:
      >>> gated({"short": 0.5, "tests": 0.0}, {"short": Gate(of="tests", at=1.0)})
      {'short': 0.0, 'tests': 0.0}

    Reference:
      Liu et al., GDPO, 2026, https://arxiv.org/abs/2601.05242, on rewards of different
      priority: the easy reward is conditioned on the hard one.
    """
    counted = dict(rewards)
    for name, gate in gates.items():
        if math.isnan(rewards[gate.of]):
            counted[name] = math.nan
        elif rewards[gate.of] < gate.at:
            counted[name] = 0.0 if not math.isnan(rewards[name]) else math.nan
    return counted
