"""Every published form: rows become problems, solutions pass, broken rows are named."""

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import SANDBOXED_KINDS, JudgeSettings, judge
from jaxgrpo.host.judge.programs import check_problem, untrusted_reason
from jaxgrpo.host.records import Problem
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.formats import FORMATS, load_format
from jaxgrpo.problems.formats.format import MalformedRowError, UnusableRowError

from .conftest import MakeProblems
from .published import REQUIRED, ROWS, WITHOUT_SOLUTION

EACH_ROW = [
    pytest.param(name, row, id=f"{name}-{index}")
    for name, rows in ROWS.items()
    for index, row in enumerate(rows)
]
EACH_FIELD = [(name, field) for name in REQUIRED for field in REQUIRED[name].split()]
TEXTS = [
    (name, field) for name, field in EACH_FIELD if isinstance(ROWS[name][0][field], str)
]
HALF_A_PAIR = "\ud800"


def solution_of(problem: Problem) -> str:
    if problem.reference:
        return problem.reference
    return next(
        text
        for key, text in WITHOUT_SOLUTION.items()
        if key == problem.id or problem.prompt.startswith(key)
    )


def raw(text: str, problem: Problem, box: Sandbox) -> Any:
    return judge(
        problem, completion_of(problem.id, text), box, JudgeSettings(extraction="raw")
    )


def test_each_format_is_covered_here():
    assert {*FORMATS} == {*ROWS, "file"} == {*REQUIRED, "file"}


@pytest.mark.parametrize("name", FORMATS)
def test_format_tells_where_its_files_are(name: str):
    found = load_format(name)
    assert found.name == name
    assert found.summary and found.licence and found.kind
    assert ("https://" in found.get_it and "file" in found.get_it) or name == "file"
    assert {*found.files} <= {"train", "validation", "test", ""}


def test_unknown_format_is_met_with_the_nearest():
    with pytest.raises(ValueError, match="'mbp'. Did you mean 'mbpp'"):
        load_format("mbp")


@pytest.mark.parametrize(("name", "row"), EACH_ROW)
def test_row_becomes_problems_that_their_solutions_solve(
    name: str, row: dict[str, Any], problems_of: MakeProblems, box: Sandbox
):
    problems = problems_of(name, row)
    assert problems
    for problem in problems:
        assert problem.id.startswith(f"{name}/")
        assert problem.prompt and problem.tags["dataset"] == name
        if problem.kind in SANDBOXED_KINDS:
            check_problem(problem)
            assert not untrusted_reason(problem)
        assert raw(solution_of(problem), problem, box).is_correct
        assert not raw("None", problem, box).is_correct


@pytest.mark.parametrize(("name", "row"), EACH_ROW)
def test_conversion_is_pure(name: str, row: dict[str, Any]):
    before = json.dumps(row)
    convert = load_format(name).problem
    assert convert(row, "f: row 1") == convert(row, "f: row 1")
    assert json.dumps(row) == before


@pytest.mark.parametrize(("name", "field"), EACH_FIELD)
@pytest.mark.parametrize("broken", ["missing", "null", "of another type"])
def test_field_that_is_not_there_is_named(name: str, field: str, broken: str):
    row = dict(ROWS[name][0])
    if broken == "missing":
        del row[field]
    else:
        row[field] = None if broken == "null" else 1.5
    with pytest.raises(MalformedRowError) as caught:
        load_format(name).problem(row, "some/f.jsonl: row 31")
    assert str(caught.value).startswith("some/f.jsonl: row 31: ")
    # Where several fields can hold tests, that all are empty is what is told.
    assert field in str(caught.value) or "test" in field


@pytest.mark.parametrize(("name", "field"), TEXTS)
def test_half_a_surrogate_pair_is_refused(name: str, field: str):
    row = dict(ROWS[name][0])
    row[field] = row[field] + HALF_A_PAIR
    with pytest.raises(MalformedRowError, match="f: row 1: .*"):
        load_format(name).problem(row, "f: row 1")


EMPTY_TESTS: dict[str, dict[str, Any]] = {
    "humaneval_plus": {"base_input": [], "plus_input": []},
    "mbpp": {"test_list": []},
    "mbpp_sanitized": {"test_list": []},
    "mbpp_plus": {"base_input": [], "plus_input": []},
    "livecodebench": {"public_test_cases": "[]", "private_test_cases": "[]"},
    "apps": {"input_output": '{"inputs": [], "outputs": []}'},
    "taco": {"input_output": '{"inputs": [], "outputs": []}'},
    "codecontests": {"public_tests": None, "generated_tests": None},
    "deepcoder": {"tests": "[]"},
    "primeintellect": {"verification_info": '{"test_cases": []}'},
    "kodcode": {"test": "from solution import mean\n"},
}


