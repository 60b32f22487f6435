r"""Problems, completions and verdicts as rows of JSON Lines files.

A problem is a row with the fields of `Problem`, a test one with those of `Test`:

    {"id": "double", "kind": "call", "prompt": "Double it.", "tags": {"level": "1"},
     "tests": [{"function": "double", "arguments": [2], "expected": 4},
               {"function": "double", "arguments": [0.1], "expected": 0.2,
                "compare": "float(rel=1e-9)"}]}
    {"id": "echo", "kind": "stdin", "tests": [{"stdin": "hi\n", "expected": "hi\n"}]}
    {"id": "sort", "kind": "assert", "reference": "def f(x): return sorted(x)",
     "tests": [{"source": "assert f([2, 1]) == [1, 2]"}]}
    {"id": "add", "kind": "output", "reference": "3"}
    {"id": "find", "kind": "input", "reference": "2",
     "tests": [{"source": "def f(x): return x * x", "function": "f", "expected": 4}]}

`id` and `kind` are required, and so is what the kind of test needs. Where values are
not JSON's, `arguments_python`, `keywords_python` and `expected_python` hold a Python
literal as text: "[(1, 2), {3}]". `limits` takes the fields of `Limits`.

A completion is a row with `problem_id` and either `text` or `completion`. Its other
fields come back with its verdict.
"""

import ast
import dataclasses
import difflib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from jaxgrpo.host.judge.literal_values import NotALiteralError, read_literal
from jaxgrpo.host.judge.programs import check_problem
from jaxgrpo.host.records import (
    Completion,
    HintTier,
    Limits,
    Problem,
    ProblemKind,
    Score,
    Test,
    TestResult,
    Verdict,
)

KINDS: tuple[str, ...] = get_args(ProblemKind)
PYTHON_SUFFIX = "_python"
_TEST_FIELDS = {
    "stdin": ("stdin", "expected", "compare", "checker"),
    "call": (
        *("function", "arguments", "keywords", "expected", "compare", "checker"),
        *("arguments_python", "keywords_python", "expected_python"),
    ),
    "assert": ("source", "function", "is_inside"),
    "input": ("source", "function", "expected", "expected_python", "compare"),
}
_REQUIRED = {
    "stdin": ("expected",),
    "call": ("function", "expected"),
    "assert": ("source",),
    "input": ("source", "function", "expected"),
}
_KIND_OF_TEST = {"input": "call"}
"""Where it is not the problem's own."""
_LITERAL_KINDS = ("output", "trace")
_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRow:
    """A completion as a file has it."""

    completion: Completion
    columns: dict[str, object]
    """The other fields of its row."""
    where: str
    """File and line."""


