"""Estimates against enumeration, intervals against SciPy and known distributions."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jaxgrpo.evaluation.estimates import (
    bootstrap_intervals,
    majority_at_k,
    mean_and_error,
    pass_at_k,
)

BOOTSTRAP = {"confidence": 0.95, "resamples": 500, "seed": 0}

# pass@k


@pytest.mark.parametrize("n", [1, 4, 7])
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(n):
    for c in range(n + 1):
        is_correct = [index < c for index in range(n)]
        for k in range(1, n + 1):
            hits = [any(chosen) for chosen in combinations(is_correct, k)]
            assert pass_at_k(n, c, k) == pytest.approx(sum(hits) / len(hits))


@pytest.mark.parametrize(
    ("n", "c", "k"), [(200, 3, 1), (200, 3, 100), (200, 100, 100), (10, 5, 6)]
)
def test_pass_at_k_is_what_the_paper_computes(n, c, k):
    # Figure 3 of the paper: a product, for numerical stability.
    expected = 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
    assert pass_at_k(n, c, k) == pytest.approx(1.0 if n - c < k else expected)


def test_pass_at_k_beyond_the_samples_is_refused():
    with pytest.raises(AssertionError, match="pass@5 from 4 samples"):
        pass_at_k(4, 2, 5)


# majority@k


@pytest.mark.parametrize(
    ("answers", "n", "k", "expected"),
    [
        # By hand. Three of five say the right thing: any 3 hold 2 of them in 7 of 10
        # subsets (1 + 3 * 2), and one each of three answers in the other 3.
        ([(3, 3), (1, 0), (1, 0)], 5, 3, (7 + 3 / 3) / 10),
        # Two answers of two samples each: all four tie, any three do not.
        ([(2, 2), (2, 0)], 4, 4, 0.5),
        ([(2, 2), (2, 0)], 4, 3, 0.5),
        # The most frequent answer is wrong, and the others never win.
        ([(3, 0), (1, 1)], 4, 4, 0.0),
        # Right value, spelled right in two samples of three.
        ([(3, 2)], 3, 3, 2 / 3),
        # One sample has no answer: the other two decide.
        ([(2, 2)], 3, 3, 1.0),
        # Nothing to vote for.
        ([], 2, 2, 0.0),
    ],
)
def test_majority_at_k_by_hand(answers, n, k, expected):
    assert majority_at_k(answers, n, k) == pytest.approx(expected)


def by_enumeration(votes: Sequence[int], is_correct: Sequence[bool], k: int) -> float:
    """The mean over all subsets; vote 0 is no answer."""
    scores = []
    for chosen in combinations(range(len(votes)), k):
        given_votes = [votes[i] for i in chosen if votes[i]]
        counts = {vote: given_votes.count(vote) for vote in given_votes}
        top = [v for v, count in counts.items() if count == max(counts.values())]
        shares = [
            np.mean([is_correct[i] for i in chosen if votes[i] == vote]) for vote in top
        ]
        scores.append(np.mean(shares) if shares else 0.0)
    return float(np.mean(scores))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=7),
    st.data(),
)
def test_majority_at_k_is_the_mean_over_all_subsets(samples, data):
    votes = [vote for vote, _ in samples]
    is_correct = [vote > 0 and flag for vote, flag in samples]
    k = data.draw(st.integers(1, len(samples)))
    answers = [
        (votes.count(vote), sum(c for v, c in zip(votes, is_correct, strict=True)
                                if v == vote))
        for vote in set(votes) - {0}
    ]  # fmt: skip
    expected = by_enumeration(votes, is_correct, k)
    assert majority_at_k(answers, len(votes), k) == pytest.approx(expected)
    if k == 1:
        num_correct = sum(is_correct)
        assert expected == pytest.approx(pass_at_k(len(votes), num_correct, 1))


def test_majority_of_many_samples_stays_exact():
    # 64 samples, all different, one right: whichever k are taken, it ties with all.
    assert majority_at_k([(1, 1)] + [(1, 0)] * 63, 64, 32) == pytest.approx(1 / 64)


# Intervals


def test_intervals_are_those_of_scipy():
    values = np.random.default_rng(1).random(40)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=500, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    found = bootstrap_intervals({"x": values}, **BOOTSTRAP)["x"]
    assert found == pytest.approx((expected.low, expected.high))


def test_a_metric_has_the_same_interval_whatever_stands_beside_it():
    random = np.random.default_rng(2)
    columns = {name: random.random(30) for name in "abc"}
    alone = bootstrap_intervals({"b": columns["b"]}, **BOOTSTRAP)
    assert bootstrap_intervals(columns, **BOOTSTRAP)["b"] == pytest.approx(alone["b"])


def test_intervals_of_a_share_cover_it_as_often_as_they_say():
    # 200 experiments of 120 problems, solved with probability 0.3. A share covered in
    # 95 % of them lies outside [0.90, 0.985] once in a thousand times.
    random = np.random.default_rng(3)
    covered = 0
    for seed in range(200):
        values = (random.random(120) < 0.3).astype(float)
        low, high = bootstrap_intervals({"x": values}, **BOOTSTRAP | {"seed": seed})[
            "x"
        ]
        covered += low <= 0.3 <= high
    assert 0.90 <= covered / 200 <= 0.985


def test_where_nothing_varies_a_share_has_the_exact_interval():
    columns = {
        "none": np.zeros(20), "all": np.ones(20), "length": np.full(20, 5.0),
        "absent": np.full(20, np.nan),
    }  # fmt: skip
    found = bootstrap_intervals(columns, **BOOTSTRAP)
    # Clopper and Pearson: 1 - (alpha / 2)^(1 / n).
    bound = 1 - 0.025 ** (1 / 20)
    assert found["none"] == pytest.approx((0.0, bound))
    assert found["all"] == pytest.approx((1.0 - bound, 1.0))
    assert all(math.isnan(end) for name in ("length", "absent") for end in found[name])
    assert list(found) == list(columns)


def test_problems_without_a_value_are_left_out():
    values = np.array([0.0, 1.0, 1.0, 0.0, np.nan, np.nan])
    found = bootstrap_intervals({"x": values, "y": np.arange(6.0)}, **BOOTSTRAP)
    alone = bootstrap_intervals({"x": values[:4]}, **BOOTSTRAP)
    assert found["x"] == alone["x"]
    assert mean_and_error(values) == mean_and_error(values[:4])


def test_standard_error_is_that_of_the_mean():
    values = np.array([0.0, 0.25, 1.0, 0.0])
    mean, error = mean_and_error(values)
    assert mean == 0.3125
    assert error == pytest.approx(stats.sem(values))
    assert mean_and_error(np.array([1.0])) == (1.0, 0.0)
