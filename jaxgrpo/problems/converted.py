"""Records of a prepared data set as problems, converted when they are asked for."""

from collections.abc import Callable, Sequence
from typing import Any, overload

from jaxgrpo.host.records import Problem


class Converted(Sequence[Problem]):
    """A sequence of problems over a sequence of records.

    Args:
      records: Random access to the records of a split.
      convert: Makes a problem of a record.
    """

    def __init__(
        self,
        records: Sequence[dict[str, Any]],
        convert: Callable[[dict[str, Any]], Problem],
    ):
        self._records = records
        self._convert = convert

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"problem {index} of {len(self)}")
        return self._convert(self._records[index % len(self)])
