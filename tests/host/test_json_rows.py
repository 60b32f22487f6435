import json
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.host import stored_tests
from jaxgrpo.host.json_rows import (
    completion_of,
    problem_of,
    read_completions,
    read_problems,
    row_of_verdict,
)
from jaxgrpo.host.records import (
    ExceptionInfo,
    Limits,
    Problem,
    Span,
    TestResult,
    Verdict,
)

CALL = {"function": "f", "arguments": [1], "expected": 2}
PROBLEM = {"id": "p", "kind": "call", "tests": [CALL]}


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_row_becomes_a_problem():
    row = {
        **PROBLEM,
        "prompt": "Add one.",
        "reference": "def f(x): return x + 1",
        "tags": {"level": "easy"},
        "hints": ["Use +."],
        "hint_tiers": ["knowledge"],
        "columns": {"source": [1, None]},
        "limits": {"cpu_s": 5, "memory_bytes": 1000},
    }
    problem = problem_of(row, "here")
    assert (problem.id, problem.kind, problem.prompt) == ("p", "call", "Add one.")
    assert problem.tags == {"level": "easy"}
    assert problem.hints == ("Use +.",)
    assert problem.hint_tiers == ("knowledge",)
    assert problem.columns == {"source": [1, None]}
    assert problem.limits == Limits(cpu_s=5, memory_bytes=1000)
    (test,) = stored_tests.tests_of(problem)
    assert (test.function, test.arguments, test.expected) == ("f", (1,), 2)


def test_python_literals_stand_for_what_json_cannot_say():
    test = {
        "function": "f",
        "arguments_python": "[(1, 2), {3}, nan]",
        "keywords_python": "{'a': b'x'}",
        "expected_python": "frozenset({1})",
        "compare": "exact",
    }
    (found,) = stored_tests.tests_of(problem_of({**PROBLEM, "tests": [test]}, "here"))
    assert found.arguments[:2] == ((1, 2), {3})
    assert found.keywords == {"a": b"x"}
    assert found.expected == frozenset({1})


def test_tuple_of_arguments_is_a_list_of_them():
    test = {"function": "f", "arguments_python": "(1, 'a')", "expected": None}
    (found,) = stored_tests.tests_of(problem_of({**PROBLEM, "tests": [test]}, "here"))
    assert found.arguments == (1, "a")
    assert found.expected is None


def test_long_python_literal_is_read():
    test = {"function": "f", "arguments_python": f"[{list(range(9999))}]"}
    row = {**PROBLEM, "tests": [{**test, "expected": 1}]}
    assert stored_tests.tests_of(problem_of(row, "here"))[0].arguments == (
        list(range(9999)),
    )


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "kind": "output", "reference": "3"},
        {"id": "a", "kind": "stdin", "tests": [{"expected": "x"}]},
        {"id": "a", "kind": "assert", "tests": [{"source": "assert f(1)"}]},
        {"id": "a", "kind": "assert", "tests": [{"source": "assert A().b"}]},
        {"id": "a", "kind": "call", "tests": [{**CALL, "kind": "call"}]},
    ],
)
def test_every_kind_has_its_row(row: dict[str, Any]):
    assert problem_of(row, "here").id == "a"


def with_test(**fields: object) -> dict[str, Any]:
    return {**PROBLEM, "tests": [{**CALL, **fields}]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"kind": "call", "tests": [CALL]}, "here: id is missing. Add it."),
        ({**PROBLEM, "id": 3}, "here: id is a number. Give text."),
        ({"id": "p", "tests": [CALL]}, "here: kind is missing."),
        ({**PROBLEM, "kind": "calls"}, "here: kind 'calls'. Use one of output, trace"),
        ({**PROBLEM, "kind": "trace"}, "here: tests of a problem of kind trace."),
        ({"id": "p", "kind": "trace"}, "here: reference is missing. Add it."),
        ({**PROBLEM, "kind": "input"}, "tests[0]: unknown field 'arguments'."),
        ({**PROBLEM, "promt": "x"}, "unknown field 'promt'. Did you mean prompt?"),
        ({**PROBLEM, "tests": []}, "problem 'p': no tests."),
        ({**PROBLEM, "tests": {}}, "tests is an object. Give a list."),
        ({**PROBLEM, "tests": ["f(1)"]}, "here: tests[0] is text. Give an object."),
        (with_test(stdin="x"), "tests[0]: unknown field 'stdin'."),
        (with_test(kind="stdin"), "kind 'stdin' in a problem of kind 'call'"),
        (with_test(function=None), "tests[0]: function is null. Give text."),
        (with_test(arguments={"x": 1}), "tests[0]: arguments is an object. Give a li"),
        (with_test(arguments_python="[1]"), "tests[0]: arguments is given twice."),
        (with_test(expected_python="2"), "tests[0]: expected is given twice."),
        (with_test(keywords_python="f(1)"), "keywords_python is no Python literal"),
        (with_test(keywords_python="[1]"), "tests[0]: keywords is a list. Give an obj"),
        (with_test(compare="flaot"), "test 0: no comparator for kind 'call' is named"),
        ({**PROBLEM, "tests": [{"function": "f"}]}, "tests[0]: expected is missing"),
        (
            {**PROBLEM, "limits": {"cpu": 1}},
            "limits: unknown field 'cpu'. Did you mean",
        ),
        ({**PROBLEM, "limits": {"cpu_s": 0}}, "limits.cpu_s is 0. Give a number above"),
        ({**PROBLEM, "limits": {"memory_bytes": 1.5}}, "Give a whole number above 0"),
        ({**PROBLEM, "tags": {"level": 1}}, "tags.level is a number. Give text."),
        ({**PROBLEM, "hints": [1]}, "hints is a number. Give text."),
        ({**PROBLEM, "hints": ["a"], "hint_tiers": ["deep"]}, "hint tier 'deep'. Use"),
        ({**PROBLEM, "hint_tiers": ["planning"]}, "1 hint_tiers of 0 hints. Give one"),
        ({"id": "p", "kind": "output"}, "here: reference is missing."),
        (
            {"id": "p", "kind": "output", "reference": "1", "tests": [CALL]},
            "tests of a problem of kind output",
        ),
        (
            {"id": "p", "kind": "stdin", "tests": [{"stdin": "x"}]},
            "tests[0]: expected is missing",
        ),
        (
            {"id": "p", "kind": "assert", "tests": [{"source": "assert f("}]},
            "problem 'p': test 0: a test is no Python",
        ),
    ],
)
def test_wrong_row_is_refused_naming_the_field(row: dict[str, Any], message: str):
    with pytest.raises(ValueError) as caught:
        problem_of(row, "here")
    assert message in str(caught.value)
    assert str(caught.value).startswith("here")
    assert "\n" not in str(caught.value)


