"""MBPP, Mostly Basic Python Problems: a sentence, three asserts, perhaps harder ones.

One JSON object per line: `task_id` (1 to 974), `text`, `code` (the solution),
`test_list`, `test_setup_code`, `challenge_test_list`. The set's split goes by id: 1-10
are examples for prompts, 11-510 test, 511-600 validation, 601-974 train.

Reference:
  https://github.com/google-research/google-research/tree/master/mbpp (mbpp.jsonl and
  README); the paper, https://arxiv.org/abs/2108.07732, shows the tests of `test_list`
  in the prompt, as here. The harder tests stay hidden.
"""

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.fields import (
    identifier_of,
    number_of,
    tags_of,
    text_of,
    texts_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed
from jaxgrpo.problems.formats.wording import passing

SPLITS = {"prompt": 10, "test": 510, "validation": 600, "train": 974}
"""Splits in the order of the ids, each with its last."""


def mbpp_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    shown = texts_of(row, "test_list", where)
    hidden = texts_of(row, "challenge_test_list", where, default=())
    return mbpp_like(
        f"mbpp/{identifier_of(row, 'task_id', where)}",
        text_of(row, "text", where),
        text_of(row, "code", where),
        shown,
        hidden,
        setup=text_of(row, "test_setup_code", where, default=""),
        where=where,
    )


def mbpp_like(
    name: str,
    task: str,
    solution: str,
    shown: tuple[str, ...],
    hidden: tuple[str, ...],
    *,
    setup: str,
    where: str,
) -> Problem:
    """Returns a problem of MBPP or of a set that was made of it.

    Args:
      name: The problem's id.
      task: What is asked.
      solution: Reference.
      shown: Asserts, which the prompt shows.
      hidden: Asserts, which it does not.
      setup: Statements before each of them.
      where: File and row, for messages.
    """
    if not shown:
        raise malformed(where, "test_list", "is empty. Give an assert, or drop it.")
    sources = [f"{setup}\n{test}" if setup.strip() else test for test in shown + hidden]
    return Problem(
        id=name,
        kind="assert",
        prompt=passing(task, shown),
        reference=solution,
        tests=tuple(Test(kind="assert", source=source) for source in sources),
        tags=tags_of(dataset=name.partition("/")[0]),
    )


def split_of(row: Row) -> str:
    """Returns the split that the set's authors gave a row.

    Args:
      row: The raw row, which has a problem.
    """
    number = number_of(row, "task_id", "mbpp")
    return next((name for name, last in SPLITS.items() if number <= last), "none")


FORMAT = Format(
    name="mbpp",
    summary="a short task and asserts that have to pass",
    licence="CC-BY-4.0",
    get_it=(
        "https://raw.githubusercontent.com/google-research/google-research/master/"
        "mbpp/mbpp.jsonl, file mbpp.jsonl"
    ),
    files={"": ("mbpp.jsonl", "mbpp.jsonl.gz")},
    rows=rows_of,
    problem=mbpp_problem,
    split_of=split_of,
    kind="assert",
    sizes="374 train, 90 validation, 500 test",
)