@pytest.mark.parametrize("name", EMPTY_TESTS)
def test_row_without_tests_is_refused(name: str):
    row = ROWS[name][0] | EMPTY_TESTS[name]
    with pytest.raises(MalformedRowError, match="f: row 1: .*(empty|no test|no func)"):
        load_format(name).problem(row, "f: row 1")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("humaneval", {"test": "def check(:"}, "test: is no Python"),
        ("humaneval_plus", {"base_input": [3]}, "[0]: is a number. Give a list"),
        ("mbpp_plus", {"base_input": [[1, [2]]]}, None),
        ("cruxeval_input", {"output": "object()"}, "output: is no literal"),
        ("livecodebench", {"contest_date": "May"}, "is 'May', not a date"),
        ("livecodebench", {"metadata": '{"func_name": "f"}'}, "testtype: is 'stdin'"),
        ("livecodebench", {"private_test_cases": "eJw="}, "neither JSON nor base64"),
        ("livecodebench", {"private_test_cases": "%"}, "neither JSON nor base64"),
        ("apps", {"input_output": ""}, "input_output: is empty"),
        ("apps", {"input_output": "{"}, "input_output: is no JSON"),
        (
            "apps",
            {"input_output": '{"inputs": ["1"], "outputs": []}'},
            "has 1 inputs and 0 outputs",
        ),
        ("codecontests", {"input_file": "in.txt"}, "files are not supported"),
        (
            "codecontests",
            {"public_tests": {"input": ["1"], "output": []}},
            "public_tests: has 1 inputs and 0 outputs",
        ),
        ("deepcoder", {"tests": '[{"input": "1"}]'}, "output: is missing"),
        ("deepcoder", {"tests": '["1"]'}, "tests[0]: is text. Give an object"),
        (
            "primeintellect",
            {"verification_info": '{"language": "rust", "test_cases": [1]}'},
            "language: is 'rust'",
        ),
        ("kodcode", {"test": "def test_a(:"}, "test: is no Python"),
        (
            "kodcode",
            {"test": "from solution import f\ndef test_a(capsys):\n    f()"},
            "test_a takes the fixture capsys",
        ),
    ],
)
def test_what_is_wrong_is_told(name: str, changes: dict[str, Any], message: str | None):
    row = ROWS[name][0] | changes
    convert = load_format(name).problem
    if message is None:
        assert convert(row, "f: row 1")  # A tuple where a number is: left as it is.
        return
    with pytest.raises(MalformedRowError) as caught:
        convert(row, "f: row 1")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["apps", "codecontests", "livecodebench", "deepcoder"])
def test_test_of_five_megabytes_is_a_test(name: str):
    large = "7 " * (5 * 2**19)
    case = {"input": large, "output": large, "testtype": "stdin"}
    fields = {
        "apps": {"input_output": json.dumps({"inputs": [large], "outputs": [large]})},
        "codecontests": {"generated_tests": {"input": [large], "output": [large]}},
        "livecodebench": {"private_test_cases": json.dumps([case])},
        "deepcoder": {"tests": json.dumps([case])},
    }
    problem = load_format(name).problem(ROWS[name][0] | fields[name], "f: row 1")
    assert isinstance(problem.tests, tuple)
    last = problem.tests[-1]
    assert last.stdin == last.expected == large


@pytest.mark.parametrize("name", [name for name in ROWS if name != "file"])
def test_rows_come_back_from_json_lines_and_parquet(name: str, tmp_path: Path):
    rows = ROWS[name][:1]
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\r\n" for row in rows), "utf-8")
    table = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    found = load_format(name)
    for path in (lines, table):
        ((where, row),) = found.rows(path)
        assert where == f"{path}: row 1"
        assert not isinstance(row, MalformedRowError)
        assert found.problem(row, "f") == found.problem(rows[0], "f")


def files_of(package: str) -> Iterator[str]:
    yield from (path.name for path in importlib.metadata.files(package) or ())


def test_package_carries_the_file_that_the_format_names():
    found = load_format("humaneval")
    try:
        names = set(files_of(found.package))
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {found.package} is not installed")
    assert names & set(found.files["test"])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("apps", {"input_output": ""}),
        ("apps", {"input_output": '{"inputs": [], "outputs": []}'}),
        ("codecontests", {"output_file": "out.txt"}),
        ("codecontests", {"public_tests": None, "generated_tests": None}),
        ("primeintellect", {"verification_info": {"language": "rust"}}),
        ("kodcode", {"test": "from solution import f\ndef test_a(capsys):\n    f()"}),
    ],
)
def test_row_that_is_published_so_is_left_out_and_is_no_error(
    name: str, changes: dict[str, Any]
):
    with pytest.raises(UnusableRowError, match="^f: row 1: "):
        load_format(name).problem(ROWS[name][0] | changes, "f: row 1")


def test_steps_are_what_the_anchors_print(problems_of: MakeProblems):
    (problem,) = problems_of("cruxeval_steps", ROWS["cruxeval_steps"][0])
    assert problem.columns["steps"] == [["kept", "[2, 3]"], ["result", "[2, 3]"]]
    assert 'print(f"kept: {kept!r}")' in problem.prompt
    assert problem.prompt.endswith("exactly as it prints them.")
    assert problem.tags["steps"] == "2" and problem.kind == "trace"


@pytest.mark.parametrize(
    "code",
    [
        "def f(nums):\n    return [n for n in nums if n > 1]",
        "def f(nums):\n    kept = set(nums) - {1}\n    return sorted(kept)",
        "def f(nums):\n    print(nums)\n    kept = nums[1:]\n    return kept",
        "def f(nums):\n    kept = nums[1:]\n    for n in nums:\n        return kept",
        "def f(nums):\n    kept = nums[1:]\n    raise ValueError",
    ],
    ids=["no step", "a set", "prints", "returns in a loop", "raises"],
)
def test_program_without_steps_is_left_out(code: str, problems_of: MakeProblems):
    with pytest.raises(UnusableRowError, match=r"no anchors|no steps"):
        problems_of("cruxeval_steps", ROWS["cruxeval_steps"][0] | {"code": code})


def test_run_with_nothing_to_ask_about_is_left_out(problems_of: MakeProblems):
    row = ROWS["cruxeval_trace"][0] | {"code": "def f(x): return [x, g()]\ng = int"}
    with pytest.raises(UnusableRowError, match="nothing to ask"):
        problems_of("cruxeval_trace", row)