def test_files_are_read_in_order(tmp_path: Path):
    path = tmp_path / "problems.jsonl"
    first, second = {**PROBLEM, "id": "a"}, {**PROBLEM, "id": "b"}
    path.write_text(f"{json.dumps(first)}\n\n{json.dumps(second)}", encoding="utf-8")
    assert [problem.id for problem in read_problems(path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "problems.jsonl: no problems."),
        (b"{}\n[1]\n", "problems.jsonl:1: kind is missing."),
        (b"[1]\n", "problems.jsonl:1: a list. Write one object per line."),
        (b'{"id": 1,}\n', "problems.jsonl:1: not JSON"),
        (b"\xff\n", "problems.jsonl: byte 0 is no UTF-8."),
        (b"[" * 100_000, "problems.jsonl:1: not JSON"),
    ],
)
def test_wrong_file_is_refused_naming_the_line(
    content: bytes, message: str, tmp_path: Path
):
    path = tmp_path / "problems.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_problems(path)
    assert message in str(caught.value)


def test_absent_file_is_one_line(tmp_path: Path):
    with pytest.raises(ValueError, match="cannot be read .No such file"):
        read_problems(tmp_path / "absent.jsonl")


def test_id_is_given_once(tmp_path: Path):
    path = written(tmp_path / "p.jsonl", PROBLEM, PROBLEM)
    with pytest.raises(ValueError, match="p.jsonl:2: id 'p' is that of .*p.jsonl:1"):
        read_problems(path)


PROBLEMS = {"p": Problem(id="p", kind="output", prompt="", reference="1")}


def test_completions_keep_their_other_fields(tmp_path: Path):
    path = written(
        tmp_path / "c.jsonl",
        {"problem_id": "p", "text": "1", "model": "a"},
        {"problem_id": "p", "completion": "2"},
    )
    first, second = read_completions(path, PROBLEMS)
    assert (first.completion.text, first.columns) == ("1", {"model": "a"})
    assert (second.completion.text, second.columns) == ("2", {})
    assert second.where == f"{path}:2"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "1"}, "c.jsonl:1: problem_id is missing."),
        ({"problem_id": "P", "text": "1"}, "'P' is no problem's id. Add it, or"),
        ({"problem_id": "pp", "text": "1"}, "no problem's id. Did you mean 'p'?"),
        ({"problem_id": "p"}, "neither text nor completion given."),
        ({"problem_id": "p", "text": "", "completion": ""}, "text and completion giv"),
        ({"problem_id": "p", "text": None}, "text is null. Give text."),
    ],
)
def test_wrong_completion_is_refused(row: dict, message: str, tmp_path: Path):
    path = written(tmp_path / "c.jsonl", row)
    with pytest.raises(ValueError) as caught:
        read_completions(path, PROBLEMS)
    assert message in str(caught.value)


def test_no_completions_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="no completions"):
        read_completions(written(tmp_path / "c.jsonl"), PROBLEMS)


def test_completion_has_a_text_only():
    completion = completion_of("p", "abc")
    assert (completion.problem_id, completion.text) == ("p", "abc")
    assert len(completion.token_ids) == 0


def test_verdict_becomes_json():
    result = TestResult(
        status="RE",
        error_class="exception",
        exception=ExceptionInfo(type_name="KeyError", message="x", line=3),
    )
    verdict = Verdict(
        status="RE",
        error_class="exception",
        num_tests=1,
        results=(result,),
        spans=(Span(start=1, end=2, label="code"),),
    )
    row = json.loads(json.dumps(row_of_verdict(verdict)))
    assert row["results"][0]["exception"]["line"] == 3
    assert row["spans"] == [{"start": 1, "end": 2, "label": "code"}]
    assert (row["status"], row["num_passed"], row["num_tests"]) == ("RE", 0, 1)
