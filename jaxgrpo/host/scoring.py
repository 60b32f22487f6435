"""Verdicts to scores: one completion at a time, in whichever process asks for it."""

import math
import time
from collections.abc import Mapping, Sequence

from jaxgrpo.host.records import Completion, Problem, Score, Verdict
from jaxgrpo.host.rewards import Reward


def score_of(
    problem: Problem,
    completion: Completion,
    verdict: Verdict,
    rewards: Mapping[str, Reward],
) -> Score:
    """Returns the score that a verdict and the reward functions give a completion.

    After an INFRA verdict no reward is asked: all abstain, with the verdict's detail
    as the reason. A failure of ours is never mistaken for a wrong answer.

    Args:
      problem: The problem.
      completion: One of its completions.
      verdict: The judge's.
      rewards: Functions by name; the score keeps their order.
    """
    if verdict.status == "INFRA":
        return abstaining_score(tuple(rewards), verdict, verdict.detail)
    started_s = time.monotonic()
    values = {
        name: float(reward(problem, completion, verdict))
        for name, reward in rewards.items()
    }
    abstaining = [name for name, value in values.items() if math.isnan(value)]
    return Score(
        rewards=values,
        verdict=verdict,
        error_class=verdict.error_class,
        extracted=verdict.extracted,
        spans=verdict.spans,
        abstain_reason=f"no reward from {', '.join(abstaining)}" if abstaining else "",
        timings={"rewards": time.monotonic() - started_s},
    )


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
