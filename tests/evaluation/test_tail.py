from dataclasses import replace

from jaxgrpo.evaluation.tail import among, tail_metrics, tail_of
from tests.evaluation.conftest import outcome_of

OUTCOMES = [
    outcome_of(f"p{i}", ("exact", "wrong_value", "not_one_literal", "infra")[i % 4])
    for i in range(40)
]
WRONG = [f"p{i}" for i in range(40) if i % 4 in (1, 2)]


def test_the_tail_is_what_the_greedy_answer_got_wrong():
    assert tail_of(OUTCOMES, 1000) == WRONG
    assert tail_of(OUTCOMES, 0) == []


def test_a_limit_takes_the_same_problems_whatever_their_order():
    few = tail_of(OUTCOMES, 7)
    assert len(few) == 7 and set(few) < set(WRONG)
    assert set(tail_of(OUTCOMES[::-1], 7)) == set(few)
    assert few != WRONG[:7]


def test_a_larger_limit_only_adds():
    assert set(tail_of(OUTCOMES, 5)) < set(tail_of(OUTCOMES, 9))


def test_outcomes_of_the_tail_keep_its_order():
    later = [replace(outcome, tags={"now": "1"}) for outcome in OUTCOMES[::-1]]
    found = among(later, ["p9", "p2", "gone"])
    assert [(o.problem_id, o.tags["now"]) for o in found] == [("p9", "1"), ("p2", "1")]


def test_the_gap_is_between_greedy_and_the_largest_k():
    entry = {"se": 0.1}
    evaluation = {
        "num_problems": 9, "dropped_prompts": 0,
        "exact_match": {"value": 0.1} | entry, "errored": {"value": 0.0} | entry,
        "pass@2": {"value": 0.3} | entry, "pass@10": {"value": 0.6} | entry,
        "frac_reward_mixed": {"value": 0.4} | entry,
    }  # fmt: skip
    assert tail_metrics(evaluation) == {
        "tail/num_problems": 9.0,
        "tail/exact_match": 0.1,
        "tail/pass@2": 0.3,
        "tail/pass@10": 0.6,
        "tail/frac_reward_mixed": 0.4,
        "tail/top1_gap": 0.5,
    }
