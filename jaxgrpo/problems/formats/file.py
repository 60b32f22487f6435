"""Any file of rows, by a map from the fields of a problem to the columns of the file.

    [data]
    dataset = "file"
    path = "tasks.jsonl"
    columns = { id = "name", prompt = "question", tests = "unit_tests", tags = "level" }

Fields: `id` (a checksum of the prompt if it is not mapped), `kind` (a column, or a kind
itself), `prompt`, `reference`, `function` (of calls), `tests`, `tags` (columns, with
commas between), `hints` (one of lists, or several with commas), `hint_tiers` (a list
with the tier of each hint); or in the place of these two, likewise, a column for each
tier: `knowledge_hints`, `planning_hints`, `solution_hints`. Columns that are not mapped
are kept for the user's rewards. A field that is not mapped is looked for under its own
name. Tests are in one of these shapes, or a text of JSON that is:

    [{"stdin": ..., "expected": ...}, {"function": ..., "arguments": ...}]
                                            as `jaxgrpo score` takes them
    ["assert f(1) == 2", ...]               asserts
    {"inputs": [...], "outputs": [...]}     and the others of `cases.py`
    "def test_f(): ...", "def check(candidate): ..."    a module of tests
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast, get_args

from jaxgrpo.host.json_rows import problem_of
from jaxgrpo.host.judge.source_names import CHECK
from jaxgrpo.host.records import HintTier, Problem, ProblemKind, Test
from jaxgrpo.problems.formats.cases import tests_of_cases
from jaxgrpo.problems.formats.fields import (
    checked_text,
    identifier_of,
    json_of,
    kind_of,
    present,
    tags_of,
    text_of,
    texts_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import (
    Format,
    MalformedRowError,
    Row,
    malformed,
)
from jaxgrpo.problems.formats.pytests import NotAloneError, asserts_of
from jaxgrpo.problems.formats.taco import checksum_of

TIERS: tuple[HintTier, ...] = get_args(HintTier)
TIER_FIELDS = {tier: f"{tier}_hints" for tier in TIERS}
"""The field with the hints of a tier."""
FIELDS = (
    *("id", "kind", "prompt", "reference", "function", "tests", "tags"),
    *("hints", "hint_tiers", *TIER_FIELDS.values()),
)
"""Fields that can be mapped."""
KINDS: tuple[str, ...] = get_args(ProblemKind)
rows = rows_of


def columns_problem(row: Row, where: str, columns: Mapping[str, str]) -> Problem:
    """Returns the problem of a row of a file.

    Args:
      row: The raw row.
      where: File and row, for messages.
      columns: The column of each field.

    Raises:
      MalformedRowError: A column is missing, or holds something else.
    """
    names = {field: columns.get(field, field) for field in FIELDS}
    prompt = text_of(row, names["prompt"], where)
    tests = _tests(row, names, where)
    hints, hint_tiers = _tiered_hints(row, names, where)
    return Problem(
        id=_id(row, names["id"], prompt, where, is_mapped="id" in columns),
        kind=_kind(row, columns.get("kind", ""), tests, where),
        prompt=prompt,
        reference=_reference(row, names["reference"], where),
        tests=tests,
        tags=_tags(row, columns.get("tags", ""), where),
        hints=hints,
        hint_tiers=hint_tiers,
        columns={
            name: value
            for name, value in row.items()
            if name not in names.values() and value is not None
        },
    )


def _id(row: Row, column: str, prompt: str, where: str, *, is_mapped: bool) -> str:
    if is_mapped or row.get(column) is not None:
        return identifier_of(row, column, where)
    return f"file/{checksum_of(prompt)}"


def _kind(row: Row, column: str, tests: Sequence[Test], where: str) -> ProblemKind:
    if row.get(column or "kind") is not None:
        kind = text_of(row, column or "kind", where)
    elif column:
        kind = column
    else:
        kind = tests[0].kind if tests else "output"
    if kind not in KINDS:
        raise malformed(
            where, column or "kind", f"is {kind!r}. Use one of {', '.join(KINDS)}."
        )
    return cast("ProblemKind", kind)


def _reference(row: Row, column: str, where: str) -> str:
    value = row.get(column)
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(value)


def _tests(row: Row, names: Mapping[str, str], where: str) -> tuple[Test, ...]:
    field = names["tests"]
    found: Any = row.get(field)
    if found is None:
        return ()
    if isinstance(found, str):
        text = checked_text(found, field, where)
        if not text.lstrip().startswith(("[", "{")):
            return _module(text, row, names, where)
        found = json_of(text, field, where)
    if not isinstance(found, list | dict):
        raise malformed(where, field, f"is {kind_of(found)}. Give tests.")
    if not found:
        raise malformed(where, field, "is empty. Give a test, or drop the row.")
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        sources = texts_of({field: found}, field, where)
        return tuple(Test(kind="assert", source=source) for source in sources)
    if isinstance(found, list) and _is_own(found[0]):
        return _own_tests(found, field, where)
    function = text_of(row, names["function"], where, default="")
    code = text_of(row, names["reference"], where, default="")
    return tests_of_cases(found, where, field, code, function=function)


def _is_own(test: object) -> bool:
    """Whether a test is in the shape of `json_rows`: no pair of input and output."""
    return isinstance(test, Mapping) and "input" not in test


def _own_tests(found: Sequence[Any], field: str, where: str) -> tuple[Test, ...]:
    first = found[0]
    kind = "stdin" if "stdin" in first else "call" if "function" in first else "assert"
    if "source" in first:
        kind = "input" if "expected" in first else "assert"
    try:
        problem = problem_of(
            {"id": "row", "kind": kind, "tests": list(found)}, f"{where}: {field}"
        )
    except ValueError as error:
        raise MalformedRowError(str(error)) from None
    assert isinstance(problem.tests, tuple)
    return problem.tests


def _module(
    text: str, row: Row, names: Mapping[str, str], where: str
) -> tuple[Test, ...]:
    """The tests of a module in the form of pytest or of HumanEval."""
    function = text_of(row, names["function"], where, default="")
    if f"def {CHECK}(" in text:
        return (Test(kind="assert", source=text, function=function),)
    if "def test" not in text:
        return (Test(kind="assert", source=text),)
    try:
        sources, _ = asserts_of(text)
    except NotAloneError as error:
        reason = f"cannot stand alone: {error}."
        raise malformed(where, names["tests"], reason) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise malformed(where, names["tests"], f"is no Python: {error}.") from None
    return tuple(
        Test(kind="assert", source=source, function=function) for source in sources
    )


def _tags(row: Row, columns: str, where: str) -> dict[str, str]:
    names = [name.strip() for name in columns.split(",") if name.strip()]
    found = {name: row.get(name) for name in names or ["tags"]}
    tags: dict[str, str] = {}
    for name, value in found.items():
        if isinstance(value, Mapping):
            tags |= tags_of(**{str(key): item for key, item in value.items()})
        elif value is not None:
            tags |= tags_of(**{name: value})
        elif names:
            present(row, name, where)
    return tags


def _tiered_hints(
    row: Row, names: Mapping[str, str], where: str
) -> tuple[tuple[str, ...], tuple[HintTier, ...]]:
    """Hints from weak to strong, with their tiers where the row tells them."""
    hints = _hints(row, names["hints"], where)
    by_tier = {
        tier: _hints(row, names[field], where) for tier, field in TIER_FIELDS.items()
    }
    given: list[HintTier] = [tier for tier in TIERS if by_tier[tier]]
    if not given:
        return hints, _tiers(row, names["hint_tiers"], len(hints), where)
    if hints:
        raise malformed(
            where,
            names["hints"],
            f"has hints, and {names[TIER_FIELDS[given[0]]]} has too. Give hints with "
            "hint_tiers, or a column for each tier.",
        )
    tiers: list[HintTier] = [tier for tier in given for _ in by_tier[tier]]
    return tuple(hint for tier in given for hint in by_tier[tier]), tuple(tiers)


def _hints(row: Row, columns: str, where: str) -> tuple[str, ...]:
    names = [name.strip() for name in columns.split(",") if name.strip()]
    found = [row[name] for name in names if row.get(name) is not None]
    items = found[0] if len(found) == 1 and isinstance(found[0], list) else found
    return texts_of({columns: items}, columns, where)


def _tiers(row: Row, column: str, num_hints: int, where: str) -> tuple[HintTier, ...]:
    found = texts_of(row, column, where, default=())
    for tier in found:
        if tier not in TIERS:
            known = ", ".join(TIERS)
            raise malformed(where, column, f"has {tier!r}. Use some of {known}.")
    if found and len(found) != num_hints:
        raise malformed(
            where,
            column,
            f"has {len(found)} tiers of {num_hints} hints. Give one a hint, or none.",
        )
    return cast("tuple[HintTier, ...]", found)


FORMAT = Format(
    name="file",
    summary="any JSON Lines, JSON, Parquet or CSV by data.columns",
    licence="yours",
    get_it="a file of your own: set data.path to it, and data.columns",
    files={},
    rows=rows_of,
    problem=partial(columns_problem, columns={}),
    columns=FIELDS,
    kind="any",
)
