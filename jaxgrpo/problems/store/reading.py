"""Problems of a prepared data set, read from disk when they are asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.store.builder import Problems
from jaxgrpo.problems.store.records import problem_of_record
from jaxgrpo.problems.store.settings import INEXPRESSIBLE, TESTS_FILE


class StoredProblems(Sequence[Problem]):
    """Records as problems, whose tests stay on disk.

    Args:
      parts: Sequences of records, one after the other.
      tests_file: Holds the tests of all.
      limit: Largest number of problems; 0 for all.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[Mapping[str, Any]]],
        tests_file: Path,
        limit: int = 0,
    ):
        self._parts = parts
        self._tests_file = tests_file
        available = sum(map(len, parts))
        self._length = min(available, limit) if limit else available

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"problem {index} of {len(self)}")
        place = index % len(self)
        for part in self._parts:
            if place < len(part):
                return problem_of_record(part[place], self._tests_file)
            place -= len(part)
        raise AssertionError("a place below the length is in some part")


def stored_problems(
    builder: Problems, split: str, *, limit: int, include_inexpressible: bool
) -> StoredProblems | None:
    """Returns a split of a prepared data set; None if it has no such split.

    Args:
      builder: Of the data set.
      split: `train`, `validation` or `test`.
      limit: Largest number of problems; 0 for all.
      include_inexpressible: Also take problems whose tests run in the program's own
        process, which can forge their outcome.
    """
    names = [split, split + INEXPRESSIBLE] if include_inexpressible else [split]
    # A decorator hides the method's signature from type checkers.
    as_data_source: Any = builder.as_data_source
    parts = [as_data_source(name) for name in names if name in builder.info.splits]
    if not parts:
        return None
    return StoredProblems(parts, Path(builder.data_dir) / TESTS_FILE, limit)
