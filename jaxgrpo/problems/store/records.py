"""A problem as a record of a store, and back."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from jaxgrpo.host.records import Limits, Problem, StoredTests
from jaxgrpo.host.sandbox.plain_data import NotPlainDataError, from_bytes, to_bytes
from jaxgrpo.problems.formats.format import MalformedRowError, malformed

TEXTS = ("id", "kind", "prompt", "reference")
"""Fields that are records' own columns; `rest` holds all others as plain data."""
MAX_RECORD_BYTES = 2**30

Record = dict[str, str]


def record_of(problem: Problem, where: str) -> Record:
    """Returns a problem as texts.

    Args:
      problem: Its tests are stored ones, or none.
      where: File and row, for messages.

    Raises:
      MalformedRowError: A value is no plain data, or a text cannot be encoded.
    """
    for name in ("id", "prompt", "reference"):
        _check_text(getattr(problem, name), name, where)
    for hint in problem.hints:
        _check_text(hint, "hints", where)
    rest: dict[str, object] = {
        field.name: getattr(problem, field.name)
        for field in fields(Problem)
        if field.name not in TEXTS
    }
    rest["tests"] = _place(problem)
    rest["limits"] = None if problem.limits is None else asdict(problem.limits)
    try:
        encoded = to_bytes(rest, MAX_RECORD_BYTES)
    except NotPlainDataError:
        raise _bad_column(problem, where) from None
    texts = {name: getattr(problem, name) for name in TEXTS}
    return {**texts, "rest": encoded.decode("ascii")}


def problem_of_record(record: Mapping[str, Any], tests_file: Path) -> Problem:
    """Returns the problem of a record.

    Args:
      record: Texts, or their UTF-8.
      tests_file: Holds the tests of the store's problems.
    """
    texts = {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in record.items()
    }
    rest: Any = from_bytes(texts.pop("rest").encode("ascii"))
    place, limits = rest.pop("tests"), rest.pop("limits")
    return Problem(
        **texts,
        tests=() if place is None else StoredTests(path=str(tests_file), **place),
        limits=None if limits is None else Limits(**limits),
        **rest,
    )


def line_of_record(record: Record) -> str:
    """Returns a record as a line of a file."""
    return json.dumps(record) + "\n"


def _place(problem: Problem) -> dict[str, int] | None:
    """Where the tests are, without the file: a store can be moved."""
    tests = problem.tests
    if not isinstance(tests, StoredTests):
        assert not tests, "tests go to their file first"
        return None
    names = (field.name for field in fields(StoredTests) if field.name != "path")
    return {name: getattr(tests, name) for name in names}


def _bad_column(problem: Problem, where: str) -> MalformedRowError:
    for name, value in problem.columns.items():
        try:
            to_bytes(value, MAX_RECORD_BYTES)
        except NotPlainDataError as error:
            return malformed(where, name, f"{error}. Leave the column out.")
    return malformed(where, "", "more data than a record holds. Leave out columns.")


def _check_text(text: str, field: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        character = text[error.start]
        raise malformed(
            where,
            field,
            f"character {error.start} is {character!r}, half of a surrogate pair, "
            "which no UTF-8 can hold. Correct it, or drop the row.",
        ) from None
