"""TACO: contest problems in the form of APPS, with finer labels.

Columns: `question`, `solutions`, `starter_code`, `input_output` (as APPS has them),
`difficulty` (EASY, MEDIUM, MEDIUM_HARD, HARD, VERY_HARD, UNKNOWN_DIFFICULTY), `name`,
`source`, `tags`, `skill_types` (texts of lists), `url`, `time_limit` ("2.0 seconds"),
`memory_limit` ("256.0 megabytes"), `date`. There is no id: a checksum of the question
stands for one.

Reference:
  https://huggingface.co/datasets/BAAI/TACO (README.md; ALL/train-*.parquet,
  ALL/test-*.parquet), https://github.com/FlagOpen/TACO. Differs from it: memory limits
  are not kept, for they are those of other languages.
"""

import hashlib
import re
from dataclasses import replace

from jaxgrpo.host.records import Limits, Problem
from jaxgrpo.problems.formats.apps import contest_problem
from jaxgrpo.problems.formats.fields import tags_of, text_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row

_SECONDS = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?:second|sec|s\b)", re.I)
PYTHON_FACTOR = 3.0
"""A time limit that was set for compiled languages is too short by so much."""
LONGEST_CPU_S = 30.0


def taco_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    problem = contest_problem(
        f"taco/{checksum_of(text_of(row, 'question', where))}",
        row,
        where,
        tags=tags_of(
            dataset="taco",
            difficulty=text_of(row, "difficulty", where, default="").lower(),
            source=text_of(row, "source", where, default=""),
        ),
        columns={
            name: text_of(row, name, where, default="")
            for name in ("name", "url", "date", "skill_types", "time_limit")
        },
    )
    limit = _SECONDS.match(text_of(row, "time_limit", where, default=""))
    if limit is None:
        return problem
    return replace(problem, limits=limits_of(float(limit["number"])))


def checksum_of(text: str) -> str:
    """Returns an id for a text that has none.

    Args:
      text: Any.
    """
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def limits_of(seconds: float) -> Limits | None:
    """Returns the limits of a test, from a contest's time limit.

    Args:
      seconds: Of processor time, in a compiled language; 0 where it is not known.
    """
    if seconds <= 0:
        return None
    cpu_s = min(PYTHON_FACTOR * seconds, LONGEST_CPU_S)
    return Limits(cpu_s=cpu_s, wall_s=3.0 * cpu_s + 5.0)


FORMAT = Format(
    name="taco",
    summary="contest problems with labels of skills; standard input, or calls",
    licence="Apache-2.0",
    get_it=(
        "https://huggingface.co/datasets/BAAI/TACO, files ALL/train-*.parquet, "
        "ALL/test-*.parquet"
    ),
    files={
        "train": ("train-*.parquet", "ALL/train-*.parquet", "train.jsonl"),
        "test": ("test-*.parquet", "ALL/test-*.parquet", "test.jsonl"),
    },
    rows=rows_of,
    problem=taco_problem,
    kind="stdin, call",
    sizes="25,443 train, 1,000 test",
)
