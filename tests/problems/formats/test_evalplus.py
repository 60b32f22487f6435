"""HumanEval+ and MBPP+: the reference's values, and the rules of their evaluator."""

from typing import Any

import pytest

from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.records import Problem, Test
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.formats.format import MalformedRowError
from jaxgrpo.problems.formats.mbpp_plus import MEANT, plus_problem
from jaxgrpo.problems.formats.reference_values import compare_as

from .conftest import MakeProblems
from .published import FIND_ZERO, FINDS_MATCH, HUMANEVAL_PLUS, MBPP_PLUS


def cases_in(problem: Problem) -> tuple[Test, ...]:
    assert isinstance(problem.tests, tuple)
    return problem.tests


def is_right(problem: Problem, code: str, box: Sandbox) -> bool:
    settings = JudgeSettings(extraction="raw")
    return judge(problem, completion_of("p", code), box, settings).is_correct


def test_expected_values_are_those_of_the_solution(problems_of: MakeProblems):
    (problem,) = problems_of("humaneval_plus", HUMANEVAL_PLUS)
    tests = cases_in(problem)
    assert [test.arguments for test in tests] == [(1,), (3,), (10,), (0,)]
    assert [test.expected for test in tests] == [0.5, 1.5, 5.0, 0.0]
    assert {test.compare for test in tests} == {"float(rel=1e-07, abs=1e-06)"}


def test_solution_that_fails_on_an_input_is_named(problems_of: MakeProblems):
    row = HUMANEVAL_PLUS | {"plus_input": [["x"]]}
    with pytest.raises(MalformedRowError, match=r"half\(\*\('x',\)\) .*TypeError"):
        problems_of("humaneval_plus", row)


@pytest.mark.parametrize(
    ("expected", "tolerance", "comparator"),
    [
        (0.5, 0, "float(rel=1e-07, abs=1e-06)"),
        ([0.5, 1.0], 0, "float(rel=1e-07, abs=1e-06)"),
        (0.5, 0.01, "float(rel=1e-07, abs=0.01)"),
        (7, 0.01, "float(rel=1e-07, abs=0.01)"),
        (7, 0, "python"),
        ([1, 0.5], 0, "python"),
        ("0.5", 0, "python"),
        ([], 0, "python"),
    ],
)
def test_comparator_is_that_of_the_evaluator(
    expected: object, tolerance: float, comparator: str
):
    assert compare_as(expected, tolerance) == comparator


def test_any_zero_of_a_polynomial_is_right(problems_of: MakeProblems, box: Sandbox):
    (problem,) = problems_of("humaneval_plus", FIND_ZERO)
    near = "def find_zero(xs):\n    return -xs[0] / xs[1] + 1e-6"
    far = "def find_zero(xs):\n    return -xs[0] / xs[1] + 1e-3"
    assert is_right(problem, near, box)
    assert not is_right(problem, far, box)


def test_shared_elements_may_come_in_any_order_and_number(
    problems_of: MakeProblems, box: Sandbox
):
    (problem,) = problems_of("mbpp_plus", MBPP_PLUS)
    body = "def similar_elements(a, b):\n    return "
    assert is_right(problem, body + "[*(set(a) & set(b))] * 2", box)
    assert not is_right(problem, body + "[*a]", box)


def test_whether_something_is_found_is_what_counts(
    problems_of: MakeProblems, box: Sandbox
):
    (problem,) = problems_of("mbpp_plus", FINDS_MATCH)
    assert [test.expected for test in cases_in(problem)] == [True, False]
    head = "import re\ndef text_match_three(t):\n    m = re.search('ab{3}', t)\n    "
    assert is_right(problem, head + "return bool(m)", box)
    assert is_right(problem, head + "return m and 'Found'", box)
    assert not is_right(problem, head + "return True", box)


def test_arguments_are_what_the_task_means():
    def arguments(task: int, given: list[Any]) -> tuple[object, ...]:
        inputs = {"base_input": [given], "plus_input": []}
        row = MBPP_PLUS | {"task_id": f"Mbpp/{task}"} | inputs
        return cases_in(plus_problem(row, "f"))[0].arguments

    assert arguments(2, [[1], [2]]) == ((1,), (2,))
    assert arguments(63, [[[1, 2], [3]]]) == ([(1, 2), (3,)],)
    assert arguments(75, [[[1, 2]], 2]) == ([(1, 2)], 2)
    assert arguments(106, [[1], [2]]) == ([1], (2,))
    assert arguments(115, [[[1], []]]) == ([{1}, {}],)
    assert arguments(124, ["1.5", "2j"]) == (1.5, 2j)
    assert arguments(252, ["1+2j"]) == (1 + 2j,)
    assert arguments(250, [[1], 2]) == ((1,), 2)
    assert arguments(259, [[[1]], [[2]]]) == (((1,),), ((2,),))
    assert arguments(278, [[1, [2]]]) == ((1, (2,)),)
    assert arguments(580, [[1, [2, [3]]]]) == ((1, (2, (3,))),)
    assert arguments(722, [{"a": [1]}, 2]) == ({"a": (1,)}, 2)
    assert arguments(999, [[1, [2]]]) == ([1, [2]],)
    assert len({n for numbers in MEANT.values() for n in numbers.split()}) == sum(
        len(numbers.split()) for numbers in MEANT.values()
    )
