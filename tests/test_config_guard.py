"""Rewards that the policy gives itself are watched; idle settings are refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from jaxgrpo.config import Config
from jaxgrpo.config_guard import guard_limits, guard_warnings

EVALUATED = {"every_steps": 10}


def config(rewards: dict[str, Any], **tables: Any) -> Config:
    return Config.model_validate(
        {"model": {"checkpoint": "builtin:base"}, "rewards": rewards, **tables}
    )


def complaint(rewards: dict[str, Any], **tables: Any) -> str:
    """Returns the one line with which a configuration is refused."""
    with pytest.raises(ValidationError) as caught:
        config(rewards, **tables)
    (error,) = caught.value.errors()
    return error["msg"]


@pytest.mark.parametrize("name", ["self_certainty", "entropy", "empo", "ttrl"])
def test_intrinsic_reward_turns_the_guard_on(name: str):
    watched = config({name: {}}, evaluation=EVALUATED)
    assert guard_limits(watched) == watched.guard.limits
    assert guard_warnings(watched) == []


def test_verifiable_reward_needs_no_guard():
    assert guard_limits(config({"exact": {}})) is None
    only_logged = config({"exact": {}, "entropy": {"weight": 0.0}})
    assert guard_limits(only_logged) is None and guard_warnings(only_logged) == []


def test_reward_that_will_have_weight_is_watched_from_the_start():
    schedule = {"shape": "switch", "to": 1.0, "begin": 50}
    later = {"entropy": {"weight": 0.0, "schedule": schedule}, "exact": {}}
    assert guard_limits(config(later, evaluation=EVALUATED)) is not None


def test_guard_may_be_asked_for():
    asked = config({"exact": {}}, guard={"mode": "on"}, evaluation=EVALUATED)
    assert guard_limits(asked) is not None


def test_turning_it_off_is_warned_of():
    off = config({"ttrl": {}}, guard={"mode": "off"})
    assert guard_limits(off) is None
    (warning,) = guard_warnings(off)
    assert warning.startswith("ttrl: ") and "guard.mode is 'off'" in warning


def test_mixture_with_a_verifiable_reward_is_never_silent():
    mixed = config(
        {"empo": {}, "exact": {}, "format": {"weight": 0.0}}, evaluation=EVALUATED
    )
    (warning,) = guard_warnings(mixed)
    assert "empo" in warning and "summed with exact." in warning


def test_pass_rate_that_is_never_measured_is_refused():
    assert "evaluation.every_steps is 0" in complaint({"entropy": {}})
    config({"entropy": {}}, guard={"max_falling": 0})


@pytest.mark.parametrize(
    ("guard", "part"),
    [
        ({"window_steps": 9}, "guard.window_steps 9 has no effect"),
        ({"mode": "off", "max_falling": 9}, "guard.mode is 'off'"),
    ],
)
def test_idle_guard_is_refused(guard: dict[str, Any], part: str):
    assert part in complaint({"exact": {}}, guard=guard)


def test_guard_that_looks_at_nothing_is_refused():
    nothing = {"min_length_ratio": 0.0, "max_falling": 0}
    assert "look at nothing" in complaint({"entropy": {}}, guard=nothing)


def test_too_few_evaluations_to_fall_are_refused():
    guard = {"min_length_ratio": 0.0, "max_falling": 3}
    run = {"run": {"num_steps": 20}, "evaluation": {"every_steps": 5}}
    assert "needs 4 evaluations" in complaint({"entropy": {}}, guard=guard, **run)
    config({"entropy": {}}, guard={"max_falling": 3}, **run)


def test_size_of_a_fall_needs_falls_to_be_counted():
    guard = {"max_falling": 0, "min_fall": 0.1}
    assert "min_fall 0.1 has no effect" in complaint({"entropy": {}}, guard=guard)


# Settings of rewards that something else leaves without effect


def test_pass_rate_needs_all_tests_to_be_run():
    message = complaint(
        {"tests": {"mode": "pass_rate"}}, scorer={"stop_at_failure": True}
    )
    assert message.endswith("Set scorer.stop_at_failure = false.")
    config({"tests": {}}, scorer={"stop_at_failure": True})


def test_overlong_has_to_be_reachable():
    sampling = {"max_new_tokens": 512}
    message = complaint({"exact": {}, "overlong": {}}, sampling=sampling)
    assert "more than 16384 tokens" in message and "max_new_tokens 512" in message
    reachable = {"max_tokens": 512, "buffer_tokens": 128}
    config({"exact": {}, "overlong": reachable}, sampling=sampling)


def test_only_block_needs_blocks():
    rewards = {"tests": {}, "format": {"weight": 0.1}}
    assert "only_block" in complaint(rewards, scorer={"extraction": "raw"})
    rewards["format"] |= {"only_block": False}
    config(rewards, scorer={"extraction": "raw"})


def test_steps_of_the_ladder_are_checked():
    message = complaint({"ladder": {"value": 0.8}})
    assert "literal + value + shaping is 1.1" in message
