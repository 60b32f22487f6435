"""The sampling temperature of a run: constant, or raised in stages by diversity."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgrpo.host.diversity import NGRAM


class TemperatureStages:
    """Raises the temperature by a jump when diversity declines below its band.

    After each step the diversity D is taken down. The next stage begins when, over the
    last `window` steps of the present one, the mean of D is below `target` and its
    slope (least squares, per step) is below -`slope`; never before `min_stage_steps`
    of a stage are over, never back, and never by small changes, which unsettle
    training. With one temperature it is constant.

    Args:
      temperatures: Of the stages, ascending.
      target: Diversity to hold.
      slope: Decline a step that counts as one.
      window: Steps that are looked at.
      min_stage_steps: Shortest stage.

    Reference:
      MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777, diversity-determined
      temperature: low to high in stages, one jump from 0.6 to 1.2 or 1.8.
      Differs from it: no rule is given there; this one is our reading.
    """

    name = "temperature"

    def __init__(
        self,
        temperatures: Sequence[float],
        *,
        target: float = 0.0,
        slope: float = 0.0,
        window: int = 1,
        min_stage_steps: int = 1,
    ):
        self._temperatures = tuple(temperatures)
        self._target = target
        self._slope = slope
        self._window = window
        self._min_stage_steps = min_stage_steps
        self._stage = 0
        self._diversities: list[float] = []

    @property
    def current(self) -> float:
        """The temperature of the next step."""
        return self._temperatures[self._stage]

    def start_at(self, stage: int) -> None:
        """Begins with a later stage, as a calibration may ask for."""
        self._stage, self._diversities = stage, []

    def observe(self, diversity: float) -> None:
        """Takes down the diversity of a step, and may begin the next stage.

        Args:
          diversity: Of its completions; NaN where it could not be measured.
        """
        if np.isnan(diversity):
            return
        self._diversities.append(diversity)
        is_last = self._stage == len(self._temperatures) - 1
        if not is_last and self._is_over():
            self.start_at(self._stage + 1)

    def metrics(self) -> dict[str, float]:
        """Temperature and number of the stage."""
        return {
            "sampling/temperature": self.current,
            "sampling/temperature_stage": float(self._stage),
        }

    def state_dict(self) -> dict[str, Any]:
        """Stage, and the diversities of its steps."""
        return {"stage": self._stage, "diversities": list(self._diversities)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues in a saved stage."""
        self._stage, self._diversities = state["stage"], list(state["diversities"])

    def _is_over(self) -> bool:
        seen = self._diversities
        if len(seen) < max(self._min_stage_steps, self._window):
            return False
        recent = np.array(seen[-self._window :])
        slope = np.polyfit(np.arange(len(recent)), recent, 1)[0]
        return bool(recent.mean() < self._target and slope < -self._slope)


def calibrated_stage(
    temperatures: Sequence[float], diversities: Sequence[float], target: float
) -> int:
    """The stage to begin with: the lowest temperature that is diverse enough.

    Args:
      temperatures: Ascending.
      diversities: Measured at each.
      target: Diversity wanted.

    Returns:
      Its place; the last where none is.

    Raises:
      ValueError: If diversity could not be measured.

    Example:
      >>> calibrated_stage([0.6, 1.0, 1.4], [0.5, 0.7, 0.9], 0.68)
      1
    """
    if np.isnan(diversities).any():
        raise ValueError(
            f"the diversity of completions could not be measured: none has {NGRAM} "
            "tokens, so that stages would never change. Raise sampling.max_new_tokens, "
            "or remove temperature.then."
        )
    enough = [d >= target for d in diversities]
    return enough.index(True) if any(enough) else len(temperatures) - 1
