import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.collapse_guard import (
    CollapseGuard,
    History,
    Limits,
    after_evaluation,
    after_step,
    reason_to_stop,
)

LIMITS = Limits(
    window_steps=2, min_length_ratio=0.5, min_entropy_ratio=0.0, max_falling=2,
    min_fall=0.0,
)  # fmt: skip


def metrics(length: float, entropy: float = 1.0, pass_rate: float | None = None):
    found = {"completions/mean_length": length, "entropy": entropy}
    return found if pass_rate is None else found | {"eval/exact_match": pass_rate}


def reasons(lengths: list[float], limits: Limits = LIMITS) -> list[bool]:
    """Whether the run should end, after each step."""
    history = History()
    found = []
    for length in lengths:
        history = after_step(history, mean_length=length, entropy=1.0, limits=limits)
        found.append(bool(reason_to_stop(history, limits)))
    return found


def stops_by(pass_rates: list[float], limits: Limits = LIMITS) -> bool:
    history = History()
    for rate in pass_rates:
        history = after_evaluation(history, pass_rate=rate, limits=limits)
    return bool(reason_to_stop(history, limits))


def test_a_level_pass_rate_that_falls_by_chance_goes_on():
    limits = replace(LIMITS, min_fall=0.03)
    assert not stops_by([0.500, 0.495, 0.490], limits)
    assert stops_by([0.50, 0.49, 0.46], limits)


def test_run_ends_where_the_last_steps_are_half_as_long_as_the_first():
    # 100 at the start; the last two make 60, 50 and then 49.
    lengths = [120.0, 80.0, 70.0, 50.0, 50.0, 48.0]
    assert reasons(lengths) == [False] * 5 + [True]


def test_reason_says_what_fell_by_how_much_and_which_limit():
    guard = CollapseGuard(LIMITS)
    for length in (100.0, 100.0, 40.0, 40.0):
        guard.observe(metrics(length))
    assert guard.reason == (
        "mean completion length is 40 tokens, which is 0.4 of the 100 at the start and "
        "below guard.min_length_ratio 0.5."
    )


def test_one_short_step_is_no_collapse():
    assert not any(reasons([100.0, 100.0, 20.0, 100.0, 100.0]))


@pytest.mark.parametrize(
    ("pass_rates", "stops"),
    [
        ([0.5, 0.4, 0.3], True),
        ([0.2, 0.5, 0.4, 0.3], True),
        ([0.5, 0.4, 0.4], False),
        ([0.5, 0.4, 0.5, 0.4], False),
        ([0.5, 0.4], False),
        ([0.0, 0.0, 0.0], False),
    ],
)
def test_run_ends_where_the_pass_rate_falls_again_and_again(pass_rates, stops: bool):
    assert stops_by(pass_rates) == stops


def test_entropy_counts_if_asked_for():
    limits = Limits(
        window_steps=1, min_length_ratio=0.0, min_entropy_ratio=0.1, max_falling=0,
        min_fall=0.0,
    )  # fmt: skip
    guard = CollapseGuard(limits)
    guard.observe(metrics(9.0, entropy=2.0, pass_rate=0.9))
    guard.observe(metrics(1.0, entropy=0.3, pass_rate=0.1))
    assert guard.reason == ""
    found = guard.observe(metrics(1.0, entropy=0.1))
    assert "entropy is 0.1 nats, which is 0.05 of the 2" in guard.reason
    assert found == {
        "guard/length_ratio": pytest.approx(1 / 9),
        "guard/entropy_ratio": pytest.approx(0.05),
    }


def test_guard_that_is_off_sees_nothing():
    guard = CollapseGuard(None)
    assert guard.observe({}) == {} and guard.reason == ""


steps = st.lists(
    st.tuples(
        st.floats(0, 100), st.floats(0, 3), st.none() | st.sampled_from([0.1, 0.2, 0.3])
    ),
    max_size=12,
)


@given(steps=steps, cut=st.integers(0, 12))
@settings(deadline=None)
def test_interruption_changes_nothing(steps, cut: int):
    whole, interrupted = CollapseGuard(LIMITS), CollapseGuard(LIMITS)
    for number, step in enumerate(steps):
        if number == cut:
            saved = json.loads(json.dumps(interrupted.state_dict()))
            interrupted = CollapseGuard(LIMITS)
            interrupted.load_state_dict(saved)
        assert repr(whole.observe(metrics(*step))) == repr(
            interrupted.observe(metrics(*step))
        )
        assert whole.reason == interrupted.reason


@given(st.lists(st.floats(50, 100), min_size=1, max_size=12))
@settings(deadline=None)
def test_no_length_above_half_of_any_other_ends_a_run(lengths: list[float]):
    assert not any(reasons(lengths))


def test_run_without_lengths_goes_on():
    assert not any(reasons([math.nan, math.nan, 1.0]))
    assert not any(reasons([0.0, 0.0, 0.0]))
