import math
from collections.abc import Callable

import pytest

from jaxgrpo.host.judge import infra_verdict
from jaxgrpo.host.records import Completion, Problem, Verdict
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.sandbox.levels import SandboxUnavailableError
from jaxgrpo.host.scoring import Earned, abstaining_score, earned, scores_of

PROBLEM = Problem(id="p", kind="output", prompt="", reference="5")
RIGHT = Verdict(status="OK", error_class="exact", extracted="5")
INFRA = infra_verdict("the disk is full")


@pytest.fixture
def judged(make_completion: Callable[..., Completion]) -> Judged:
    completions = (make_completion("5"), make_completion("6"))
    return Judged(problem=PROBLEM, completions=completions, verdicts=(RIGHT, INFRA))


def gave(*values: float, **more: object) -> Earned:
    return Earned(values=values, failures=("",) * len(values), **more)  # type: ignore[arg-type]


# What a reward gives


def test_values_of_a_reward_are_taken_as_they_are(judged: Judged):
    given = earned(lambda judged: [1, math.nan], judged)
    assert given.values[0] == 1.0
    assert math.isnan(given.values[1])
    assert given.failures == ("", "")
    assert given.seconds > 0.0


def test_failing_reward_abstains_and_says_how(judged: Judged):
    given = earned(lambda judged: [1.0 / len(judged.problem.prompt)], judged)
    assert all(map(math.isnan, given.values))
    assert all("ZeroDivisionError: " in failure for failure in given.failures)


def test_reward_with_a_value_too_few_has_failed(judged: Judged):
    given = earned(lambda judged: [1.0], judged)
    assert given.failures == ("ValueError: 1 values for 2 completions",) * 2


def test_missing_sandbox_is_no_failure_of_the_reward(judged: Judged):
    def run(judged: Judged) -> list[float]:
        raise SandboxUnavailableError("no namespaces")

    with pytest.raises(SandboxUnavailableError):
        earned(run, judged)


# What a score says


def test_score_keeps_the_order_of_rewards(judged: Judged):
    score, _ = scores_of(judged, {"two": gave(2.0, 2.0), "exact": gave(1.0, 0.0)})
    assert list(score.rewards.items()) == [("two", 2.0), ("exact", 1.0)]
    assert score.abstain_reason == ""


def test_score_says_what_the_judge_said(judged: Judged):
    score, _ = scores_of(judged, {"two": gave(2.0, 2.0)})
    assert (score.verdict, score.error_class) == (RIGHT, "exact")
    assert score.extracted == "5"


def test_reward_that_abstains_is_named(judged: Judged):
    by_name = {"two": gave(2.0, 2.0), "shy": gave(math.nan, math.nan)}
    score, _ = scores_of(judged, by_name)
    assert score.rewards["two"] == 2.0
    assert math.isnan(score.rewards["shy"])
    assert score.abstain_reason == "no reward from shy"
    assert score.failures == {}


def test_reward_that_failed_is_told_from_one_that_abstains(judged: Judged):
    broken = Earned(values=(math.nan,) * 2, failures=("KeyError: 'x'", ""))
    score, _ = scores_of(judged, {"shy": gave(math.nan, 0.0), "broken": broken})
    assert score.failures == {"broken": "KeyError: 'x'"}
    assert score.abstain_reason == "broken: KeyError: 'x'; no reward from shy"


def test_time_of_a_reward_is_shared_among_its_rows(judged: Judged):
    score, _ = scores_of(judged, {"two": gave(2.0, 2.0, seconds=0.5)})
    assert score.timings == {"reward/two": 0.25}


def test_columns_of_the_same_name_are_kept_apart(judged: Judged):
    by_name = {
        "a": gave(1.0, 1.0, columns={"answer": ("x", "y")}, metrics={"n": 1.0}),
        "b": gave(1.0, 1.0, columns={"answer": ("z", "z")}, metrics={"m": 2.0}),
    }
    score, _ = scores_of(judged, by_name)
    assert score.extra == {"answer": "x", "b/answer": "z"}
    assert score.logged == {"n": 1.0, "m": 2.0}


def test_no_reward_counts_after_an_infrastructure_error(judged: Judged):
    _, score = scores_of(judged, {"a": gave(1.0, 1.0), "b": gave(1.0, 1.0)})
    assert list(score.rewards) == ["a", "b"]
    assert all(math.isnan(value) for value in score.rewards.values())
    assert score.abstain_reason == "the disk is full"
    assert score.error_class == "infra"


def test_abstaining_score_keeps_the_verdict():
    score = abstaining_score(["a"], RIGHT, "why not")
    assert score.verdict is RIGHT
    assert math.isnan(score.rewards["a"])
    assert score.abstain_reason == "why not"
