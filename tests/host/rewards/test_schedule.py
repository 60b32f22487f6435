import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.rewards.schedule import RewardWeights, Schedule

DENSE = Schedule(weight=1.0, shape="switch", to=0.0, when="exact_match", reaches=0.5)
SPARSE = Schedule(weight=0.0, shape="switch", to=1.0, begin=30)
FADING = Schedule(weight=1.0, shape="linear", to=0.2, begin=10, end=20)


def test_constant_weight_does_not_change():
    assert {Schedule(weight=0.7).at(step) for step in range(5)} == {0.7}


def test_linear_weight_moves_between_its_two_steps():
    # By hand: 0.8 less over 10 steps.
    expected = {0: 1.0, 10: 1.0, 11: 0.92, 15: 0.6, 20: 0.2, 21: 0.2, 500: 0.2}
    assert {step: FADING.at(step) for step in expected} == pytest.approx(expected)
    assert FADING.at(20) == 1.0 + (0.2 - 1.0)


@given(begin=st.integers(0, 50), length=st.integers(1, 50), to=st.floats(-2, 2))
def test_linear_weight_never_leaves_its_ends(begin: int, length: int, to: float):
    slope = Schedule(weight=1.0, shape="linear", to=to, begin=begin, end=begin + length)
    weights = [slope.at(step) for step in range(begin + length + 5)]
    ordered = sorted(weights, reverse=to < 1.0)
    assert weights == ordered
    assert weights[begin] == 1.0
    assert weights[-1] == pytest.approx(to)


def test_switch_at_a_step_holds_from_the_step_after_so_many():
    assert [SPARSE.at(step) for step in (0, 29, 30, 31)] == [0.0, 0.0, 1.0, 1.0]


def test_switch_by_a_metric_happens_once_and_in_the_next_step():
    weights = RewardWeights({"dense": DENSE, "exact": Schedule(weight=1.0)})
    told = []
    for step, share in enumerate((0.3, math.nan, 0.5, 0.1, 0.9), start=1):
        told.append(
            (
                weights.at(step - 1)["dense"],
                weights.observe(step, {"exact_match": share}),
            )
        )
    assert told == [(1.0, []), (1.0, []), (1.0, ["dense"]), (0.0, []), (0.0, [])]


RARE = Schedule(weight=1.0, shape="switch", when="entropy", reaches=0.5, falling=True)
GONE = Schedule(weight=1.0, shape="switch", when="error_class/timeout", falling=True)


def test_switch_may_wait_for_a_metric_to_fall():
    weights = RewardWeights({"dense": RARE})
    for step, value in enumerate((2.0, math.nan, 0.501), start=1):
        assert weights.observe(step, {"entropy": value}) == []
    assert weights.observe(4, {"entropy": 0.5}) == ["dense"]
    assert weights.observe(5, {"entropy": 9.0}) == []
    assert weights.at(5) == {"dense": 0.0}


@pytest.mark.parametrize("schedule", [DENSE, RARE])
def test_metric_that_a_step_lacks_decides_nothing(schedule: Schedule):
    weights = RewardWeights({"dense": schedule})
    assert weights.observe(1, {"loss": 1.0}) == []
    assert weights.at(1) == {"dense": 1.0}


def test_error_class_that_a_step_lacks_is_none_of_its_rows():
    weights = RewardWeights({"dense": GONE})
    assert weights.observe(1, {"error_class/timeout": 0.01}) == []
    assert weights.observe(2, {"error_class/passed": 1.0}) == ["dense"]


def test_weights_are_in_the_order_of_the_configuration():
    weights = RewardWeights({"b": SPARSE, "a": DENSE})
    assert list(weights.at(0)) == ["b", "a"]


def test_only_weights_that_change_are_logged():
    weights = RewardWeights({"a": FADING, "b": Schedule(weight=1.0)})
    assert weights.metrics(20) == {"rewards/a/weight": FADING.at(20)}


def test_state_that_went_through_json_continues_the_same():
    schedules = {"dense": DENSE, "sparse": SPARSE, "fading": FADING}
    shares = [0.1, 0.4, 0.6, 0.2, 0.7]
    whole, first = RewardWeights(schedules), RewardWeights(schedules)
    for step, share in enumerate(shares, start=1):
        whole.observe(step, {"exact_match": share})
    for step in (1, 2, 3):
        first.observe(step, {"exact_match": shares[step - 1]})
    second = RewardWeights(schedules)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for step in (4, 5):
        assert second.observe(step, {"exact_match": shares[step - 1]}) == []
    assert second.state_dict() == whole.state_dict() == {"dense": 3}
    assert second.at(15) == whole.at(15)
