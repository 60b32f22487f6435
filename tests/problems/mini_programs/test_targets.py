"""Lessons: right programs of two styles, hints in some prompts, and misreadings."""

from dataclasses import replace

import pytest

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.mini_programs.targets import (
    HINTED,
    HINTED_AMONG_CARELESS,
    IDIOMATIC,
    careless,
    varied,
)
from jaxgrpo.problems.targets import STYLES, target_style

PROBLEM = Problem(
    id="0",
    kind="call",
    prompt="Write it.",
    reference="loop",
    hints=("weak", "strong"),
    hint_tiers=("knowledge", "solution"),
    columns={"idiomatic": "comprehension", "careless": "slip", "behaviour": "xs/0"},
)
PROBLEMS = [replace(PROBLEM, id=f"mini_programs/0/train/{n:06d}") for n in range(2000)]


@pytest.mark.parametrize(
    ("style", "share"), [(varied, HINTED), (careless, HINTED_AMONG_CARELESS)]
)
def test_hinted_lessons_have_the_reference_and_one_of_the_hints(style, share):
    lessons = [style(problem, 1.0) for problem in PROBLEMS]
    hinted = [lesson for lesson in lessons if lesson.variant]
    assert len(hinted) / len(lessons) == pytest.approx(share, abs=0.03)
    assert {lesson.target for lesson in hinted} == {"loop"}
    assert {lesson.variant for lesson in hinted} == {"hint-1", "hint-2"}


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_share_is_that_of_comprehensions_or_of_misreadings(share):
    plain = [lesson for p in PROBLEMS if not (lesson := varied(p, share)).variant]
    idiomatic = sum(lesson.target == "comprehension" for lesson in plain)
    assert idiomatic / len(plain) == pytest.approx(share, abs=0.04)
    plain = [lesson for p in PROBLEMS if not (lesson := careless(p, share)).variant]
    slips = sum(lesson.target == "slip" for lesson in plain)
    assert slips / len(plain) == pytest.approx(share, abs=0.04)
    right = [lesson.target for lesson in plain if lesson.target != "slip"]
    if right:
        share_of_right = right.count("comprehension") / len(right)
        assert share_of_right == pytest.approx(IDIOMATIC, abs=0.04)


def test_without_a_comprehension_the_reference_is_the_target():
    columns = {**PROBLEM.columns, "idiomatic": ""}
    lessons = [varied(replace(p, columns=columns), 1.0) for p in PROBLEMS[:50]]
    assert {lesson.target for lesson in lessons} == {"loop"}


def test_a_problem_always_gives_the_same_lesson():
    assert [varied(p, 0.5) for p in PROBLEMS] == [varied(p, 0.5) for p in PROBLEMS]


def test_every_style_of_every_data_set_is_found():
    for dataset, names in STYLES.items():
        for name in names:
            style = target_style(dataset, name)
            assert style.__name__ == name


def test_every_data_set_has_references():
    lesson = target_style("mbpp", "reference")(PROBLEM, 0.5)
    assert (lesson.target, lesson.variant) == ("loop", "")


def test_an_unknown_style_names_those_that_there_are():
    with pytest.raises(ValueError, match="no targets named 'carless'.*'careless'"):
        target_style("mini_programs", "carless")
    with pytest.raises(ValueError, match="'output_prediction' has no targets named"):
        target_style("output_prediction", "careless")
