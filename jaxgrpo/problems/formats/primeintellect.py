"""PrimeIntellect's verifiable coding problems, and SYNTHETIC-1's.

Columns: `problem_id`, `source`, `task_type`, `in_source_id`, `prompt` (or
`problem_statement`), `gold_standard_solution` (in a fence), `metadata` (difficulty,
limits) and `verification_info` ({"language", "test_cases"}), the last two objects or
texts of them. Test cases are those of `cases.py`.

Reference:
  https://huggingface.co/datasets/PrimeIntellect/verifiable-coding-problems; in columns:
  https://huggingface.co/datasets/open-r1/verifiable-coding-problems-python.
"""

from collections.abc import Mapping

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats.cases import tests_of_cases
from jaxgrpo.problems.formats.deepcoder import decoded
from jaxgrpo.problems.formats.fields import (
    identifier_of,
    kind_of,
    present,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed, unusable
from jaxgrpo.problems.formats.wording import reading, starting, unfenced


def primeintellect_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    field = "problem_statement" if "problem_statement" in row else "prompt"
    task = text_of(row, field, where)
    checks = _object(row, "verification_info", where)
    language = str(checks.get("language", "python"))
    if not language.startswith("python"):
        raise unusable(where, "language", f"is {language!r}, and not Python.")
    solution = unfenced(text_of(row, "gold_standard_solution", where, default=""))
    there = f"{where}: verification_info"
    cases = decoded(present(checks, "test_cases", there), "test_cases", where)
    tests = tests_of_cases(cases, where, "test_cases", solution)
    function = tests[0].function
    metadata = _object(row, "metadata", where) if row.get("metadata") else {}
    return Problem(
        id=f"primeintellect/{identifier_of(row, 'problem_id', where)}",
        kind=tests[0].kind,
        prompt=starting(task, "", function) if function else reading(task),
        reference=solution,
        tests=tests,
        tags=tags_of(
            dataset="primeintellect",
            source=text_of(row, "source", where, default=""),
            difficulty=metadata.get("difficulty"),
        ),
    )


def _object(row: Row, name: str, where: str) -> Mapping[str, object]:
    found = decoded(present(row, name, where), name, where)
    if not isinstance(found, Mapping):
        raise malformed(where, name, f"is {kind_of(found)}. Give an object.")
    return found


FORMAT = Format(
    name="primeintellect",
    summary="contest problems for reinforcement learning; standard input, or calls",
    licence="see the card",
    get_it=(
        "https://huggingface.co/datasets/open-r1/verifiable-coding-problems-python, "
        "files data/train-*.parquet"
    ),
    files={"": ("train-*.parquet", "data/train-*.parquet", "train.jsonl")},
    rows=rows_of,
    problem=primeintellect_problem,
    kind="stdin, call",
    sizes="35,735 in Python",
)
