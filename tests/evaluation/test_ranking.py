"""Ranking against vectors by hand, SciPy, and the mean over drawn subsets."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jaxgrpo.evaluation.estimates import pass_at_k
from jaxgrpo.evaluation.ranking import auc, auc_within, best_of_k

answers = st.lists(
    st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=7
).map(lambda rows: tuple(map(np.array, zip(*rows, strict=True))))


@pytest.mark.parametrize(
    ("scores", "is_right", "expected"),
    [
        # scikit-learn's documentation of roc_auc_score, and its edge cases.
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
        ([1.0, 2.0, 3.0], [0, 0, 1], 1.0),
        ([3.0, 2.0, 1.0], [0, 0, 1], 0.0),
        ([1.0, 1.0, 1.0], [0, 1, 0], 0.5),
        ([-math.inf, -math.inf, 0.0], [0, 1, 1], 0.75),
    ],
)
def test_auc_by_hand(scores: list[float], is_right: list[int], expected: float):
    assert auc(np.array(scores), np.array(is_right, bool)) == expected


@given(answers)
def test_auc_is_the_scaled_rank_sum(rows: tuple[np.ndarray, np.ndarray]):
    scores, is_right = rows
    found = auc(scores, is_right)
    if is_right.all() or not is_right.any():
        assert math.isnan(found)
        return
    u = stats.mannwhitneyu(scores[is_right], scores[~is_right]).statistic
    assert found == pytest.approx(u / (is_right.sum() * (~is_right).sum()))


def test_auc_within_looks_at_each_problem_alone():
    scores = [np.array([1.0, 2.0]), np.array([9.0, 8.0]), np.array([5.0])]
    is_right = [np.array([False, True]), np.array([False, True]), np.array([True])]
    assert auc_within(scores, is_right).tolist()[:2] == [1.0, 0.0]
    assert math.isnan(auc_within(scores, is_right)[2])


def by_enumeration(scores: np.ndarray, is_right: np.ndarray, k: int) -> float:
    picks = []
    for subset in itertools.combinations(range(len(scores)), k):
        top = max(scores[i] for i in subset)
        tied = [is_right[i] for i in subset if scores[i] == top]
        picks.append(np.mean(tied))
    return float(np.mean(picks))


@given(answers)
def test_best_of_k_is_the_mean_over_all_subsets(rows: tuple[np.ndarray, np.ndarray]):
    scores, is_right = rows
    for k in range(1, len(scores) + 1):
        expected = by_enumeration(scores, is_right, k)
        assert best_of_k(scores, is_right, k) == pytest.approx(expected)


@given(answers)
def test_best_of_k_lies_between_a_random_pick_and_any_of_k(
    rows: tuple[np.ndarray, np.ndarray],
):
    scores, is_right = rows
    num, right = len(scores), int(is_right.sum())
    random = right / num
    for k in range(1, num + 1):
        any_of_k = pass_at_k(num, right, k)
        assert best_of_k(is_right.astype(float), is_right, k) == pytest.approx(any_of_k)
        assert best_of_k(np.zeros(num), is_right, k) == pytest.approx(random)
        assert best_of_k(scores, is_right, k) <= any_of_k + 1e-12
    assert best_of_k(scores, is_right, 1) == pytest.approx(random)
