r"""Readers of files: JSON Lines (also gzipped), JSON, Parquet and CSV, row by row.

Files of several gigabytes are read a row at a time. A byte order mark, `\r\n` at the
ends of lines and blank lines are no rows and no errors. A row that cannot be read takes
its error's place.
"""

import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from jaxgrpo.problems.formats.fields import kind_of, shown
from jaxgrpo.problems.formats.format import MalformedRowError, Row, malformed

Rows = Iterator[tuple[str, Row | MalformedRowError]]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PARQUET_ROWS = 16
"""Rows of a Parquet file that are in memory at once."""


def rows_of(path: Path) -> Rows:
    """Yields ("FILE: row N", raw row) of a file, by what its name ends in.

    Args:
      path: Ends in `.jsonl`, `.json`, `.parquet` or `.csv`; all but Parquet may be
        gzipped and end in `.gz`.

    Raises:
      MalformedRowError: The file as a whole cannot be read.
    """
    name = path.name.lower().removesuffix(".gz")
    for suffix, reader in READERS.items():
        if name.endswith(suffix):
            return _guarded(path, reader)
    raise malformed(
        str(path), "", f"is none of {', '.join(READERS)}. Give such a file, or a .gz."
    )


def _guarded(path: Path, reader: Callable[[Path], Rows]) -> Rows:
    """The rows; what the file itself fails at is told with its name."""
    try:
        yield from reader(path)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise malformed(
            str(path), "", f"cannot be read ({reason}). Get it again."
        ) from None


def json_lines(path: Path) -> Rows:
    """Yields the objects of a file that holds one per line; N is the line.

    Args:
      path: UTF-8, may be gzipped.
    """
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                where = f"{path}: row {number}"
                yield where, _row_of_json(line, where)


def json_array(path: Path) -> Rows:
    """Yields the objects of a file that holds one array of them.

    Args:
      path: UTF-8, may be gzipped. Read as a whole.
    """
    with _opened(path) as file:
        content = file.read().removeprefix(BYTE_ORDER_MARK)
    found = _parsed(content, str(path))
    if isinstance(found, MalformedRowError):
        raise found
    if not isinstance(found, list):
        raise malformed(str(path), "", f"is {kind_of(found)}. Give a list of objects.")
    for number, row in enumerate(found, start=1):
        where = f"{path}: row {number}"
        yield where, _object(row, where)


def parquet(path: Path) -> Rows:
    """Yields the rows of a Parquet file as plain Python data.

    Args:
      path: The file.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowException as error:
        raise malformed(
            str(path), "", f"is no Parquet file: {error}. Get it again."
        ) from None
    number = 0
    with file:
        for batch in file.iter_batches(batch_size=PARQUET_ROWS):
            for index in range(batch.num_rows):
                number += 1
                where = f"{path}: row {number}"
                try:
                    yield where, batch.slice(index, 1).to_pylist()[0]
                except UnicodeDecodeError as error:
                    yield where, _not_utf8(error, where)


def csv_rows(path: Path) -> Rows:
    """Yields the rows of a CSV file whose first line names the columns.

    Args:
      path: UTF-8, may be gzipped.
    """
    csv.field_size_limit(sys.maxsize)
    with _opened(path) as file:
        content = file.read().removeprefix(BYTE_ORDER_MARK)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _not_utf8(error, str(path)) from None
    # Line ends inside a cell are a part of it.
    reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
    number = 0
    try:
        for number, row in enumerate(reader, start=1):
            where = f"{path}: row {number}"
            if None in row or None in row.values():
                yield where, malformed(where, "", "has not one cell per column.")
            else:
                yield where, row
    except csv.Error as error:
        raise malformed(
            f"{path}: row {number + 1}", "", f"is no CSV: {error}"
        ) from None


READERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": json_lines,
    ".json": json_array,
    ".parquet": parquet,
    ".csv": csv_rows,
}
"""By what a file's name ends in."""


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rb")
    return path.open("rb")


def _row_of_json(content: bytes, where: str) -> Row | MalformedRowError:
    found = _parsed(content, where)
    return found if isinstance(found, MalformedRowError) else _object(found, where)


def _parsed(content: bytes, where: str) -> Any:
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        return _not_utf8(error, where)
    except (ValueError, RecursionError) as error:
        start = shown(content[:200].decode(errors="replace"))
        return malformed(where, "", f"is no JSON: {error}: {start}. Correct it.")


def _object(found: object, where: str) -> Row | MalformedRowError:
    if not isinstance(found, dict):
        return malformed(where, "", f"is {kind_of(found)}. Give one object per row.")
    return found


def _not_utf8(error: UnicodeDecodeError, where: str) -> MalformedRowError:
    byte = error.object[error.start]
    return malformed(
        where,
        "",
        f"byte {error.start} (0x{byte:02x}) is no UTF-8. Save the file as UTF-8 text.",
    )
