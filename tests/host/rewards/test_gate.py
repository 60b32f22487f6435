import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.rewards.gate import Gate, gated

VALUES = st.one_of(st.floats(-2, 2), st.just(math.nan))


def same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


@given(easy=VALUES, hard=VALUES, at=st.floats(-2, 2))
def test_easy_reward_is_multiplied_by_whether_the_hard_one_is_reached(
    easy: float, hard: float, at: float
):
    counted = gated({"easy": easy, "hard": hard}, {"easy": Gate(of="hard", at=at)})
    expected = math.nan if math.isnan(hard) else easy * (hard >= at)
    assert same(counted["easy"], expected)
    assert same(counted["hard"], hard)


@given(rewards=st.dictionaries(st.sampled_from("abcd"), VALUES, min_size=1))
def test_rewards_without_a_gate_are_as_they_are(rewards: dict[str, float]):
    counted = gated(rewards, {})
    assert list(counted) == list(rewards)
    assert all(same(counted[name], rewards[name]) for name in rewards)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_gates_look_at_values_before_gates(order: tuple[str, str]):
    gates = {"a": Gate(of="b", at=1.0), "b": Gate(of="c", at=1.0)}
    rewards = {"a": 0.5, "b": 1.0, "c": 0.0}
    counted = gated(rewards, {name: gates[name] for name in order})
    assert counted == {"a": 0.5, "b": 0.0, "c": 0.0}


def test_recipe_of_gdpo_lets_no_short_wrong_answer_win():
    # Length pays for right answers only: among wrong ones it no longer matters.
    correct = np.array([1.0, 1.0, 0.0, 0.0])
    short = np.array([1.0, 0.0, 1.0, 0.0])
    gates = {"short": Gate(of="correct", at=1.0)}
    totals = [
        sum(gated({"correct": c, "short": s}, gates).values())
        for c, s in zip(correct, short, strict=True)
    ]
    assert totals == [2.0, 1.0, 0.0, 0.0]
