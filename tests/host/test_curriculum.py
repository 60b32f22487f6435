"""Levels open by success; problems of the others wait."""

import json

import pytest

from jaxgrpo.host.curriculum import Curriculum
from jaxgrpo.host.records import Completion, Group, Problem, Score, Verdict

ORDER = ("easy", "middle", "hard")


def problem(level: str) -> Problem:
    return Problem(
        id=level, kind="output", prompt="", reference="", tags={"difficulty": level}
    )


def group(level: str, num_right: int, num_wrong: int = 0) -> Group:
    verdicts = [Verdict(status="OK", error_class="exact")] * num_right
    verdicts += [Verdict(status="WA", error_class="wrong_value")] * num_wrong
    completions: tuple[Completion, ...] = ()
    scores = tuple(Score(rewards={}, verdict=verdict) for verdict in verdicts)
    return Group(
        problem=problem(level), prompts=(), completions=completions, scores=scores
    )


def curriculum(**changes) -> Curriculum:
    settings = {
        "tag": "difficulty", "order": ORDER, "open_at": 0.5, "min_groups": 3,
        "rate": 0.1,
    }  # fmt: skip
    return Curriculum(**(settings | changes))


def open_levels(c: Curriculum) -> list[str]:
    return [level for level in ORDER if c.is_open(problem(level))]


def test_without_levels_everything_is_taken():
    c = curriculum(order=())
    assert c.is_open(problem("anything")) and c.takes(problem("anything"))
    assert c.metrics() == {}
    c.observe([group("anything", 1)])


def test_a_level_opens_when_the_one_before_is_solved_often_enough():
    c = curriculum()
    assert open_levels(c) == ["easy"]
    c.observe([group("easy", 1, 1)] * 2)
    assert open_levels(c) == ["easy"]  # too few groups yet
    c.observe([group("easy", 1, 1)])
    assert open_levels(c) == ["easy", "middle"]
    c.observe([group("easy", 4)] * 9)
    assert open_levels(c) == ["easy", "middle"]  # the newest decides
    c.observe([group("middle", 4)] * 3)
    assert open_levels(c) == list(ORDER)
    c.observe([group("hard", 4)] * 3)
    assert c.metrics()["curriculum/open_levels"] == 3.0


def test_a_level_that_fails_stays_the_last():
    c = curriculum()
    for _ in range(20):
        c.observe([group("easy", 1, 3)])
    assert open_levels(c) == ["easy"]
    assert c.metrics()["curriculum/success/easy"] == pytest.approx(0.25)


def test_the_first_groups_make_a_plain_average():
    c = curriculum(min_groups=99)
    c.observe([group("easy", 4), group("easy", 0, 4), group("easy", 2, 2)])
    assert c.metrics()["curriculum/success/easy"] == pytest.approx(0.5)


def test_solved_levels_come_less_often_and_never_less_than_the_floor():
    c = curriculum(floor=0.25)
    c.observe([group("easy", 4)] * 5)
    taken = sum(c.takes(problem("easy")) for _ in range(2000))
    assert taken / 2000 == pytest.approx(0.25, abs=0.04)
    even = curriculum(floor=0.25, open_at=0.9)
    even.observe([group("easy", 1, 1)] * 5)
    assert all(even.takes(problem("easy")) for _ in range(50))


def test_a_saved_curriculum_goes_on():
    first, second = (curriculum(floor=0.3) for _ in range(2))
    first.observe([group("easy", 3, 1)] * 4)
    begun = [first.takes(problem("easy")) for _ in range(7)]
    assert begun
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    ours, theirs = ([c.takes(problem("easy")) for _ in range(40)]
                    for c in (first, second))  # fmt: skip
    assert ours == theirs and first.state_dict() == second.state_dict()


def test_a_problem_without_the_tag_is_named():
    bare = Problem(id="bare", kind="output", prompt="", reference="", tags={"x": "1"})
    with pytest.raises(
        ValueError, match=r"'bare' has no tag 'difficulty', only \['x'\]"
    ):
        curriculum().is_open(bare)
