"""From scored groups to the numbers of an evaluation, for every kind of problem."""

import math
from dataclasses import replace

import numpy as np
import pytest

from jaxgrpo.evaluation.outcomes import Outcome, answers_of, columns_of, summary
from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.judge.results import infra_verdict
from jaxgrpo.host.records import Group, Score
from jaxgrpo.host.scoring import abstaining_score
from tests.evaluation.conftest import answer_of, outcome_of
from tests.host.conftest import group_of


def judged(group: Group) -> Group:
    """The group with the real judge's verdicts."""
    scores = []
    for completion in group.completions:
        verdict = judge_literal(completion.text, group.problem.reference)
        scores.append(
            Score(rewards={}, verdict=verdict, error_class=verdict.error_class)
        )
    return replace(group, scores=tuple(scores))


def outcome_of_texts(reference: str, greedy: str, *samples: str) -> Outcome:
    group = judged(group_of(reference, greedy, *samples))
    first, *others = answers_of(group)
    return Outcome(problem_id="p", kind="output", greedy=first, samples=tuple(others))


def means(outcomes, pass_at=(1, 2)) -> dict[str, float]:
    evaluation = summary(columns_of(outcomes, pass_at))
    return {n: e["value"] for n, e in evaluation.items() if isinstance(e, dict)}


def test_literals_are_counted_by_class_and_all_classes_are_there():
    outcomes = [outcome_of_texts("[1]", text) for text in ("[1]", "[2]", "[ 1]", "x")]
    found = means(outcomes)
    assert found["exact_match"] == 0.25
    classes = {n: v for n, v in found.items() if n.startswith("error_class/")}
    assert classes == {
        "error_class/not_one_literal": 0.25,
        "error_class/wrong_value": 0.25,
        "error_class/wrong_repr": 0.25,
        "error_class/exact": 0.25,
    }
    assert found["mean_length"] == (3 + 3 + 4 + 1) / 4
    assert "tests_passed" not in found and "pass@1" not in found


def test_samples_that_spell_a_value_differently_vote_together():
    # [1] and [ 1] are one answer of three votes, of which two are spelled right.
    (outcome,) = [outcome_of_texts("[1]", "x", "[1]", "[1]", "[ 1]", "[2]")]
    found = means([outcome], (1, 4))
    assert found["pass@1"] == 0.5
    assert found["majority@4"] == pytest.approx(2 / 3)
    assert found["frac_reward_mixed"] == 1.0


def test_programs_are_counted_by_their_classes_and_tests():
    def program(name: str, error_class: str, passed: int) -> Outcome:
        greedy = answer_of(error_class, passed=passed, tests=4)
        outcome = outcome_of(name, error_class, kind="call")
        return replace(outcome, greedy=greedy)

    found = means(
        [
            program("a", "passed", 4), program("b", "wrong_answer", 3),
            program("c", "syntax_error", 0), program("d", "infra", 0),
        ]
    )  # fmt: skip
    assert found["exact_match"] == 0.25 and found["errored"] == 0.25
    # What was not judged has passed no known share of its tests.
    assert found["tests_passed"] == pytest.approx((1 + 0.75 + 0) / 3)
    classes = [name for name in found if name.startswith("error_class/")]
    assert classes == [
        "error_class/passed", "error_class/wrong_answer", "error_class/syntax_error",
    ]  # fmt: skip


def test_kinds_may_be_mixed():
    outcomes = [
        outcome_of("a", "exact"),
        replace(outcome_of("b", "passed", kind="stdin"),
                greedy=answer_of("passed", passed=2, tests=2)),
    ]  # fmt: skip
    found = means(outcomes)
    assert found["exact_match"] == 1.0 and found["tests_passed"] == 1.0
    assert found["error_class/exact"] == found["error_class/passed"] == 0.5


def test_pass_at_k_and_dead_groups_of_each_problem():
    wrong, right = answer_of("wrong_value", "w"), answer_of("exact", "r")
    outcomes = [
        outcome_of(str(count), "exact", [right] * count + [wrong] * (4 - count))
        for count in (0, 1, 4, 0)
    ]
    columns = columns_of(outcomes, (1, 2, 4))
    np.testing.assert_allclose(columns["pass@1"], [0, 0.25, 1, 0])
    np.testing.assert_allclose(columns["pass@2"], [0, 0.5, 1, 0])
    np.testing.assert_allclose(columns["majority@4"], [0, 0, 1, 0])
    evaluation = summary(columns)
    # Standard error of [0, 0.25, 1, 0]: sqrt of their variance over 4.
    variance = sum((value - 0.3125) ** 2 for value in (0.0, 0.25, 1.0, 0.0)) / 3
    assert evaluation["pass@1"]["se"] == pytest.approx(math.sqrt(variance / 4))
    shares = [
        evaluation[f"frac_reward_{name}"]["value"]
        for name in ("all_zero", "mixed", "all_one")
    ]
    assert shares == [0.5, 0.25, 0.25]


def test_samples_that_could_not_be_judged_are_as_if_not_drawn():
    right, lost = answer_of("exact", "r"), answer_of("infra")
    outcomes = [
        outcome_of("a", "exact", [right, lost, right]),
        outcome_of("b", "exact", [lost, lost, lost]),
        outcome_of("c", "exact", [right, lost, lost]),
    ]
    columns = columns_of(outcomes, (1, 2))
    np.testing.assert_array_equal(columns["pass@2"], [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(columns["frac_reward_all_one"], [1.0, np.nan, 1.0])
    assert summary(columns)["pass@1"]["value"] == 1.0


def test_what_could_not_be_judged_counts_as_wrong_and_is_shown():
    group = group_of("1", "1")
    infra = abstaining_score(["exact"], infra_verdict("worker died"), "worker died")
    (answer,) = answers_of(replace(group, scores=(infra,)))
    outcomes = [
        outcome_of("a", "exact"),
        Outcome(problem_id="b", kind="output", greedy=answer),
    ]
    found = means(outcomes)
    assert found["errored"] == found["exact_match"] == 0.5


def test_intervals_stand_beside_the_means():
    columns = columns_of([outcome_of("a", "exact"), outcome_of("b", "exact")], (1,))
    intervals = {name: (0.1, 0.9) for name in columns}
    evaluation = summary(columns, 3, intervals)
    assert evaluation["dropped_prompts"] == 3 and evaluation["num_problems"] == 2
    assert evaluation["exact_match"] == {
        "value": 1.0, "se": 0.0, "low": 0.1, "high": 0.9,
    }  # fmt: skip