def read_problems(path: Path) -> list[Problem]:
    """Returns the problems of a file, each of which can be judged.

    Args:
      path: JSON Lines.

    Raises:
      ValueError: Naming file, line and field.
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for where, row in rows_of(path):
        problem = problem_of(row, where)
        if problem.id in found:
            raise ValueError(
                f"{where}: id {problem.id!r} is that of {found[problem.id]} too. "
                "Give each problem an id of its own."
            )
        found[problem.id] = where
        problems.append(problem)
    if not problems:
        raise ValueError(f"{path}: no problems. Give one per line.")
    return problems


def read_completions(
    path: Path, problems: Mapping[str, Problem]
) -> list[CompletionRow]:
    """Returns the completions of a file.

    Args:
      path: JSON Lines.
      problems: By id.

    Raises:
      ValueError: Naming file, line and field.
    """
    rows: list[CompletionRow] = []
    for where, row in rows_of(path):
        problem_id = _field(row, "problem_id", str, where)
        if problem_id not in problems:
            near = difflib.get_close_matches(problem_id, problems, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Add it, or drop the row."
            raise ValueError(
                f"{where}: problem_id {problem_id!r} is no problem's id. {hint}"
            )
        names = [name for name in ("text", "completion") if name in row]
        if len(names) != 1:
            raise ValueError(
                f"{where}: {' and '.join(names) or 'neither text nor completion'} "
                "given. Give the text of the completion once."
            )
        text = _field(row, names[0], str, where)
        columns = {k: v for k, v in row.items() if k not in ("problem_id", names[0])}
        completion = completion_of(problem_id, text)
        rows.append(CompletionRow(completion=completion, columns=columns, where=where))
    if not rows:
        raise ValueError(f"{path}: no completions. Give one per line.")
    return rows


def completion_of(problem_id: str, text: str) -> Completion:
    """Returns a completion of which only the text is known.

    Args:
      problem_id: Of its problem.
      text: What was written.
    """
    return Completion(
        problem_id=problem_id,
        token_ids=np.zeros(0, np.int32),
        text=text,
        token_offsets=np.zeros((0, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(0, np.float32),
    )


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields `file:line` and the object of each line that is not empty.

    Args:
      path: JSON Lines, in UTF-8.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: byte {error.start} is no UTF-8. Save the file as UTF-8 text."
        ) from None
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror}). Give a JSON Lines file."
        ) from None
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{where}: not JSON: {error}. Write one object per line."
            ) from None
        if not isinstance(row, dict):
            raise ValueError(f"{where}: {_kind(row)}. Write one object per line.")
        yield where, row


def problem_of(row: Mapping[str, Any], where: str) -> Problem:
    """Returns the problem that a row describes.

    Args:
      row: Object of JSON.
      where: File and line, for messages.

    Raises:
      ValueError: Naming the field, or why the problem cannot be judged.
    """
    names = [found.name for found in dataclasses.fields(Problem)]
    _refuse_unknown(row, names, where)
    kind = _field(row, "kind", str, where)
    if kind not in KINDS:
        raise ValueError(f"{where}: kind {kind!r}. Use one of {', '.join(KINDS)}.")
    hints = _field(row, "hints", list, where, default=[])
    problem = Problem(
        id=_field(row, "id", str, where),
        kind=kind,  # type: ignore[arg-type]
        prompt=_field(row, "prompt", str, where, default=""),
        reference=_field(row, "reference", str, where, default=""),
        tests=_tests(row, kind, where),
        limits=_limits(row, where),
        tags=_tags(row, where),
        hints=tuple(_checked(hint, "hints", str, where) for hint in hints),
        hint_tiers=_hint_tiers(row, len(hints), where),
        columns=_field(row, "columns", dict, where, default={}),
    )
    if kind in _LITERAL_KINDS:
        _check_reference(_field(row, "reference", str, where), where)
        return problem
    try:
        check_problem(problem)
    except ValueError as error:
        raise ValueError(f"{where}: problem {problem.id!r}: {error}") from None
    return problem


def _check_reference(text: str, where: str) -> None:
    try:
        read_literal(text)
    except NotALiteralError as error:
        raise ValueError(
            f"{where}: reference {text[:60]!r} is not one Python literal ({error}), so "
            "that no answer could be right. Correct it."
        ) from None


def _hint_tiers(
    row: Mapping[str, Any], num_hints: int, where: str
) -> tuple[HintTier, ...]:
    found = _field(row, "hint_tiers", list, where, default=[])
    known = get_args(HintTier)
    for tier in found:
        if tier not in known:
            raise ValueError(
                f"{where}: hint tier {tier!r}. Use one of {', '.join(known)}."
            )
    if found and len(found) != num_hints:
        raise ValueError(
            f"{where}: {len(found)} hint_tiers of {num_hints} hints. Give one a hint, "
            "or none at all."
        )
    return tuple(found)


def _tests(row: Mapping[str, Any], kind: str, where: str) -> tuple[Test, ...]:
    found = _field(row, "tests", list, where, default=[])
    if kind in _LITERAL_KINDS:
        if found:
            raise ValueError(f"{where}: tests of a problem of kind {kind}. Drop them.")
        return ()
    return tuple(
        _test(_checked(test, f"tests[{i}]", dict, where), kind, f"{where}: tests[{i}]")
        for i, test in enumerate(found)
    )


def _test(row: Mapping[str, Any], kind: str, where: str) -> Test:
    _refuse_unknown(row, ("kind", *_TEST_FIELDS[kind]), where)
    given: dict[str, Any] = {
        name: _python_value(row, name, where)
        for name in row
        if name.endswith(PYTHON_SUFFIX)
    }
    given = {name.removesuffix(PYTHON_SUFFIX): v for name, v in given.items()}
    for name in given:
        if name in row:
            raise ValueError(f"{where}: {name} is given twice. Give it once.")
    given = {k: v for k, v in row.items() if not k.endswith(PYTHON_SUFFIX)} | given
    for name in _REQUIRED[kind]:
        if name not in given:
            raise ValueError(f"{where}: {name} is missing. Add it.")
    own = _KIND_OF_TEST.get(kind, kind)
    values: dict[str, Any] = {"kind": _field(given, "kind", str, where, default=own)}
    for found in dataclasses.fields(Test):
        if found.name in given and found.name not in ("kind", "expected"):
            expected = _TYPES[found.name]
            values[found.name] = _checked(
                given[found.name], found.name, expected, where
            )
    if "expected" in given:
        values["expected"] = given["expected"]
    values["arguments"] = tuple(values.get("arguments", ()))
    return Test(**values)


_TYPES: dict[str, type] = {
    "stdin": str,
    "function": str,
    "arguments": list,
    "keywords": dict,
    "source": str,
    "compare": str,
    "checker": str,
    "is_inside": bool,
}


def _python_value(row: Mapping[str, Any], name: str, where: str) -> object:
    text = _field(row, name, str, where)
    try:
        value = read_literal(text)
    except NotALiteralError as first:
        try:
            value = ast.literal_eval(text)  # also longer ones
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise ValueError(
                f"{where}: {name} is no Python literal: {first} Correct it."
            ) from None
    is_arguments = name.startswith("arguments") and isinstance(value, tuple)
    return list(value) if is_arguments else value  # type: ignore[call-overload]


def _limits(row: Mapping[str, Any], where: str) -> Limits | None:
    if "limits" not in row:
        return None
    given = _field(row, "limits", dict, where)
    known = {found.name: found for found in dataclasses.fields(Limits)}
    _refuse_unknown(given, list(known), f"{where}: limits")
    for name, value in given.items():
        is_whole = name.endswith("_bytes")
        if type(value) not in ((int,) if is_whole else (int, float)) or value <= 0:
            wanted = "a whole number" if is_whole else "a number"
            raise ValueError(
                f"{where}: limits.{name} is {value!r}. Give {wanted} above 0."
            )
    return Limits(**given)


def _tags(row: Mapping[str, Any], where: str) -> dict[str, str]:
    tags = _field(row, "tags", dict, where, default={})
    return {name: _checked(tags[name], f"tags.{name}", str, where) for name in tags}


_MISSING: Any = object()


def _field(
    row: Mapping[str, Any],
    name: str,
    kind: type,
    where: str,
    *,
    default: Any = _MISSING,
) -> Any:
    if name not in row:
        if default is _MISSING:
            raise ValueError(f"{where}: {name} is missing. Add it.")
        return default
    return _checked(row[name], name, kind, where)


def _checked(value: Any, name: str, kind: type, where: str) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{where}: {name} is {_kind(value)}. Give {_NAMES[kind]}.")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def _refuse_unknown(
    row: Mapping[str, Any], known: list[str] | tuple[str, ...], where: str
) -> None:
    for name in row:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
            raise ValueError(f"{where}: unknown field {name!r}. {hint}")


def row_of_verdict(verdict: Verdict) -> dict[str, object]:
    """Returns a verdict as an object of JSON.

    Args:
      verdict: Any.
    """
    return {
        "status": verdict.status,
        "error_class": verdict.error_class,
        "num_passed": verdict.num_passed,
        "num_tests": verdict.num_tests,
        "results": [_row_of_result(result) for result in verdict.results],
        "extracted": verdict.extracted,
        "spans": [dataclasses.asdict(span) for span in verdict.spans],
        "detail": verdict.detail,
    }


def row_of_rewards(score: Score) -> dict[str, object]:
    """Returns the rewards of a completion as an object of JSON; null abstains.

    Args:
      score: Any.
    """
    return {
        "rewards": {
            name: None if math.isnan(value) else value
            for name, value in score.rewards.items()
        },
        "abstain_reason": score.abstain_reason,
        "extra": score.extra,
    }


def _row_of_result(result: TestResult) -> dict[str, object]:
    row: dict[str, object] = {
        found.name: getattr(result, found.name) for found in dataclasses.fields(result)
    }
    if result.exception is not None:
        row["exception"] = dataclasses.asdict(result.exception)
    return row
