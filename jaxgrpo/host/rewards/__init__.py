"""Rewards: one module each, under the reward's name.

A module holds the dataclass `Settings`, whose fields are what a configuration may say
about the reward, and a function of the module's name:

    def exact(judged: Judged, settings: Settings) -> list[float]

one number per completion; NaN abstains. It may hold a function `columns` of the same
arguments, which returns numbers by name to be logged beside the reward.

Rewards that are computed elsewhere have neither: of scope `device` are those that need
logits or a model, of scope `process` the user's own.
"""

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from jaxgrpo.host.rewards.judged import Judged

Scope = Literal["host", "process", "device"]
Reward = Callable[[Judged], list[float]]
"""A reward with its settings."""
Columns = Callable[[Judged], Sequence[Mapping[str, float]]]
"""Numbers by name for each completion, as a reward's module may give them too."""

REWARDS: dict[str, Scope] = {
    "exact": "host",
    "similarity": "host",
    "tests": "host",
    "ladder": "host",
    "format": "host",
    "overlong": "host",
    "repetition": "host",
    "ruff": "host",
    "steps": "host",
    "empo": "host",
    "ttrl": "host",
    "self_certainty": "device",
    "entropy": "device",
    "learned": "device",
    "function": "process",
}
"""Where each reward is computed, by name. Its module is imported on first use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSpec:
    """A reward of a run."""

    name: str
    """What the run calls it."""
    kind: str
    """One of `REWARDS`."""
    settings: Any
    """The `Settings` of its module."""

    @property
    def scope(self) -> Scope:
        """Where it is computed."""
        return REWARDS[self.kind]


def reward_names() -> tuple[str, ...]:
    """Returns the names of all rewards."""
    return tuple(REWARDS)


def reward_summary(kind: str) -> str:
    """Returns what a reward is, in a line.

    Args:
      kind: One of `reward_names()`.

    Example:
      >>> reward_summary("exact")
      '1 for a right answer, 0 for every other: the sparse reward.'
    """
    return (_module_of(kind).__doc__ or "").splitlines()[0]


def settings_class(kind: str) -> type[Any]:
    """Returns the dataclass of a reward's settings.

    Args:
      kind: One of `reward_names()`.
    """
    return _module_of(kind).Settings


def reward_spec(reward: str | RewardSpec) -> RewardSpec:
    """Returns a specification as it is, and a name with the reward's default settings.

    Args:
      reward: Specification, or one of `reward_names()`.
    """
    if isinstance(reward, RewardSpec):
        return reward
    return RewardSpec(name=reward, kind=reward, settings=settings_class(reward)())


def load_reward(spec: RewardSpec) -> Reward:
    """Returns the function of a reward with its settings.

    Args:
      spec: Of scope `host`.
    """
    function = getattr(_module_of(spec.kind), spec.kind)
    return partial(function, settings=spec.settings)


def load_columns(spec: RewardSpec) -> Columns | None:
    """Returns what a reward tells of each completion besides its value, if anything.

    Args:
      spec: Of scope `host`.
    """
    function = getattr(_module_of(spec.kind), "columns", None)
    return None if function is None else partial(function, settings=spec.settings)


def check_installed(spec: RewardSpec) -> None:
    """Raises where a reward of the host cannot be computed on this machine.

    Args:
      spec: Of scope `host`.

    Raises:
      ValueError: Something that it needs is missing.
    """
    check = getattr(_module_of(spec.kind), "check_installed", None)
    if check is not None:
        check(spec.settings)


def checked_specs(rewards: Sequence[str | RewardSpec]) -> tuple[RewardSpec, ...]:
    """Returns the specifications of distinct rewards, in the order given.

    Args:
      rewards: Specifications, or names of rewards with their default settings.
    """
    specs = tuple(map(reward_spec, rewards))
    names = [spec.name for spec in specs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"rewards {repeated} are given more than once. Name each reward once."
        )
    return specs


def _module_of(kind: str) -> Any:
    if kind not in REWARDS:
        nearest = difflib.get_close_matches(kind, REWARDS, n=1, cutoff=0.0)
        raise ValueError(
            f"no reward is named {kind!r}. Did you mean {nearest[0]!r}? "
            f"There are: {', '.join(REWARDS)}."
        )
    return importlib.import_module(f"{__name__}.{kind}")
