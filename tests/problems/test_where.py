import pytest

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.where import matching, meets


def problem(name: str, rating: int, date: str, **tags: str) -> Problem:
    columns: dict[str, object] = {"rating": rating, "date": date}
    return Problem(
        id=name, kind="output", prompt="", reference="", tags=tags, columns=columns
    )


PROBLEMS = [
    problem("a", 800, "2024-01-31", level="easy"),
    problem("b", 1200, "2024-02-01", level="hard", topic="maths"),
    problem("c", 900, "2024-03-01", level="easy", topic="maths"),
]


def names(conditions: dict[str, str], limit: int = 0) -> str:
    return "".join(p.id for p in matching(PROBLEMS, conditions, limit))


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({}, "abc"),
        ({"level": "easy"}, "ac"),
        ({"level": "easy|hard"}, "abc"),
        ({"topic": "maths"}, "bc"),
        ({"level": "easy", "topic": "maths"}, "c"),
        ({"rating": "800 .. 1000"}, "ac"),
        ({"rating": "1000 .."}, "b"),
        ({"rating": ".. 800 | 1200"}, "ab"),
        ({"date": "2024-02-01 .. 2024-02-29"}, "b"),
        ({"date": ".. 2024-01-31"}, "a"),
    ],
)
def test_problems_that_meet_all_conditions_are_kept(
    conditions: dict[str, str], kept: str
):
    assert names(conditions) == kept


def test_limit_counts_what_is_kept():
    assert names({"level": "easy"}, limit=1) == "a"
    assert len(matching(PROBLEMS, {"topic": "maths"}, 5)) == 2


def test_numbers_are_compared_as_numbers():
    assert meets(9, "8 .. 10")
    assert not meets("x9", "x8 .. x10")


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"levl": "easy"}, "data.where.levl: .* Did you mean data.where.level"),
        ({"level": "eazy"}, "no problem meets .* level has easy, hard"),
    ],
)
def test_what_matches_nothing_is_an_error(conditions: dict[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        matching(PROBLEMS, conditions)
