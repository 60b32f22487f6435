"""Weights of rewards that change during a run: from dense to sparse, say."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_ERROR_CLASS = "error_class/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the weight of one reward depends on the step."""

    weight: float
    """Before the change."""
    shape: Literal["constant", "linear", "switch"] = "constant"
    to: float = 0.0
    """After the change."""
    begin: int = 0
    """Steps made before it changes, or begins to."""
    end: int = 0
    """Steps made before a linear change is complete."""
    when: str = ""
    """Metric that a switch waits for; empty where `begin` decides."""
    reaches: float = 0.0
    """Value of that metric which it waits for."""
    falling: bool = False
    """Whether the metric has to come down to it, and not up."""

    def at(self, step: int, *, has_switched: bool = False) -> float:
        """Returns the weight of a step.

            linear   w + (to - w) clip((step - begin) / (end - begin), 0, 1)
            switch   w before, `to` from `begin` on, or once it has switched

        Args:
          step: Steps made before this one.
          has_switched: Whether the metric has reached its value in an earlier step.

        Example:
          >>> slope = Schedule(weight=1.0, shape="linear", to=0.0, begin=10, end=20)
          >>> [slope.at(step) for step in (0, 10, 15, 20, 99)]
          [1.0, 1.0, 0.5, 0.0, 0.0]
        """
        if self.shape == "linear":
            share = (step - self.begin) / (self.end - self.begin)
            return self.weight + (self.to - self.weight) * min(max(share, 0.0), 1.0)
        if self.shape == "switch" and self.when:
            return self.to if has_switched else self.weight
        if self.shape == "switch":
            return self.to if step >= self.begin else self.weight
        return self.weight

    def is_met(self, metrics: Mapping[str, float]) -> bool:
        """Returns whether a step's metrics are what the switch waits for.

            m >= reaches,    or m <= reaches where it is falling

        A metric that the step does not have, or that is NaN, decides nothing; except
        that shares of error classes are logged where they are not 0.

        Args:
          metrics: Of the step.

        Example:
          >>> rare = Schedule(weight=1.0, shape="switch", to=0.0,
          ...                 when="error_class/timeout", reaches=0.1, falling=True)
          >>> [rare.is_met({"error_class/timeout": share}) for share in (0.2, 0.1)]
          [False, True]
        """
        absent = 0.0 if self.when.startswith(_ERROR_CLASS) else math.nan
        value = metrics.get(self.when, absent)
        return value <= self.reaches if self.falling else value >= self.reaches


class RewardWeights:
    """The weights of all rewards, step after step. Remembers which have switched.

    Args:
      schedules: By reward, in config order.
    """

    def __init__(self, schedules: Mapping[str, Schedule]):
        self._schedules = dict(schedules)
        self._switched_at: dict[str, int] = {}

    def at(self, step: int) -> dict[str, float]:
        """Returns the weight of each reward in a step.

        Args:
          step: Steps made before this one.
        """
        return {
            name: schedule.at(step, has_switched=name in self._switched_at)
            for name, schedule in self._schedules.items()
        }

    def observe(self, step: int, metrics: Mapping[str, float]) -> list[str]:
        """Takes note of a step's metrics, and returns the rewards that switch by them.

        Args:
          step: Steps made, this one included.
          metrics: Of the step.
        """
        switching = [
            name
            for name, schedule in self._schedules.items()
            if schedule.when
            and name not in self._switched_at
            and schedule.is_met(metrics)
        ]
        self._switched_at |= dict.fromkeys(switching, step)
        return switching

    def metrics(self, step: int) -> dict[str, float]:
        """Returns the weights that change during the run, for the metric log.

        Args:
          step: Steps made before the one that is logged.
        """
        return {
            f"rewards/{name}/weight": weight
            for name, weight in self.at(step).items()
            if self._schedules[name].shape != "constant"
        }

    def state_dict(self) -> dict[str, int]:
        """Returns the step at which each reward switched by a metric."""
        return dict(self._switched_at)

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continues from a saved state."""
        self._switched_at = dict(state)
