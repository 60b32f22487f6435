"""APPS: coding problems from introductory to competition level.

One JSON object per line: `problem_id`, `question`, `solutions` and `input_output`
(texts of JSON; empty where there are none), `difficulty` (introductory, interview,
competition), `url`, `starter_code`. `input_output` holds `inputs`, `outputs` and, where
a function is called, `fn_name`.

Reference:
  https://huggingface.co/datasets/codeparrot/apps (train.jsonl, test.jsonl), after
  https://github.com/hendrycks/apps.
"""

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats.fields import (
    identifier_of,
    json_of,
    kind_of,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed, unusable
from jaxgrpo.problems.formats.io_tests import method_of, tests_of_pairs
from jaxgrpo.problems.formats.wording import reading, starting


def apps_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    return contest_problem(
        f"apps/{identifier_of(row, 'problem_id', where)}",
        row,
        where,
        tags=tags_of(
            dataset="apps", difficulty=text_of(row, "difficulty", where, default="")
        ),
        columns={"url": text_of(row, "url", where, default="")},
    )


def contest_problem(
    name: str,
    row: Row,
    where: str,
    *,
    tags: dict[str, str],
    columns: dict[str, object],
) -> Problem:
    """Returns a problem of APPS, or of a set in its form.

    Args:
      name: The problem's id.
      row: The raw row, with `question`, `input_output`, `solutions`, `starter_code`.
      where: File and row, for messages.
      tags: Of the problem.
      columns: Likewise.
    """
    task = text_of(row, "question", where)
    starter = text_of(row, "starter_code", where, default="")
    solution = next(iter(solutions_of(row, where)), "")
    pairs = row.get("input_output")
    if isinstance(pairs, str):
        if not pairs.strip():
            raise unusable(where, "input_output", "is empty: there are no tests.")
        pairs = json_of(pairs, "input_output", where)
    if not isinstance(pairs, dict):
        raise malformed(where, "input_output", f"is {kind_of(pairs)}. Give an object.")
    if not pairs.get("inputs", True):
        raise unusable(where, "input_output", "is empty: there are no tests.")
    function = str(pairs.get("fn_name") or "")
    if function:
        function = method_of(function, starter, solution)
    tests = tests_of_pairs(pairs, where, "input_output", function=function)
    return Problem(
        id=name,
        kind=tests[0].kind,
        prompt=starting(task, starter, function) if function else reading(task),
        reference=solution,
        tests=tests,
        tags=tags,
        columns=columns,
    )


def solutions_of(row: Row, where: str) -> list[str]:
    """Returns the solutions of a row; none where the set has none.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    found = row.get("solutions") or []
    if isinstance(found, str):
        found = json_of(found, "solutions", where) if found.strip() else []
    if not isinstance(found, list):
        raise malformed(where, "solutions", f"is {kind_of(found)}. Give a list.")
    return [str(solution).replace("\r\n", "\n") for solution in found]


FORMAT = Format(
    name="apps",
    summary="contest problems of three levels; standard input, or calls",
    licence="MIT",
    get_it=(
        "https://huggingface.co/datasets/codeparrot/apps, files train.jsonl, test.jsonl"
    ),
    files={
        "train": ("train.jsonl", "train*.parquet", "*train*.parquet"),
        "test": ("test.jsonl", "test*.parquet", "*test*.parquet"),
    },
    rows=rows_of,
    problem=apps_problem,
    kind="stdin, call",
    sizes="5,000 train, 5,000 test",
)
