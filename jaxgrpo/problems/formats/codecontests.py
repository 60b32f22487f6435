"""CodeContests: problems of programming contests, with many tests.

Columns: `name`, `description`, `public_tests`, `private_tests`, `generated_tests` (each
{"input": [...], "output": [...]}), `source` and `difficulty` (numbers, see SOURCES and
DIFFICULTIES), `solutions` ({"language": [...], "solution": [...]}, 3 for Python 3),
`time_limit` ({"seconds", "nanos"} or null), `memory_limit_bytes`, `cf_rating`,
`cf_tags`, `input_file`, `output_file`, `is_description_translated`.

Reference:
  https://huggingface.co/datasets/deepmind/code_contests (data/*.parquet),
  https://github.com/google-deepmind/code_contests (contest_problem.proto), AlphaCode,
  https://arxiv.org/abs/2203.07814. Differs from it: memory limits are not kept, being
  those of other languages; problems that read or write files are left out.
"""

from collections.abc import Mapping, Sequence

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.fields import (
    list_of,
    number_of,
    object_of,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed, unusable
from jaxgrpo.problems.formats.io_tests import stdin_test
from jaxgrpo.problems.formats.taco import limits_of
from jaxgrpo.problems.formats.wording import reading

SOURCES = (
    *("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu"),
)
"""By number."""
DIFFICULTIES = (
    *"unknown easy medium hard harder hardest external".split(),
    *"ABCDEFGHIJKLMNOPQRSTUV",
)
"""By number: a word, or the problem's letter in its contest."""
PYTHON3 = 3
TESTS = ("public_tests", "private_tests", "generated_tests")


def codecontests_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    for name in ("input_file", "output_file"):
        if text_of(row, name, where, default=""):
            raise unusable(where, name, f"is {row[name]!r}: files are not supported.")
    by_field = {name: _tests(row, name, where) for name in TESTS}
    tests = tuple(test for found in by_field.values() for test in found)
    if not tests:
        raise unusable(where, TESTS[0], "is empty, and so are the others.")
    rating = number_of(row, "cf_rating", where, default=0)
    name = text_of(row, "name", where)
    source = _named(SOURCES, row, "source", where)
    return Problem(
        # Names are unique within their source.
        id=f"codecontests/{source}/{name}",
        kind="stdin",
        prompt=reading(text_of(row, "description", where)),
        reference=_solution(row, where),
        tests=tests,
        limits=limits_of(_seconds(row, where)),
        tags=tags_of(
            dataset="codecontests",
            source=source,
            difficulty=_named(DIFFICULTIES, row, "difficulty", where),
        ),
        columns={
            "cf_rating": int(rating),
            "cf_tags": ", ".join(map(str, row.get("cf_tags") or ())),  # type: ignore[call-overload]
            "num_public_tests": len(by_field["public_tests"]),
        },
    )


def _tests(row: Row, name: str, where: str) -> list[Test]:
    if row.get(name) is None:
        return []
    found = object_of(row, name, where)
    there = f"{where}: {name}"
    inputs = list_of(found, "input", there)
    outputs = list_of(found, "output", there)
    if len(inputs) != len(outputs):
        raise malformed(
            where,
            name,
            f"has {len(inputs)} inputs and {len(outputs)} outputs. Give as many.",
        )
    return [
        stdin_test(given, wanted, where, f"{name}[{index}]")
        for index, (given, wanted) in enumerate(zip(inputs, outputs, strict=True))
    ]


def _named(names: Sequence[str], row: Row, field: str, where: str) -> str:
    number = int(number_of(row, field, where, default=0))
    return names[number] if 0 <= number < len(names) else str(number)


def _seconds(row: Row, where: str) -> float:
    limit = row.get("time_limit")
    if not isinstance(limit, Mapping):
        return 0.0
    there = f"{where}: time_limit"
    seconds = number_of(limit, "seconds", there, default=0)
    return seconds + number_of(limit, "nanos", there, default=0) / 1e9


def _solution(row: Row, where: str) -> str:
    """The first solution in Python 3; empty where there is none."""
    if row.get("solutions") is None:
        return ""
    found = object_of(row, "solutions", where)
    there = f"{where}: solutions"
    languages = list_of(found, "language", there)
    texts = list_of(found, "solution", there)
    in_python = (
        str(text)
        for language, text in zip(languages, texts, strict=False)
        if language == PYTHON3
    )
    return next(in_python, "")


FORMAT = Format(
    name="codecontests",
    summary="contest problems with many tests; standard input",
    licence="CC-BY-4.0",
    get_it=(
        "https://huggingface.co/datasets/deepmind/code_contests, files "
        "data/train-*.parquet, data/valid-*.parquet, data/test-*.parquet"
    ),
    files={
        "train": ("train-*.parquet", "data/train-*.parquet"),
        "validation": ("valid-*.parquet", "data/valid-*.parquet"),
        "test": ("test-*.parquet", "data/test-*.parquet"),
    },
    rows=rows_of,
    problem=codecontests_problem,
    kind="stdin",
    sizes="13,328 train, 117 validation, 165 test",
)
