"""Two checkpoints on the same problems, against SciPy and published values."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from jaxgrpo.evaluation.comparison import comparison, differences, flips_of, paired
from tests.evaluation.conftest import answer_of, outcome_of

BOOTSTRAP: Any = {"confidence": 0.95, "resamples": 500, "seed": 0}


def sides(pattern: str):
    """Outcomes by letters: r(ight) and w(rong) of each side, `?` for not judged."""
    classes = {"r": "exact", "w": "wrong_value", "?": "infra"}
    pairs = pattern.split()
    return [
        [outcome_of(f"p{i}", classes[pair[side]]) for i, pair in enumerate(pairs)]
        for side in (0, 1)
    ]


def test_flips_are_listed_with_both_classes():
    flips = flips_of(*sides("ww wr rw rr wr ?r"))
    assert flips.wrong_to_right == [
        {"problem_id": "p1", "before": "wrong_value", "after": "exact"},
        {"problem_id": "p4", "before": "wrong_value", "after": "exact"},
    ]
    assert [flip["problem_id"] for flip in flips.right_to_wrong] == ["p2"]
    assert (flips.both_right, flips.both_wrong, flips.undecided) == (1, 1, 1)


@pytest.mark.parametrize(
    ("gained", "lost", "p_value"),
    [
        # statsmodels 0.15.0, stats.contingency_tables.mcnemar(exact=True).
        (0, 0, 1.0), (5, 0, 0.0625), (12, 52, 4.5666107e-07),
        (121, 59, 4.4344493e-06),
        (3, 3, 1.0), (1, 9, 0.021484375),
    ],
)  # fmt: skip
def test_p_value_is_that_of_the_exact_mcnemar_test(gained, lost, p_value):
    found = flips_of(*sides("wr " * gained + "rw " * lost + "ww rr")).p_value
    assert found == pytest.approx(p_value, rel=1e-6)
    # By the definition: both tails of a fair coin.
    tail = 2 * stats.binom.cdf(min(gained, lost), gained + lost, 0.5)
    assert found == pytest.approx(min(1.0, tail))


def test_difference_is_the_mean_of_the_differences_with_its_own_interval():
    before, after = sides("ww wr wr rr rw wr ww rr wr ww")
    found = differences(before, after, (1,), **BOOTSTRAP)["exact_match"]
    change = np.array([0, 1, 1, 0, -1, 1, 0, 0, 1, 0], float)
    expected = stats.bootstrap(
        (change,), np.mean, n_resamples=500, rng=np.random.default_rng(0)
    ).confidence_interval
    assert found["value"] == pytest.approx(0.3)
    assert found["se"] == pytest.approx(stats.sem(change))
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))


def test_what_both_share_cancels():
    # Each side varies a lot from problem to problem, their difference hardly.
    before, after = sides("ww rr " * 50 + "wr")
    found = differences(before, after, (1,), **BOOTSTRAP)["exact_match"]
    assert found["high"] - found["low"] < 0.06


def test_the_same_answers_differ_by_exactly_nothing():
    before, after = sides("ww rr wr".replace("wr", "rr"))
    found = differences(before, after, (1,), **BOOTSTRAP)["exact_match"]
    assert found == {"value": 0.0, "se": 0.0, "low": 0.0, "high": 0.0}


def test_a_class_that_one_side_lacks_has_share_zero_there():
    before = [outcome_of(name, "passed", kind="call") for name in "ab"]
    after = [before[0], outcome_of("b", "timeout", kind="call")]
    found = differences(before, after, (1,), **BOOTSTRAP)
    assert found["error_class/timeout"]["value"] == 0.5
    assert found["error_class/passed"]["value"] == -0.5


def test_only_shared_problems_are_compared():
    before, after = sides("ww rr rw")
    assert [o.problem_id for o in paired(before[1:], after[:2])[0]] == ["p1"]
    result = comparison(before[1:], after[:2], (1,), BOOTSTRAP, rare=1)
    assert result["num_problems"] == 1
    with pytest.raises(ValueError, match="no problem in common"):
        comparison(before[:1], after[1:], (1,), BOOTSTRAP, rare=1)


def test_differences_are_given_by_tag_too():
    sample = (answer_of("exact", "r"),)
    before = [outcome_of(str(i), "wrong_value", sample, level=str(i % 2))
              for i in range(6)]  # fmt: skip
    after = [outcome_of(str(i), "exact" if i % 2 else "wrong_value", sample,
                        level=str(i % 2)) for i in range(6)]  # fmt: skip
    by_tag = comparison(before, after, (1,), BOOTSTRAP, rare=1)["by_tag"]["level"]
    assert by_tag["0"]["differences"]["exact_match"]["value"] == 0.0
    assert by_tag["1"]["differences"]["exact_match"]["value"] == 1.0
    assert by_tag["1"]["num_problems"] == 3
