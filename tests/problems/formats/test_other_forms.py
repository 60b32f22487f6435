"""What is particular to a form: tests in pairs, pytest's, drawn inputs, files."""

import json
from typing import Any

import pytest

from jaxgrpo.host.judge.comparators import comparator
from jaxgrpo.host.records import Limits, Problem, Test
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.formats import load_format
from jaxgrpo.problems.formats.file import columns_problem
from jaxgrpo.problems.formats.format import MalformedRowError, UnusableRowError
from jaxgrpo.problems.formats.io_tests import call_test, stdin_test
from jaxgrpo.problems.formats.pytests import NotAloneError, asserts_of

from .conftest import MakeProblems
from .published import (
    APPS_CALL,
    APPS_METHOD,
    APPS_STDIN,
    CODECONTESTS,
    CODEIO,
    CODEIO_RANDOM,
    CRUXEVAL,
    CRUXEVAL_EXPRESSION,
    DEEPCODER_PRIME,
    KODCODE,
    MBPP,
    PRIMEINTELLECT,
    TACO,
    VERL,
)


def cases_in(problem: Problem) -> tuple[Test, ...]:
    assert isinstance(problem.tests, tuple)
    return problem.tests


def convert(name: str, row: dict[str, Any]) -> Problem:
    return load_format(name).problem(row, "f: row 1")


# Inputs and outputs


def test_lines_in_lists_are_joined():
    problem = convert("apps", APPS_STDIN)
    pairs = [(test.stdin, test.expected) for test in cases_in(problem)]
    assert pairs == [("a\nb", "b\na\n"), ("c\nd", "d\nc")]


def test_keys_of_dictionaries_are_numbers_again():
    problem = convert("apps", APPS_CALL)
    first, second = cases_in(problem)
    assert first.arguments == ({1: "ab"}, 1)
    assert (first.expected, second.expected) == ([{1: 2}], {2: 1})
    assert (first.function, first.compare) == ("count", "wrapped")
    assert "def count(words, n):" in problem.prompt


def test_method_is_called_as_one():
    assert cases_in(convert("apps", APPS_METHOD))[0].function == "Solution.neg"


@pytest.mark.parametrize(
    ("given", "wanted", "arguments", "expected"),
    [
        ("1\n[2]", "3", (1, [2]), 3),
        ("[[1,\n2], 3]", "[4]", ([1, 2], 3), [4]),
        ('"a\\nb"', '"c"', ("a\nb",), "c"),
        ([[1], "x"], "y", ([1], "x"), "y"),
    ],
)
def test_arguments_are_read(
    given: object, wanted: object, arguments: tuple, expected: object
):
    test = call_test("f", given, wanted, "f", "tests[0]")
    assert (test.arguments, test.expected) == (arguments, expected)


def test_arguments_that_are_no_json_are_named():
    with pytest.raises(MalformedRowError, match=r"f: tests\[0\]: input: is no JSON"):
        call_test("f", "1 2", "3", "f", "tests[0]")


def test_value_in_a_list_of_one_will_do_without_it():
    agree = comparator("call", "wrapped")
    assert agree([3], 3).is_match and agree([3], [3]).is_match
    assert agree([0.1], 0.1 + 1e-9).is_match
    assert not agree([3, 4], 3).is_match
    assert not agree(3, [3]).is_match


def test_fractions_are_printed_within_tolerance():
    test = stdin_test("1", "0.3333333333", "f", "tests[0]")
    agree = comparator("stdin", test.compare)
    assert agree(test.expected, "0.333333333333333").is_match
    assert not agree(test.expected, "0.33").is_match


def test_time_limits_are_stretched_for_python():
    assert convert("taco", TACO).limits == Limits(cpu_s=6.0, wall_s=23.0)
    assert convert("taco", TACO | {"time_limit": None}).limits is None
    assert convert("codecontests", CODECONTESTS).limits == Limits(
        cpu_s=4.5, wall_s=18.5
    )
    assert convert("codecontests", CODECONTESTS | {"time_limit": None}).limits is None


def test_numbers_of_codecontests_have_names():
    problem = convert("codecontests", CODECONTESTS)
    assert problem.tags["source"] == "codeforces"
    assert problem.tags["difficulty"] == "A"
    assert problem.columns["cf_rating"] == 1000
    assert problem.reference.startswith("a, b")


