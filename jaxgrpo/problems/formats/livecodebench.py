"""LiveCodeBench, code generation: contest problems with their dates.

One JSON object per line: `question_title`, `question_content`, `platform` (leetcode,
codeforces, atcoder), `question_id`, `contest_id`, `contest_date` (ISO), `starter_code`,
`difficulty` (easy, medium, hard), and texts of JSON: `metadata` ({"func_name": ...}, or
{}), `public_test_cases` and `private_test_cases`, lists of {"input", "output",
"testtype"}, testtype `stdin` or `functional`. In the lite release the private tests are
JSON, pickled as a text, compressed by zlib, in base64. Arguments of a function are JSON
values, one per line.

Reference:
  https://huggingface.co/datasets/livecodebench/code_generation_lite, and
  https://github.com/LiveCodeBench/LiveCodeBench (lcb_runner/benchmarks/
  code_generation.py, evaluation/testing_util.py). Differs from it: nothing is
  unpickled; 1 is not True; an expected whole number has to be printed as one.
"""

import base64
import binascii
import datetime
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.fields import (
    checked_text,
    identifier_of,
    json_of,
    kind_of,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed
from jaxgrpo.problems.formats.io_tests import call_test, method_of, stdin_test
from jaxgrpo.problems.formats.pickled_text import text_in_pickle
from jaxgrpo.problems.formats.wording import reading, starting

MAX_DECODED_BYTES = 2**30
"""Of one row's private tests: more is taken for a bomb."""
COMPARE = {"stdin": "float(rel=0, abs=0)", "call": "value"}
"""Exact, as in the original; numbers are compared by value, so that 1.0 is 1.00."""


def livecodebench_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    starter = text_of(row, "starter_code", where, default="")
    public = decoded(text_of(row, "public_test_cases", where), where, "public")
    private = decoded(text_of(row, "private_test_cases", where), where, "private")
    function = function_of(row, where, starter)
    tests = tests_of_cases(public + private, function, where)
    date = date_of(row, where)
    task = text_of(row, "question_content", where)
    return Problem(
        id=f"livecodebench/{identifier_of(row, 'question_id', where)}",
        kind=tests[0].kind,
        prompt=starting(task, starter, function) if function else reading(task),
        reference="",
        tests=tests,
        tags=tags_of(
            dataset="livecodebench",
            platform=text_of(row, "platform", where),
            difficulty=text_of(row, "difficulty", where),
            contest_month=date[:7],
        ),
        columns={
            "title": text_of(row, "question_title", where, default=""),
            "contest_id": text_of(row, "contest_id", where, default=""),
            "contest_date": date,
            "num_public_tests": len(public),
        },
    )


def decoded(text: str, where: str, name: str) -> list[Any]:
    """Returns the tests that a text holds, in either of the published encodings.

    Args:
      text: JSON; or base64 of compressed JSON, pickled as a text.
      where: File and row, for messages.
      name: `public` or `private`.
    """
    field = f"{name}_test_cases"
    if not text.lstrip().startswith("["):
        text = _unpacked(text, where, field)
    found = json_of(text, field, where)
    if not isinstance(found, list):
        raise malformed(where, field, f"is {kind_of(found)}. Give a list of tests.")
    return found


def _unpacked(text: str, where: str, field: str) -> str:
    try:
        packed = base64.b64decode(text, validate=True)
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(packed, MAX_DECODED_BYTES)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise ValueError(f"cut off, or more than {MAX_DECODED_BYTES} bytes")
        return text_in_pickle(content)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise malformed(
            where,
            field,
            f"is neither JSON nor base64 of a compressed, pickled text: {error}. "
            "Get the file again.",
        ) from None


def function_of(row: Row, where: str, starter: str) -> str:
    """Returns the function to call, as the judge is to call it; empty for none.

    Args:
      row: The raw row.
      where: File and row, for messages.
      starter: Tells whether it is a method.
    """
    metadata = row.get("metadata") or {}
    if isinstance(metadata, str):
        metadata = json_of(metadata, "metadata", where) or {}
    if not isinstance(metadata, Mapping):
        raise malformed(where, "metadata", f"is {kind_of(metadata)}. Give an object.")
    name = metadata.get("func_name")
    return method_of(checked_text(name, "func_name", where), starter) if name else ""


def tests_of_cases(cases: list[Any], function: str, where: str) -> tuple[Test, ...]:
    """Returns the tests of a row.

    Args:
      cases: As decoded.
      function: To call; empty for programs.
      where: File and row, for messages.
    """
    if not cases:
        raise malformed(where, "private_test_cases", "is empty, and so is the other.")
    kinds = {case.get("testtype") for case in cases if isinstance(case, Mapping)}
    wanted = {"functional" if function else "stdin"}
    if kinds != wanted or not all(isinstance(case, Mapping) for case in cases):
        raise malformed(
            where,
            "testtype",
            f"is {', '.join(map(repr, sorted(map(str, kinds))))} where metadata's "
            f"func_name is {function!r}. All have to be {wanted.pop()!r}.",
        )
    make = _functional if function else _standard
    return tuple(
        make(case, function, where, f"test_cases[{i}]") for i, case in enumerate(cases)
    )


def _functional(case: Row, function: str, where: str, field: str) -> Test:
    given, wanted = _pair(case, f"{where}: {field}")
    test = call_test(function, given, wanted, where, field)
    return replace(test, compare=COMPARE["call"])


def _standard(case: Row, function: str, where: str, field: str) -> Test:
    del function
    given, wanted = _pair(case, f"{where}: {field}")
    test = stdin_test(given, wanted, where, field)
    return replace(test, compare=COMPARE["stdin"])


def _pair(case: Row, where: str) -> tuple[str, str]:
    return text_of(case, "input", where), text_of(case, "output", where)


def date_of(row: Row, where: str) -> str:
    """Returns the day of the contest, as 2024-05-04.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    found = row.get("contest_date")
    if isinstance(found, datetime.datetime):
        return found.date().isoformat()
    text = text_of(row, "contest_date", where)
    try:
        return datetime.datetime.fromisoformat(text).date().isoformat()
    except ValueError:
        raise malformed(
            where, "contest_date", f"is {text!r}, not a date such as 2024-05-04."
        ) from None


FORMAT = Format(
    name="livecodebench",
    summary="contest problems by date; standard input, or calls",
    licence="CC (see the card)",
    get_it=(
        "https://huggingface.co/datasets/livecodebench/code_generation_lite, files "
        "test.jsonl, test2.jsonl ... test6.jsonl (one per release; any of them)"
    ),
    files={"test": ("test*.jsonl", "*.parquet")},
    rows=rows_of,
    problem=livecodebench_problem,
    kind="stdin, call",
    sizes="1,055 test in release 6",
)
