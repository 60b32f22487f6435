"""The share of a predicted trace's steps that are exact."""

import math
from dataclasses import dataclass

from jaxgrpo.host.judge.extraction import THINKING_END
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.trace.steps import predicted_steps, recorded_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """There is nothing to set."""


def steps(judged: Judged, settings: Settings) -> list[float]:
    """Returns the share of the recorded steps that each completion predicts exactly.

        r = 1/n sum_i [s_i == s*_i]

    Which lines of the text are which steps, `host/trace/steps.py` says.

    Args:
      judged: Of a problem of kind `trace` with a column `steps`. For others it
        abstains.
      settings: None.

    Returns:
      Each in [0, 1], or NaN to abstain.

    Reference:
      StepCodeReasoner, 2026, https://arxiv.org/abs/2605.11922. Differs from it: there
      every step has an advantage of its own on its own tokens, as credit by steps has
      (`host/credit/steps.py`); this is their mean, one reward for the row.
    """
    anchors = recorded_steps(judged.problem)
    if not anchors:
        return [math.nan] * len(judged.completions)
    rewards = []
    for completion in judged.completions:
        start = max(completion.text.find(THINKING_END), 0)
        predicted = predicted_steps(completion.text, anchors, start)
        rewards.append(math.fsum(step.reward for step in predicted) / len(predicted))
    return rewards
