"""The training tail: its share of each step, in turn, and saved with the run."""

import json

import pytest

from jaxgrpo.host.records import Group, Problem, Score, Verdict
from jaxgrpo.host.training_tail import TrainingTail

SOURCE = [
    Problem(id=f"p{number}", kind="output", prompt="", reference="")
    for number in range(10)
]
TAIL = SOURCE[2:7]


def tail(share: float) -> TrainingTail:
    made = TrainingTail(SOURCE, share=share)
    made.define(TAIL)
    return made


def ids(problems: list[Problem]) -> list[str]:
    return [problem.id for problem in problems]


def test_there_is_none_before_it_is_defined():
    undefined = TrainingTail(SOURCE, share=0.5)
    assert undefined.take(8) == [] and undefined.metrics([]) == {}
    assert undefined.problem_ids == []


def test_a_step_takes_its_share_in_turn():
    t = tail(0.25)
    assert [ids(t.take(8)) for _ in range(3)] == [
        ["p2", "p3"],
        ["p4", "p5"],
        ["p6", "p2"],
    ]


def test_no_problem_comes_twice_in_a_step():
    t = tail(1.0)
    for _ in range(3):
        assert sorted(ids(t.take(64))) == ids(TAIL)


def test_a_share_of_0_takes_none_and_tells_nothing():
    t = tail(0.0)
    assert t.take(8) == [] and t.metrics([]) == {}


def test_an_empty_tail_takes_none_and_says_so():
    t = TrainingTail(SOURCE, share=0.5)
    t.define([])
    assert t.take(8) == []
    assert t.metrics([])["distill/from_tail"] == 0.0


def test_metrics_are_of_the_problems_taken_from_it():
    t = tail(0.25)
    t.take(8)
    groups = [
        Group(
            problem=problem,
            prompts=(),
            completions=(),
            scores=tuple(
                Score(rewards={}, verdict=Verdict(status=status, error_class=""))
                for status in ("OK", "WA")
            ),
        )
        for problem in (SOURCE[2], SOURCE[3], SOURCE[9])
    ]
    assert t.metrics(groups) == {
        "distill/from_tail": 2.0,
        "distill/tail_exact_match": 0.5,
    }


def test_a_saved_tail_goes_on():
    t = tail(0.25)
    t.take(8)
    state = json.loads(json.dumps(t.state_dict()))
    again = TrainingTail(SOURCE, share=0.25)
    again.load_state_dict(state)
    assert again.problem_ids == t.problem_ids
    assert [ids(again.take(8)) for _ in range(4)] == [ids(t.take(8)) for _ in range(4)]


def test_a_tail_that_is_not_there_yet_is_saved_as_that():
    again = TrainingTail(SOURCE, share=0.25)
    again.load_state_dict(TrainingTail(SOURCE, share=0.25).state_dict())
    assert again.metrics([]) == {}


def test_a_tail_of_other_data_is_refused():
    again = TrainingTail(SOURCE[:4], share=0.25)
    with pytest.raises(ValueError, match="'p4' of the saved training tail"):
        again.load_state_dict(tail(0.25).state_dict())
