"""Scored groups by their rewards alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jaxgrpo.host.records import Completion, Group, Problem, Prompt, Score, Verdict
from jaxgrpo.host.regroup import Turn

WEIGHTS = {"exact": 1.0}


def verdict_of(reward: float) -> Verdict:
    if math.isnan(reward):
        return Verdict(status="INFRA", error_class="infra")
    is_right = reward == 1.0
    return Verdict(
        status="OK" if is_right else "WA",
        error_class="exact" if is_right else "wrong_value",
    )


def rewarded(
    rewards: Sequence[float],
    problem_id: str = "p",
    *,
    policy_step: int = 0,
    draw: int = 0,
    reward_name: str = "exact",
) -> Group:
    """A group of one-token completions with these rewards."""
    problem = Problem(id=problem_id, kind="output", prompt="?", reference="1")
    prompt = Prompt(problem_id=problem_id, text="?", token_ids=np.arange(3, dtype="i4"))
    completions = tuple(
        Completion(
            problem_id=problem_id,
            token_ids=np.array([sample + 10], np.int32),
            text=str(sample),
            token_offsets=np.array([[0, 1]], np.int32),
            finish_reason="eos",
            sampler_logprobs=np.array([-0.1 * sample], np.float32),
            policy_step=policy_step,
            draw=draw,
            sample=sample,
        )
        for sample in range(len(rewards))
    )
    scores = tuple(
        Score(rewards={reward_name: reward}, verdict=verdict_of(reward))
        for reward in rewards
    )
    return Group(
        problem=problem, prompts=(prompt,), completions=completions, scores=scores
    )


def rewards_of(group: Group) -> list[float]:
    return [score.rewards["exact"] for score in group.scores]


@pytest.fixture
def turn() -> Callable[..., Turn]:
    """A step; what it draws and which problems come next may be given."""
    plain = Turn(
        step=0,
        num_steps=100,
        policy_step=0,
        weights=WEIGHTS,
        draw=lambda asks, num_samples: [],
        next_problems=lambda number: [],
    )

    def make(**changes: Any) -> Turn:
        return replace(plain, **changes)

    return make
