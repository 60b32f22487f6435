"""One sandbox for all formats, and problems made of rows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jaxgrpo.host.records import Problem
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.formats import load_format
from jaxgrpo.problems.formats.format import Workshop

MakeProblems = Callable[..., list[Problem]]


@pytest.fixture(scope="package")
def box() -> Iterator[Sandbox]:
    with Sandbox(packages=("numpy",)) as opened:
        yield opened


@pytest.fixture(scope="package")
def problems_of(box: Sandbox) -> MakeProblems:
    """Returns what becomes of a row of a format: `problem`, then `complete`."""

    def make(
        name: str, row: dict[str, Any], *, per_row: int = 3, seed: int = 0
    ) -> list[Problem]:
        found = load_format(name)
        problem = found.problem(row, "f.jsonl: row 1")
        if found.complete is None:
            return [problem]
        workshop = Workshop(run=box.run, per_row=per_row, seed=seed)
        return list(found.complete(problem, "f.jsonl: row 1", workshop))

    return make
