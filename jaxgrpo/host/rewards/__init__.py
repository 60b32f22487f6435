"""Rewards that the host computes: one module each, holding a function of its name.

A reward is a function of a problem, a completion and its verdict, and returns a number;
NaN abstains. It is never asked about a completion whose verdict is INFRA.
"""

import difflib
import importlib
from collections.abc import Callable, Sequence

from jaxgrpo.host.records import Completion, Problem, Verdict

Reward = Callable[[Problem, Completion, Verdict], float]

REWARDS: dict[str, str] = {
    "exact": "jaxgrpo.host.rewards.exact",
    "similarity": "jaxgrpo.host.rewards.similarity",
}
"""Module of each reward by name. Imported on first use."""


def reward_names() -> tuple[str, ...]:
    """Returns the names of all rewards of the host."""
    return tuple(REWARDS)


def load_reward(name: str) -> Reward:
    """Returns the reward function of a name.

    Args:
      name: One of `reward_names()`.
    """
    if name not in REWARDS:
        nearest = difflib.get_close_matches(name, REWARDS, n=1, cutoff=0.0)
        raise ValueError(
            f"no reward is named {name!r}. Did you mean {nearest[0]!r}? "
            f"There are: {', '.join(REWARDS)}."
        )
    return getattr(importlib.import_module(REWARDS[name]), name)


def load_rewards(names: Sequence[str]) -> dict[str, Reward]:
    """Returns reward functions by name, in the order given.

    Args:
      names: Distinct names of rewards.
    """
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise ValueError(
            f"rewards {repeated} are given more than once. Name each reward once."
        )
    return {name: load_reward(name) for name in names}
