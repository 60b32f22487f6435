import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.rewards.empo import (
    Settings,
    answer_entropy,
    columns,
    empo,
    shares_of_agreement,
)
from tests.host.rewards.groups import of_literals

given_answers = st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=8)


def test_vector_of_three_two_and_one():
    texts = ["7", "7", "7", "8", "8", "9"]
    judged = of_literals("9", *texts)
    assert empo(judged, Settings()) == pytest.approx(
        [3 / 6] * 3 + [2 / 6] * 2 + [1 / 6]
    )
    (entropy,) = {row["answer_entropy"] for row in columns(judged, Settings())}
    assert entropy == pytest.approx(1.0114, abs=5e-5)
    assert entropy < math.log(6)


def test_group_of_all_different_answers_teaches_nothing():
    assert empo(of_literals("1", "1", "2", "3"), Settings()) == [0.0, 0.0, 0.0]


def test_no_answer_counts_and_earns_nothing():
    judged = of_literals("1", "1", "1", "so", "what", "2")
    assert empo(judged, Settings()) == [0.4, 0.4, 0.0, 0.0, 0.2]


def test_label_plays_no_part():
    texts = ["1", "1", "2"]
    assert empo(of_literals("1", *texts), Settings()) == empo(
        of_literals("3", *texts), Settings()
    )


def test_row_without_a_decision_is_as_if_not_drawn():
    judged = of_literals("1", "1", "2", "1")
    infra = replace(judged.verdicts[1], status="INFRA")
    verdicts = (judged.verdicts[0], infra, judged.verdicts[2])
    first, missing, last = empo(replace(judged, verdicts=verdicts), Settings())
    assert (first, last) == (1.0, 1.0) and math.isnan(missing)


@given(given_answers)
@settings(deadline=None)
def test_group_is_dropped_only_where_the_entropy_is_the_largest(given_answers):
    rewards = shares_of_agreement(given_answers)
    shares = [given_answers.count(one) / len(given_answers) for one in given_answers]
    is_all_different = len(set(given_answers)) == len(given_answers)
    is_largest = math.isclose(
        answer_entropy(given_answers), math.log(len(given_answers)), abs_tol=1e-9
    )
    assert is_all_different == is_largest
    for one, share, reward in zip(given_answers, shares, rewards, strict=True):
        assert reward == (0.0 if one is None or is_all_different else share)
