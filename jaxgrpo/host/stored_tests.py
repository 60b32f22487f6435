"""Tests that stay on disk until they are run.

The tests of a data set may take gigabytes. A trainer that reads them all runs out of
memory, and it needs none: only the process that judges a completion does. A problem
then holds a `StoredTests` of a few bytes, and `tests_of` reads what it stands for.

A file of tests is one block after the other, a block for each problem: the list of its
tests as plain data (`sandbox/plain_data.py`), compressed. Reading it builds numbers,
text and containers, and never unpickles anything.
"""

import dataclasses
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from jaxgrpo.host.records import Problem, StoredTests, Test
from jaxgrpo.host.sandbox.plain_data import from_bytes, to_bytes

MAX_ENCODED_BYTES = 2**40
_COMPRESSION = 1
"""The fastest: tests repeat themselves so much that more effort gains little."""
_DEFAULTS = {
    field.name: field.default_factory()
    if field.default_factory is not dataclasses.MISSING
    else field.default
    for field in dataclasses.fields(Test)
}


def tests_of(problem: Problem) -> tuple[Test, ...]:
    """Returns the tests of a problem, read from disk if that is where they are.

    Args:
      problem: Of any kind.

    Raises:
      ValueError: The file is gone or is not the one that was written.
    """
    if isinstance(problem.tests, StoredTests):
        return _read(problem.tests)
    return problem.tests


def with_tests(problem: Problem) -> Problem:
    """Returns the problem with its tests in memory.

    Args:
      problem: Of any kind.

    Raises:
      ValueError: As for `tests_of`.
    """
    if isinstance(problem.tests, StoredTests):
        return replace(problem, tests=tests_of(problem))
    return problem


def encoded_test(test: Test) -> bytes:
    """Returns a test as plain data; its length is what `data.max_test_bytes` counts.

    Args:
      test: Of any kind.

    Raises:
      ValueError: A value in it is no plain data.

    Example:
      >>> encoded_test(Test(kind="stdin", stdin="1", expected="2"))
      b'{"d": [["kind", "stdin"], ["stdin", "1"], ["expected", "2"]]}'
    """
    fields = {name: getattr(test, name) for name in _DEFAULTS}
    given = {
        name: value
        for name, value in fields.items()
        # By type too: 0 and False are not the default None, but 1 == True.
        if type(value) is not type(_DEFAULTS[name]) or value != _DEFAULTS[name]
    }
    # As an item of a list, which it will be: so deep that it can be read back.
    return to_bytes([given], MAX_ENCODED_BYTES)[1:-1]


def write_tests(file: IO[bytes], path: Path, encoded: Sequence[bytes]) -> StoredTests:
    """Appends the tests of one problem to a file, and returns where they are.

    Args:
      file: Open for writing, at its end.
      path: Where the file will be when it is read.
      encoded: By `encoded_test`.
    """
    block = zlib.compress(b"[" + b", ".join(encoded) + b"]", _COMPRESSION)
    position = file.tell()
    file.write(block)
    return StoredTests(
        path=str(path),
        position=position,
        num_bytes=len(block),
        checksum=zlib.crc32(block),
        count=len(encoded),
    )


def _read(stored: StoredTests) -> tuple[Test, ...]:
    try:
        with open(stored.path, "rb") as file:
            file.seek(stored.position)
            block = file.read(stored.num_bytes)
    except OSError as error:
        raise ValueError(
            f"{stored.path}: the tests cannot be read ({error.strerror}). "
            "Prepare the data set again: jaxgrpo data build NAME."
        ) from None
    if zlib.crc32(block) != stored.checksum:
        raise ValueError(
            f"{stored.path}: bytes {stored.position} to "
            f"{stored.position + stored.num_bytes} are not the tests that were written "
            "there. Remove its folder and prepare the data set again: jaxgrpo data "
            "build NAME."
        )
    found = from_bytes(zlib.decompress(block))
    assert isinstance(found, list) and len(found) == stored.count
    return tuple(Test(**fields) for fields in found)
