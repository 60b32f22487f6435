"""Prepares a data set with hundreds of megabytes of tests in FOLDER, and draws it.

Prints three numbers of bytes, by which the most memory that the process ever held grew:
while the store was written; while an epoch was drawn, as the trainer does it; and while
the tests were read as well, as scoring workers do. Before them, the bytes of tests.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.host.stored_tests import tests_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row
from jaxgrpo.problems.store.builder import prepare
from jaxgrpo.problems.store.reading import stored_problems
from jaxgrpo.problems.store.settings import StoreSettings
from jaxgrpo.problems.store.sources import find_sources
from jaxgrpo.problems.stream import ProblemStream

NUM_PROBLEMS = 300
TESTS_EACH = 4
TEST_BYTES = 256 * 1024


def problem_of_row(row: Row, where: str) -> Problem:
    name = str(row["id"])
    text = f"{name} 0123456789\n" * (TEST_BYTES // len(f"{name} 0123456789\n"))
    tests = (Test(kind="stdin", stdin=text, expected="1"),) * TESTS_EACH
    return Problem(id=name, kind="stdin", prompt="", reference="", tests=tests)


LARGE = Format(
    name="large",
    summary="",
    licence="",
    get_it="",
    files={"": ("rows.jsonl",)},
    rows=rows_of,
    problem=problem_of_row,
)


def main(folder: Path) -> None:
    lines = [f'{{"id": "p{i:04}"}}\n' for i in range(NUM_PROBLEMS)]
    (folder / "rows.jsonl").write_text("".join(lines))
    # What is needed once is loaded and used once before anything is measured.
    one = folder / "one"
    one.mkdir()
    (one / "rows.jsonl").write_text(lines[0])
    drawn(opened(one), number=1, reads_tests=True)
    peaks = [peak()]
    problems = opened(folder)
    peaks.append(peak())
    drawn(problems, number=NUM_PROBLEMS, reads_tests=False)
    peaks.append(peak())
    met = drawn(problems, number=NUM_PROBLEMS, reads_tests=True)
    peaks.append(peak())
    print(met, *(after - before for before, after in pairwise(peaks)))


def opened(folder: Path) -> Sequence[Problem]:
    settings = replace(StoreSettings(), max_test_bytes=4 * 2**20)
    sources = find_sources(LARGE, str(folder / "rows.jsonl"), folder)
    builder = prepare(
        LARGE, sources, settings, folder / "cache", report=lambda done, total: None
    )
    found = stored_problems(builder, "train", limit=0, include_inexpressible=False)
    assert found is not None
    return found


def drawn(problems: Sequence[Problem], *, number: int, reads_tests: bool) -> int:
    """Draws an epoch and holds its problems; returns the bytes of the tests read."""
    met = 0
    with ProblemStream(problems, batch_size=1, seed=0) as stream:
        held = [problem for (problem,) in islice(stream, number)]
    if reads_tests:
        for problem in held:
            met += sum(len(test.stdin) for test in tests_of(problem))
    assert len({problem.id for problem in held}) == number
    return met


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]))