def test_ids_without_an_own_one_depend_on_the_question_alone():
    one = convert("deepcoder", DEEPCODER_PRIME)
    other = convert("deepcoder", DEEPCODER_PRIME | {"problem": "Add two."})
    assert one.id != other.id
    assert one.id == convert("deepcoder", dict(DEEPCODER_PRIME)).id


def test_row_of_verl_keeps_the_prompt_and_extra_info():
    problem = convert("deepcoder", VERL)
    assert problem.prompt == "Print the sum of two numbers."
    assert problem.tags["source"] == "primeintellect"
    assert problem.columns["extra_info"] == {"split": "train", "index": 0}


def test_object_and_text_of_an_object_are_the_same():
    info = json.loads(PRIMEINTELLECT["verification_info"])
    for same in (
        info,
        str(info),
        info | {"test_cases": json.dumps(info["test_cases"])},
    ):
        row = PRIMEINTELLECT | {"verification_info": same}
        assert convert("primeintellect", row) == convert(
            "primeintellect", PRIMEINTELLECT
        )


def test_mbpp_shows_some_tests_and_hides_the_harder_ones():
    problem = convert("mbpp", MBPP)
    assert len(cases_in(problem)) == 3
    assert "assert add(1, 2) == 3" in problem.prompt
    assert "add(-1, 1)" not in problem.prompt
    assert "\r" not in problem.reference


@pytest.mark.parametrize(
    ("number", "split"),
    [
        (1, "prompt"),
        (10, "prompt"),
        (11, "test"),
        (510, "test"),
        (511, "validation"),
        (600, "validation"),
        (601, "train"),
        (974, "train"),
    ],
)
def test_split_of_mbpp_is_by_number(number: int, split: str):
    split_of = load_format("mbpp").split_of
    assert split_of is not None
    assert split_of({"task_id": number}) == split


# CRUXEval's inputs


def test_input_that_is_no_literal_becomes_one(problems_of: MakeProblems):
    (problem,) = problems_of("cruxeval_input", CRUXEVAL_EXPRESSION)
    assert problem.reference == "'AA', n=2"


def test_input_without_a_literal_is_left_out(problems_of: MakeProblems):
    row = CRUXEVAL | {"input": "[1], lambda x: x"}
    with pytest.raises(UnusableRowError, match="input: is no literal and stands for"):
        problems_of("cruxeval_input", row)


# Drawn inputs


def test_draws_are_the_seeds(problems_of: MakeProblems):
    first = problems_of("codeio", CODEIO, per_row=4)
    assert 1 < len(first) <= 4
    assert len({problem.prompt for problem in first}) == len(first)
    assert problems_of("codeio", CODEIO, per_row=4) == first
    assert problems_of("codeio", CODEIO, per_row=4, seed=1) != first
    assert problems_of("codeio", CODEIO, per_row=2) == first[:2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (CODEIO_RANDOM, "its value is not decided by its arguments"),
        (CODEIO | {"code_sample": "def main_solution(y):\n    pass"}, "TypeError"),
        (CODEIO | {"input_generator": "x = 1"}, "generate_inputs"),
        (
            CODEIO | {"code_sample": "def main_solution(x):\n    return object()"},
            "NotPlainDataError",
        ),
        (
            CODEIO | {"code_sample": "def main_solution(x):\n    return 'y' * 9999"},
            "its value takes more than",
        ),
        (
            CODEIO | {"code_sample": "def main_solution(x):\n    open('/x', 'w')"},
            "Error",
        ),
    ],
)
def test_row_without_a_problem_says_why(
    row: dict[str, Any], message: str, problems_of: MakeProblems
):
    with pytest.raises(UnusableRowError, match=f"makes no problem: .*{message}"):
        problems_of("codeio", row)


def test_split_goes_by_the_function():
    split_of = load_format("codeio").split_of
    assert split_of is not None
    assert split_of(CODEIO) == split_of(CODEIO | {"task_description": "other"})


# Tests of pytest


