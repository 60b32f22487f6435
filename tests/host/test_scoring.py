import math
from collections.abc import Callable

import pytest

from jaxgrpo.host.judge import infra_verdict
from jaxgrpo.host.records import Completion, Problem, Verdict
from jaxgrpo.host.scoring import abstaining_score, score_of

PROBLEM = Problem(id="p", kind="output", prompt="", reference="5")
RIGHT = Verdict(status="OK", error_class="exact", extracted="5")


def two(problem: Problem, completion: Completion, verdict: Verdict) -> float:
    return 2.0


def shy(problem: Problem, completion: Completion, verdict: Verdict) -> float:
    return math.nan


def test_score_keeps_the_order_of_rewards(make_completion: Callable[..., Completion]):
    score = score_of(PROBLEM, make_completion("5"), RIGHT, {"two": two, "exact": two})
    assert list(score.rewards.items()) == [("two", 2.0), ("exact", 2.0)]
    assert score.abstain_reason == ""


def test_score_says_what_the_judge_said(make_completion: Callable[..., Completion]):
    score = score_of(PROBLEM, make_completion("5"), RIGHT, {"two": two})
    assert (score.verdict, score.error_class) == (RIGHT, "exact")
    assert score.extracted == "5"


def test_reward_that_abstains_is_named(make_completion: Callable[..., Completion]):
    score = score_of(PROBLEM, make_completion("5"), RIGHT, {"two": two, "shy": shy})
    assert score.rewards["two"] == 2.0
    assert math.isnan(score.rewards["shy"])
    assert score.abstain_reason == "no reward from shy"


def test_no_reward_is_asked_after_an_infrastructure_error(
    make_completion: Callable[..., Completion],
):
    def never(problem: Problem, completion: Completion, verdict: Verdict) -> float:
        pytest.fail("a reward was asked")

    verdict = infra_verdict("the disk is full")
    score = score_of(PROBLEM, make_completion("5"), verdict, {"a": never, "b": never})
    assert list(score.rewards) == ["a", "b"]
    assert all(math.isnan(value) for value in score.rewards.values())
    assert score.abstain_reason == "the disk is full"
    assert score.error_class == "infra"


def test_abstaining_score_keeps_the_verdict():
    score = abstaining_score(["a"], RIGHT, "why not")
    assert score.verdict is RIGHT
    assert math.isnan(score.rewards["a"])
    assert score.abstain_reason == "why not"
