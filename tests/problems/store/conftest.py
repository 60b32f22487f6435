"""A small published data set of one's own, and stores of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed
from jaxgrpo.problems.store.builder import Problems, prepare
from jaxgrpo.problems.store.settings import StoreSettings
from jaxgrpo.problems.store.sources import find_sources


def problem_of_row(row: Row, where: str) -> Problem:
    fields: Any = dict(row)
    if "tests" not in fields:
        raise malformed(where, "tests", "is missing. Add it.")
    tests = fields.pop("tests")
    for name in ("hints", "hint_tiers"):
        fields[name] = tuple(fields.get(name, ()))
    if fields.setdefault("kind", "stdin") == "assert":
        fields["tests"] = tuple(Test(kind="assert", source=test) for test in tests)
    else:
        fields["tests"] = tuple(
            Test(kind="stdin", stdin=given, expected=wanted) for given, wanted in tests
        )
    return Problem(**{"prompt": "Echo.", "reference": "", **fields})


ECHOES = Format(
    name="echoes",
    summary="programs that print what they read",
    licence="none",
    get_it="https://example.org/echoes, file echoes.jsonl",
    files={
        "train": ("train.jsonl", "train-*.jsonl"),
        "test": ("test.jsonl",),
        "": ("echoes.jsonl",),
    },
    rows=rows_of,
    problem=problem_of_row,
)


def row(name: str, num_tests: int = 1, **others: Any) -> dict[str, Any]:
    """A problem with tests that echo `NAME-0`, `NAME-1` ..."""
    texts = [f"{name}-{i}" for i in range(num_tests)]
    return {"id": name, "tests": [[text, text] for text in texts], **others}


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@dataclass(frozen=True, kw_only=True)
class Store:
    """Prepares stores of one file of rows."""

    folder: Path

    def __call__(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        name: str = "echoes.jsonl",
        report: Callable[[int, int], None] = lambda done, total: None,
        **settings: Any,
    ) -> Problems:
        files = self.folder / "files"
        files.mkdir(exist_ok=True)
        write_rows(files / name, rows)
        return self.of_folder(report=report, **settings)

    def of_folder(
        self,
        data_set: Format = ECHOES,
        report: Callable[[int, int], None] = lambda done, total: None,
        **settings: Any,
    ) -> Problems:
        sources = find_sources(data_set, str(self.folder / "files"), self.folder)
        cache = self.folder / "cache"
        given = replace(StoreSettings(), **settings)
        return prepare(data_set, sources, given, cache, report=report)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(folder=tmp_path)