def test_tests_of_pytest_become_asserts():
    sources, names = asserts_of(KODCODE["test"])
    assert names == ["mean"]
    some, close, more, empty = sources
    assert some == "HALF = 0.5\nassert mean([0, 1]) == HALF"
    assert "isclose(mean([1, 1, 2]), 1.3333333, rel_tol=1e-06, abs_tol=1e-12)" in close
    assert "for xs, wanted in [([1], 1), ([2, 4], 3)]:" in more
    assert "except ValueError:\n    _raised = True\nassert _raised" in empty


def test_error_that_does_not_come_fails(problems_of: MakeProblems, box: Sandbox):
    from jaxgrpo.host.json_rows import completion_of
    from jaxgrpo.host.judge import JudgeSettings, judge

    (problem,) = problems_of("kodcode", KODCODE)
    forgiving = KODCODE["solution"].replace("raise ValueError('empty')", "return 0")
    verdict = judge(
        problem, completion_of("p", forgiving), box, JudgeSettings(extraction="raw")
    )
    assert not verdict.is_correct
    assert verdict.num_passed == verdict.num_tests - 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("from solution import f\n", "no function whose name begins with test"),
        ("from solution import *\ndef test_a():\n    f()", "everything of solution"),
        ("import solution\ndef test_a():\n    solution.f()", "as a module"),
        ("def test_a():\n    assert 1", "tests nothing of the program"),
        ("def f(): pass\ndef test_a():\n    f()", "tests nothing of the program"),
        (
            "from solution import f\ndef g(): pass\ndef test_a():\n    g()",
            "tests nothing of the program",
        ),
        (
            "from solution import f\ndef test_a(tmp_path):\n    f(tmp_path)",
            "takes the fixture tmp_path",
        ),
        (
            "from solution import f\ndef test_a(monkeypatch):\n    f()",
            "takes the fixture monkeypatch",
        ),
        (
            "import pytest\nfrom solution import f\n@pytest.mark.skip\n"
            "def test_a():\n    f()",
            "is decorated by pytest.mark.skip",
        ),
        (
            "import pytest\nfrom solution import f\ndef test_a():\n"
            "    with pytest.raises(ValueError, match='x'):\n        f()",
            "needs pytest",
        ),
        (
            "import pytest\nfrom solution import f\ndef test_a():\n"
            "    assert f() == pytest.approx([1.0])",
            "needs pytest",
        ),
        (
            "from solution import f\nclass TestF:\n    def setup_method(self):\n"
            "        pass\n    def test_a(self):\n        f()",
            "has more than tests",
        ),
        (
            "from solution import f\nclass TestF:\n    def test_a(self):\n"
            "        self.x = f()",
            "uses self",
        ),
    ],
)
def test_what_cannot_stand_alone_is_told(source: str, message: str):
    with pytest.raises(NotAloneError, match=message):
        asserts_of(source)


def test_tests_in_classes_stand_alone():
    source = (
        "from solution import f as g\nclass TestF:\n    def test_a(self):\n"
        "        assert g(1) == 1\n"
    )
    assert asserts_of(source) == (["assert f(1) == 1"], ["f"])


# Files of any shape


def of_file(row: dict[str, Any], **columns: str) -> Problem:
    return columns_problem({"prompt": "Ask.", **row}, "f: row 1", columns)


CALL = {"function": "f", "arguments": [1], "expected": 2}


@pytest.mark.parametrize(
    ("tests", "kind"),
    [
        ([CALL], "call"),
        ([{"stdin": "1", "expected": "2"}], "stdin"),
        ([{"source": "assert f(1) == 2"}], "assert"),
        ([{"source": "def f(x): ...", "function": "f", "expected": 2}], "input"),
        (["assert f(1) == 2"], "assert"),
        ({"inputs": ["1"], "outputs": ["2"]}, "stdin"),
        ({"inputs": [[1]], "outputs": [2], "fn_name": "f"}, "call"),
        ([{"input": "1", "output": "2"}], "stdin"),
        ("def test_a():\n    assert f(1) == 2", "assert"),
        ("def check(candidate):\n    assert candidate(1) == 2", "assert"),
        ("assert f(1) == 2", "assert"),
    ],
)
@pytest.mark.parametrize("is_text", [False, True])
def test_shape_of_tests_tells_their_kind(tests: Any, kind: str, is_text: bool):
    if is_text and not isinstance(tests, str):
        tests = json.dumps(tests)
    problem = of_file({"unit_tests": tests, "entry": "f"}, tests="unit_tests")
    (test,) = cases_in(problem)
    wanted = "call" if kind == "input" else kind
    assert test.kind == wanted
    assert problem.kind == wanted


