"""The share of a predicted trace's steps that are exact."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jaxgrpo.host.judge.extraction import THINKING_END, extract
from jaxgrpo.host.records import Completion
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.trace.steps import Anchor, Step, predicted_steps, recorded_steps


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
        predicted = steps_of(completion, anchors)
        rewards.append(math.fsum(step.reward for step in predicted) / len(predicted))
    return rewards


def steps_of(completion: Completion, anchors: Sequence[Anchor]) -> tuple[Step, ...]:
    """Returns the steps in a completion's answer, one per recorded anchor.

    Args:
      completion: In one whose thinking does not end, or is all there is, the answer
        does not begin and all steps are missing.
      anchors: As recorded.
    """
    text = completion.text
    start = max(text.find(THINKING_END), 0) if is_answered(completion) else len(text)
    return predicted_steps(text, anchors, start)


def is_answered(completion: Completion) -> bool:
    """Returns whether a completion's answer begins, as the judge sees it.

    Args:
      completion: Any.
    """
    return not extract(
        completion.text, "raw", in_thought=completion.in_thought
    ).error_class
