import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.device.objective.pass_rates import reweighted_pass_rate_reward
from jaxgrpo.host.rewards import tests as reward
from jaxgrpo.host.rewards.tests import Settings
from tests.host.rewards.groups import of_tests

MODES = ("binary", "pass_rate", "reweighted")


def rewards(mode: str, *rows: str) -> list[float]:
    return reward.tests(of_tests(*rows), Settings(mode=mode))  # type: ignore[arg-type]


def test_binary_is_the_default():
    assert reward.tests(of_tests("++", "+-"), Settings()) == [1.0, 0.0]


def test_pass_rate_counts_the_tests_that_were_left_out():
    assert rewards("pass_rate", "+++", "+-", "") == [1.0, 1 / 3, 0.0]


def test_reweighted_by_hand():
    # Passed by 3, 1 and 0 of 4: weights 1/4, 3/4 and 1, in all 2.
    found = rewards("reweighted", "+--", "++-", "+--", "---")
    assert found == pytest.approx([1 / 8, 1 / 2, 1 / 8, 0.0])


def test_completions_that_share_a_verdict_count_each():
    # Equal programs are judged once. Passed by 3 and 1 of 4: weights 1/4 and 3/4.
    judged = of_tests("+-", "-+")
    common, other = judged.verdicts
    shared = replace(judged, verdicts=(common, common, common, other))
    found = reward.tests(shared, Settings(mode="reweighted"))
    assert found == pytest.approx([1 / 4, 1 / 4, 1 / 4, 3 / 4])


def test_reweighted_is_the_pass_rate_where_everything_passes():
    assert rewards("reweighted", "++", "++") == [1.0, 1.0]


def test_row_without_a_decision_does_not_weigh_the_tests():
    with_it = rewards("reweighted", "+-", "!", "++")
    assert math.isnan(with_it[1])
    assert [with_it[0], with_it[2]] == rewards("reweighted", "+-", "++")


@pytest.mark.parametrize("mode", MODES)
@given(rows=st.lists(st.text("+-", min_size=3, max_size=3), min_size=1, max_size=6))
@settings(deadline=None, max_examples=50)
def test_all_modes_agree_on_all_and_nothing(mode: str, rows: list[str]):
    for row, value in zip(rows, rewards(mode, *rows), strict=True):
        assert 0.0 <= value <= 1.0
        assert (value == 1.0) == (row == "+++")
        assert value == 0.0 or "+" in row


on_device = jax.jit(reweighted_pass_rate_reward)


@given(rows=st.lists(st.text("+-", min_size=4, max_size=4), min_size=5, max_size=5))
@settings(deadline=None, max_examples=10)
def test_reweighted_is_that_of_the_device(rows: list[str]):
    is_passed_BJ = jnp.array([[mark == "+" for mark in row] for row in rows])
    theirs = on_device(is_passed_BJ, jnp.ones((5, 4), bool), jnp.zeros(5, int))
    np.testing.assert_allclose(rewards("reweighted", *rows), theirs, rtol=1e-5)


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode 'passrate'. Use one of binary"):
        Settings(mode="passrate")  # type: ignore[arg-type]
