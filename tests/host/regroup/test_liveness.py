"""A group teaches only if its rewards differ."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.objective.advantages import group_advantages
from jaxgrpo.host.records import Group
from jaxgrpo.host.regroup.liveness import (
    draws_after,
    group_totals,
    is_live,
    spread_score,
    total_reward,
)

from .conftest import WEIGHTS, rewarded


@pytest.mark.parametrize(
    ("rewards", "live"),
    [
        ((0.0, 0.0, 1.0), True),
        ((0.0, 0.0, 0.0), False),
        ((1.0, 1.0), False),
        ((0.1 + 0.2, 0.3), True),  # not equal, however close
        ((math.nan, 1.0, 1.0), False),
        ((math.nan, math.nan), False),
        ((math.nan, 0.0, 1.0), True),
    ],
)
def test_a_group_is_live_if_its_rewards_differ(rewards, live):
    assert is_live(rewarded(rewards), WEIGHTS) == live


def with_two_rewards(pairs) -> Group:
    from dataclasses import replace

    group = rewarded([0.0] * len(pairs))
    scores = tuple(
        replace(score, rewards={"a": a, "b": b})
        for score, (a, b) in zip(group.scores, pairs, strict=True)
    )
    return replace(group, scores=scores)


WEIGHTS_OF_TWO = {"a": 1.0, "b": 1.0}


def test_decoupled_rewards_are_live_though_their_sums_tie():
    group = with_two_rewards([(1.0, 0.0), (0.5, 0.5), (0.5, 0.5), (0.25, 0.75)])
    weights = {"a": 2.0, "b": 1.0}
    tied = with_two_rewards([(1.0, 0.0), (0.0, 2.0)])
    assert not is_live(tied, weights)
    assert is_live(tied, weights, is_decoupled=True)
    assert is_live(group, weights, is_decoupled=True)
    assert not is_live(tied, {"a": 0.0, "b": 0.0}, is_decoupled=True)


@pytest.mark.parametrize(
    "pairs",
    [
        [(1.0, 0.0), (0.0, 1.0)],
        [(0.1, 0.3), (0.2, 0.2), (0.3, 0.1)],
        [(1.0, math.nan), (1.0, math.nan), (math.nan, 0.5)],
        [(math.nan, math.nan), (1.0, 0.0)],
    ],
)
def test_opposed_rewards_have_no_decoupled_advantages(pairs):
    group = with_two_rewards(pairs)
    advantages_B = group_advantages(
        jnp.array(pairs),
        jnp.zeros(len(pairs), jnp.int32),
        combine="normalize_then_sum",
    )
    np.testing.assert_allclose(advantages_B, 0.0, atol=1e-2)
    assert not is_live(group, WEIGHTS_OF_TWO, is_decoupled=True)
    assert spread_score(group, WEIGHTS_OF_TWO, is_decoupled=True) == 0.0


def test_a_reward_of_weight_zero_has_no_say():
    group = with_two_rewards([(1.0, math.nan), (0.0, math.nan)])
    weights = {"a": 2.0, "b": 0.0}
    assert group_totals(group, weights).tolist() == [2.0, 0.0]
    assert math.isnan(total_reward(group.scores[0], {"a": 2.0, "b": 1.0}))


def test_the_score_is_that_of_the_source():
    """sum |A| times std, of advantages divided by that std."""
    rewards = np.array([1.0, 0.0, 0.0, 0.5])
    advantages = (rewards - rewards.mean()) / rewards.std(ddof=1)
    expected = np.abs(advantages).sum() * rewards.std(ddof=1)
    assert spread_score(rewarded(rewards.tolist()), WEIGHTS) == pytest.approx(expected)
    assert spread_score(rewarded([1.0, 1.0]), WEIGHTS) == 0.0
    assert spread_score(rewarded([math.nan]), WEIGHTS) == 0.0


def test_the_next_draw_of_a_problem_is_a_new_one():
    groups = [rewarded([0.0], "a"), rewarded([0.0], "a", draw=1), rewarded([0.0], "b")]
    assert draws_after(groups) == {"a": 2, "b": 1}
