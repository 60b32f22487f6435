"""Readers of files: what is no row, what cannot be read, and what is merely odd."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from jaxgrpo.problems.formats.files import PARQUET_ROWS, rows_of
from jaxgrpo.problems.formats.format import MalformedRowError

ROW = {"id": "é", "n": 1, "nested": {"list": [1, None]}}
LINE = json.dumps(ROW, ensure_ascii=False).encode()


def read(path: Path) -> list[tuple[str, Any]]:
    return list(rows_of(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.jsonl", LINE),
        ("crlf.jsonl", LINE + b"\r\n"),
        ("bom.jsonl", b"\xef\xbb\xbf" + LINE + b"\n"),
        ("bom_and_crlf.jsonl", b"\xef\xbb\xbf" + LINE + b"\r\n\r\n"),
        ("zipped.jsonl.gz", gzip.compress(LINE)),
        ("UPPER.JSONL", LINE),
        ("array.json", b"[" + LINE + b"]"),
        ("bom.json", b"\xef\xbb\xbf[" + LINE + b"]"),
        ("zipped.json.gz", gzip.compress(b"[" + LINE + b"]")),
    ],
)
def test_row_is_read(name: str, content: bytes, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes(content)
    assert read(path) == [(f"{path}: row 1", ROW)]


def test_rows_are_numbered_by_the_lines_of_the_file(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"\n" + LINE + b"\n\n" + LINE)
    assert [where for where, _ in read(path)] == [f"{path}: row 2", f"{path}: row 4"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "caf\xe9"}', "byte 11 (0xe9) is no UTF-8. Save the file as UTF-8"),
        ('{"id": 1}'.encode("utf-16"), "is no UTF-8"),
        (b'{"id": ', "is no JSON: Expecting value"),
        (b"[1, 2]", "is a list. Give one object per row."),
        (b"null", "is null. Give one object per row."),
        (b"[" * 100_000, "is no JSON"),
    ],
)
def test_row_that_cannot_be_read_takes_its_errors_place(
    line: bytes, message: str, tmp_path: Path
):
    path = tmp_path / "f.jsonl"
    path.write_bytes(LINE + b"\n" + line + b"\n" + LINE)
    before, (where, error), *after = read(path)
    assert isinstance(error, MalformedRowError)
    assert str(error).startswith(f"{path}: row 2: ")
    assert message in str(error)
    assert before[1] == ROW
    # UTF-16 has the byte of a line end inside of it, if the text has one.
    assert after[-1][1] == ROW


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.txt", b"", "is none of .jsonl, .json, .parquet, .csv"),
        ("f.json", b'{"a": 1}', "is an object. Give a list of objects."),
        ("f.json", b"\xff[]", "byte 0 (0xff) is no UTF-8"),
        ("f.jsonl.gz", b"no gzip", "cannot be read"),
        ("f.jsonl.gz", gzip.compress(LINE * 100)[:40], "cannot be read"),
        ("f.parquet", b"no parquet", "is no Parquet file"),
        ("f.csv", b"\xff", "byte 0 (0xff) is no UTF-8"),
        ("f.csv", b'a,b\n"1,2\n', "is no CSV"),
    ],
)
def test_file_that_cannot_be_read_is_named(
    name: str, content: bytes, message: str, tmp_path: Path
):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(MalformedRowError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(MalformedRowError, match="none.jsonl: cannot be read"):
        read(tmp_path / "none.jsonl")


def test_parquet_rows_are_plain_data(tmp_path: Path):
    path = tmp_path / "f.parquet"
    rows = [ROW | {"n": n} for n in range(2 * PARQUET_ROWS + 1)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert read(path) == [(f"{path}: row {n + 1}", row) for n, row in enumerate(rows)]


def test_parquet_row_that_is_no_utf8_takes_its_errors_place(tmp_path: Path):
    path = tmp_path / "f.parquet"
    broken = pyarrow.array([b"a", b"\xff", b"c"], pyarrow.binary()).view("string")
    pyarrow.parquet.write_table(pyarrow.table({"id": broken}), path)
    first, (_, error), last = read(path)
    assert (first[1], last[1]) == ({"id": "a"}, {"id": "c"})
    assert str(error).startswith(f"{path}: row 2: byte 0 (0xff) is no UTF-8")


def test_cells_of_csv_may_hold_lines_and_be_large(tmp_path: Path):
    path = tmp_path / "f.csv"
    large = "x" * 200_000
    path.write_bytes(f'\ufeffid,text\r\n1,"a\nb"\r\n2,{large}\r\n3\r\n'.encode())
    first, second, (where, error) = read(path)
    assert first == (f"{path}: row 1", {"id": "1", "text": "a\nb"})
    assert second[1] == {"id": "2", "text": large}
    assert where == f"{path}: row 3"
    assert "has not one cell per column" in str(error)
