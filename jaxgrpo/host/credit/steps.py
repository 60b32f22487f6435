"""Credit by steps: what each predicted step of a completion earns, and on which tokens.

The device makes advantages of it (`device/objective/credit.py`), one for each step.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxgrpo.host.decoding import tokens_of_span
from jaxgrpo.host.records import Completion, Score, Span, StepRewards
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.rewards.steps import is_answered, steps_of
from jaxgrpo.host.trace.steps import Anchor, recorded_steps

MAX_STEPS = 10
"""Steps of a problem at most; completions of problems with more have none."""
STEP = "step"
"""Label of the spans in scores."""
REWARDS = "step_rewards"
"""Column of scores that holds what each step earned; null where it is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """How steps are credited."""

    dropout: float = 0.0
    """Share of the steps before the last whose credit is left out."""
    seed: int = 0
    """Of what is drawn at random."""


def step_rewards(judged: Judged, settings: StepSettings) -> list[StepRewards | None]:
    """Returns what the steps of each completion of a group earn.

        r_i = [step i is predicted exactly]      r_n = [the answer is right]

    The last step is the answer, which the judge has decided on; it runs to the end of
    the completion. The others are found in the text (`host/trace/steps.py`); a step
    that is missing, or out of its order, has no token and earns 0. One that is
    left out earns nothing (NaN), and its tokens are those of the next step. An answer
    that never begins, since thinking does not end, has no steps and no spans: all earn
    0, the last on all tokens.

    Args:
      judged: Of a problem with a column `steps`; else nothing is found.
      settings: How.

    Returns:
      One a completion; None after an INFRA verdict, and where the problem has no steps
      or more than MAX_STEPS.

    Reference:
      StepCodeReasoner, 2026, https://arxiv.org/abs/2605.11922 (r_i and r_final).
    """
    anchors = recorded_steps(judged.problem)
    if not 0 < len(anchors) <= MAX_STEPS:
        return [None] * len(judged.completions)
    return [
        None
        if verdict.status == "INFRA"
        else _of_completion(
            completion,
            anchors,
            is_correct=verdict.is_correct,
            is_left_out=left_out(completion, len(anchors), settings),
        )
        for completion, verdict in zip(judged.completions, judged.verdicts, strict=True)
    ]


def left_out(
    completion: Completion, num_steps: int, settings: StepSettings
) -> tuple[bool, ...]:
    """Returns which steps of a problem are left out; all samples of a draw agree.

    Args:
      completion: Tells the problem, the policy and the draw.
      num_steps: Of the problem; the last is never left out.
      settings: The share, and the seed.
    """
    place = completion.problem_id, completion.policy_step, completion.draw
    draws = random.Random(f"step_dropout {settings.seed} {place}")
    flags = [draws.random() < settings.dropout for _ in range(num_steps - 1)]
    return (*flags, False)


def with_steps(score: Score, steps: StepRewards | None) -> Score:
    """Returns a score that tells what each step earned.

    Args:
      score: Of the completion.
      steps: From `step_rewards`.
    """
    if steps is None:
        return score
    told = [None if math.isnan(reward) else reward for reward in steps.rewards]
    spans = [Span(start=start, end=end, label=STEP) for start, end in steps.spans]
    return replace(
        score,
        steps=steps,
        spans=(*score.spans, *spans),
        extra=score.extra | {REWARDS: told},
    )


def _of_completion(
    completion: Completion,
    anchors: Sequence[Anchor],
    *,
    is_correct: bool,
    is_left_out: Sequence[bool],
) -> StepRewards:
    text, offsets_T2 = completion.text, completion.token_offsets
    predicted = steps_of(completion, anchors)
    rewards: list[float] = []
    ends: list[int] = []
    spans: list[tuple[int, int]] = []
    begin, num_tokens = 0, 0
    for step, is_out in zip(predicted[:-1], is_left_out[:-1], strict=True):
        rewards.append(math.nan if is_out else step.reward)
        if not is_out and not step.is_missing:
            _, end = tokens_of_span(offsets_T2, step.start, step.end)
            num_tokens = max(num_tokens, end)
            spans.append((begin, step.end))
            begin = step.end
        ends.append(num_tokens)
    rewards.append(float(is_correct))
    ends.append(len(completion.token_ids))
    if begin < len(text) and is_answered(completion):
        spans.append((begin, len(text)))
    return StepRewards(
        rewards=tuple(rewards),
        ends=tuple(ends),
        num_missing=sum(step.is_missing for step in predicted),
        spans=tuple(spans),
    )
