import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.records import Test
from jaxgrpo.host.rewards.ttrl import Settings, columns, majority, ttrl
from jaxgrpo.host.sandbox import Sandbox
from tests.host.rewards.groups import of_literals, of_programs

DOUBLE = "def f(x):\n    return 2 * x\n"
SUM = "def f(x):\n    return x + x\n"
SQUARE = "def f(x):\n    return x * x\n"
BROKEN = "def f(x):\n    return 1 // 0\n"
TESTS = tuple(
    Test(kind="call", function="f", arguments=(x,), expected=x * x) for x in (2, 3)
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def test_majority_is_paid_whether_right_or_wrong():
    assert ttrl(of_literals("9", "7", "9", "7", " 7"), Settings()) == [1, 0, 1, 1]


def test_first_of_the_most_frequent_answers_is_the_label():
    assert ttrl(of_literals("1", "8", "9", "9", "8"), Settings()) == [1, 0, 0, 1]


def test_no_answer_never_wins():
    judged = of_literals("1", "so", "so", "so", "1")
    assert ttrl(judged, Settings()) == [0, 0, 0, 1]
    assert ttrl(of_literals("1", "so", "", "so"), Settings()) == [0, 0, 0]


def test_programs_vote_by_what_they_do(sandbox: Sandbox):
    judged = of_programs(BROKEN, BROKEN, BROKEN, SQUARE, DOUBLE, SUM, tests=TESTS)
    judged = replace(judged, run=sandbox.run)
    assert ttrl(judged, Settings()) == [0, 0, 0, 0, 1, 1]
    # 2 * 2 is 2 + 2: on one input, all three do the same.
    assert ttrl(judged, Settings(num_inputs=1)) == [0, 0, 0, 1, 1, 1]


def test_row_without_a_decision_has_no_vote():
    judged = of_literals("1", "1", "1", "2")
    infra = replace(judged.verdicts[0], status="INFRA")
    verdicts = (infra, infra, judged.verdicts[2])
    rewards = ttrl(replace(judged, verdicts=verdicts), Settings())
    assert math.isnan(rewards[0]) and math.isnan(rewards[1]) and rewards[2] == 1.0


def test_source_metrics_by_hand():
    rows = columns(of_literals("9", "7", "9", "7", "so"), Settings())
    assert rows[0] == {
        "majority_ratio": 0.5,
        "label_accuracy": 0.0,
        "reward_accuracy": 0.0,
        "ground_truth_ratio": 0.0,
    }
    assert [row["ground_truth_ratio"] for row in rows] == [0, 1, 0, 0]
    assert [row["reward_accuracy"] for row in rows] == [0, 0, 0, 1]
    right = columns(of_literals("7", "7", "9", "7"), Settings())
    assert [row["label_accuracy"] for row in right] == [1.0, 1.0, 1.0]


@given(st.lists(st.none() | st.integers(0, 3), max_size=9))
@settings(deadline=None)
def test_label_is_the_earliest_of_the_most_frequent(votes: list[int | None]):
    label = majority(votes)
    cast = [one for one in votes if one is not None]
    if not cast:
        assert label is None
        return
    most = max(map(cast.count, cast))
    assert label == next(one for one in cast if cast.count(one) == most)


def test_programs_have_to_be_compared_on_something():
    with pytest.raises(ValueError, match="num_inputs 0"):
        Settings(num_inputs=0)