def test_fields_are_taken_from_the_columns_that_are_named():
    row = {
        "name": 7,
        "question": "Double it.",
        "answer": "4",
        "level": "easy",
        "topic": None,
        "steps": ["first", "second"],
        "weight": 0.5,
    }
    columns = {
        "id": "name",
        "prompt": "question",
        "reference": "answer",
        "kind": "output",
        "tags": "level, topic",
        "hints": "steps",
    }
    with pytest.raises(MalformedRowError, match="topic: is null"):
        columns_problem(row, "f: row 1", columns)
    problem = columns_problem(row | {"topic": "maths"}, "f: row 1", columns)
    assert problem == Problem(
        id="7",
        kind="output",
        prompt="Double it.",
        reference="4",
        tags={"level": "easy", "topic": "maths"},
        hints=("first", "second"),
        columns={"level": "easy", "topic": "maths", "weight": 0.5},
    )


def test_hints_may_have_tiers():
    row = {"steps": ["a", "b", "c"], "kinds": ["knowledge", "planning", "planning"]}
    problem = of_file(row, hints="steps", hint_tiers="kinds")
    assert problem.hints == ("a", "b", "c")
    assert problem.hint_tiers == ("knowledge", "planning", "planning")
    assert not {"steps", "kinds"} & problem.columns.keys()


def test_each_tier_may_be_a_column():
    row = {"code": ["x =", "x = 1"], "facts": "1 is odd", "first": "p", "second": "q"}
    columns = {
        "knowledge_hints": "facts",
        "planning_hints": "first, second",
        "solution_hints": "code",
    }
    problem = of_file(row, **columns)
    assert problem.hints == ("1 is odd", "p", "q", "x =", "x = 1")
    assert problem.hint_tiers == (
        *("knowledge", "planning", "planning", "solution", "solution"),
    )
    assert of_file(row | {"facts": None}, **columns).hint_tiers[0] == "planning"
    # A column of this name is a reference as a rule, and is no hint.
    assert of_file({"solution": "x = 1"}).hints == ()


def test_kind_may_be_a_column():
    assert of_file({"what": "trace", "reference": "1"}, kind="what").kind == "trace"


def test_id_may_be_missing():
    assert of_file({}).id == of_file({"other": 1}).id
    assert of_file({"id": 3}).id == "3"


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        ({"prompt": None}, {}, "prompt: is null"),
        ({}, {"id": "nme"}, "nme: is missing; there are prompt"),
        ({}, {"kind": "outpt"}, "outpt: is 'outpt'. Use one of output, trace"),
        ({"tests": []}, {}, "tests: is empty"),
        ({"tests": [3]}, {}, "tests[0]: is a number"),
        ({"tests": 3}, {}, "tests: is a number. Give tests."),
        ({"tests": "[1,"}, {}, "tests: is no JSON"),
        ({"tests": [CALL | {"argumnts": []}]}, {}, "Did you mean arguments?"),
        ({"tests": "def test_a(:"}, {}, "tests: is no Python"),
        ({"tests": "def test_a(tmp_path): f()"}, {}, "cannot stand alone"),
        ({"hints": "a\ud800"}, {}, "half a surrogate pair"),
        ({"hints": ["a"], "hint_tiers": ["plan"]}, {}, "hint_tiers: has 'plan'. Use"),
        (
            {"hints": ["a"], "hint_tiers": ["planning", "planning"]},
            {},
            "hint_tiers: has 2 tiers of 1 hints",
        ),
        (
            {"steps": ["a"], "facts": ["b"]},
            {"hints": "steps", "knowledge_hints": "facts"},
            "steps: has hints, and facts has too",
        ),
    ],
)
def test_wrong_row_of_a_file_is_named(
    row: dict[str, Any], columns: dict[str, str], message: str
):
    with pytest.raises(MalformedRowError) as caught:
        of_file(row, **columns)
    assert str(caught.value).startswith("f: row 1: ")
    assert message in str(caught.value)
