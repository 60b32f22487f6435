"""From the rows of a data set's files to records and tests on disk, one at a time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO

from jaxgrpo.host.judge import SANDBOXED_KINDS
from jaxgrpo.host.judge.programs import check_problem, untrusted_reason
from jaxgrpo.host.records import Problem
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.sandbox.plain_data import NotPlainDataError
from jaxgrpo.host.stored_tests import encoded_test, tests_of, write_tests
from jaxgrpo.problems.formats.format import (
    Format,
    MalformedRowError,
    Row,
    UnusableRowError,
    Workshop,
    malformed,
)
from jaxgrpo.problems.store.caps import kept_tests
from jaxgrpo.problems.store.counts import Counts
from jaxgrpo.problems.store.records import line_of_record, record_of
from jaxgrpo.problems.store.settings import INEXPRESSIBLE, TESTS_FILE, StoreSettings
from jaxgrpo.problems.store.sources import SourceFile
from jaxgrpo.problems.store.splits import SPLITS, split_of


def convert(
    data_set: Format,
    sources: Sequence[SourceFile],
    settings: StoreSettings,
    folder: Path,
    report: Callable[[int], None],
) -> Counts:
    """Writes all problems below a folder, and returns what became of the rows.

    Args:
      data_set: Tells how rows are read.
      sources: Its files.
      settings: What to keep.
      folder: Receives the tests, and a file of records for each split.
      report: Told the number of rows done.

    Raises:
      MalformedRowError: A row is no problem and `settings.malformed` is `stop`.
    """
    counts = Counts()
    with ExitStack() as stack:
        writer = stack.enter_context(_Writer(folder, settings, sources, data_set))
        workshop = None
        if data_set.complete is not None:
            box = stack.enter_context(Sandbox(packages=("numpy",)))
            workshop = Workshop(
                run=box.run, seed=settings.seed, per_row=settings.per_row
            )
        for where, row, source in _rows(data_set, sources):
            counts.num_rows += 1
            try:
                for problem in _problems(data_set, row, where, workshop):
                    published = _published(data_set, row, source)
                    writer.add(problem, published, where, counts)
            except MalformedRowError as error:
                is_published_so = isinstance(error, UnusableRowError)
                if settings.malformed == "stop" and not is_published_so:
                    raise MalformedRowError(
                        f"{error} Or set data.malformed to 'skip': such rows are left "
                        "out, and counted."
                    ) from None
                counts.skip(str(error))
            report(counts.num_rows)
    return counts


def records_file(folder: Path, split: str) -> Path:
    """Returns the file of the records of a split, one a line."""
    return folder / f"records-{split}.jsonl"


def _rows(
    data_set: Format, sources: Sequence[SourceFile]
) -> Iterator[tuple[str, Row | MalformedRowError, SourceFile]]:
    for source in sources:
        for where, row in data_set.rows(source.path):
            yield where, row, source


def _problems(
    data_set: Format,
    row: Row | MalformedRowError,
    where: str,
    workshop: Workshop | None,
) -> Sequence[Problem]:
    if isinstance(row, MalformedRowError):
        raise row
    problem = data_set.problem(row, where)
    if data_set.complete is None:
        return (problem,)
    assert workshop is not None
    return data_set.complete(problem, where, workshop)


def _published(
    data_set: Format, row: Row | MalformedRowError, source: SourceFile
) -> str:
    assert not isinstance(row, MalformedRowError)
    if source.split or data_set.split_of is None:
        return source.split
    return data_set.split_of(row)


class _Writer:
    """Writes problems as they come, each to the file of its split."""

    def __init__(
        self,
        folder: Path,
        settings: StoreSettings,
        sources: Sequence[SourceFile],
        data_set: Format,
    ):
        self._folder = folder
        self._settings = settings
        self._shares = missing_shares(settings, sources, data_set)
        self._where: dict[str, str] = {}
        self._records: dict[str, IO[str]] = {}
        self._files = ExitStack()

    def __enter__(self) -> "_Writer":
        path = self._folder / TESTS_FILE
        self._tests = self._files.enter_context(path.open("wb"))
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, problem: Problem, published: str, where: str, counts: Counts) -> None:
        """Takes the next problem.

        Args:
          problem: With its tests in memory.
          published: Split; empty for none.
          where: File and row, for messages.
          counts: Note what became of it.

        Raises:
          MalformedRowError: It has the id of another one, or cannot be judged.
        """
        if self._settings.splits == "hashed" and published in SPLITS:
            published = ""
        if published and published not in SPLITS:
            counts.other_splits[published] = counts.other_splits.get(published, 0) + 1
            return
        self._check_id(problem.id, where)
        capped, encoded, num_given = _capped(problem, self._settings, where)
        reason = _checked(capped, where)
        if reason:
            capped = _trusting(capped, reason)
            encoded = [encoded_test(test) for test in tests_of(capped)]
        split = split_of(problem.id, published, self._shares)
        split += INEXPRESSIBLE if reason else ""
        self._write(capped, encoded, split, where)
        self._where[problem.id] = where
        counts.add(split, problem.id, reason)
        counts.add_tests(len(encoded), num_given)

    def _check_id(self, problem_id: str, where: str) -> None:
        if not problem_id:
            raise malformed(where, "id", "is empty. Give each problem one of its own.")
        if problem_id in self._where:
            raise malformed(
                where,
                "id",
                f"{problem_id!r} is that of {self._where[problem_id]} too. Give each "
                "problem one of its own.",
            )

    def _write(
        self, problem: Problem, encoded: Sequence[bytes], split: str, where: str
    ) -> None:
        if encoded:
            path = self._folder / TESTS_FILE
            stored = write_tests(self._tests, path, encoded)
            problem = replace(problem, tests=stored)
        line = line_of_record(record_of(problem, where))
        if split not in self._records:
            file = records_file(self._folder, split).open("w", encoding="ascii")
            self._records[split] = self._files.enter_context(file)
        self._records[split].write(line)


def missing_shares(
    settings: StoreSettings, sources: Sequence[SourceFile], data_set: Format
) -> dict[str, float]:
    """Returns the share of problems that each split gets for which there is no file."""
    shares = {
        "test": settings.test_fraction,
        "validation": settings.validation_fraction,
    }
    if settings.splits == "hashed":
        return shares
    if data_set.split_of is not None:
        return {}
    published = {source.split for source in sources}
    return {name: share for name, share in shares.items() if name not in published}


def _capped(
    problem: Problem, settings: StoreSettings, where: str
) -> tuple[Problem, list[bytes], int]:
    """The problem with the tests to keep, these as bytes, and how many there were."""
    tests = tests_of(problem)
    try:
        encoded = [encoded_test(test) for test in tests]
    except NotPlainDataError as error:
        raise malformed(where, "tests", f"{error}. Use plain data.") from None
    sizes = [len(test) for test in encoded]
    kept = kept_tests(sizes, settings.max_tests, settings.max_test_bytes)
    if tests and not kept:
        raise malformed(
            where,
            "tests",
            f"the smallest has {min(sizes)} bytes, more than data.max_test_bytes "
            f"{settings.max_test_bytes}. Raise it.",
        )
    capped = replace(problem, tests=tuple(tests[i] for i in kept))
    return capped, [encoded[i] for i in kept], len(tests)


def _checked(problem: Problem, where: str) -> str:
    """Why a problem's asserts would have to be trusted; refuses what is no problem."""
    if problem.kind not in SANDBOXED_KINDS:
        return ""
    try:
        check_problem(problem)
        return untrusted_reason(problem)
    except MalformedRowError:
        raise
    except ValueError as error:
        raise malformed(where, "tests", str(error)) from None


def _trusting(problem: Problem, reason: str) -> Problem:
    tests = tuple(replace(test, is_inside=True) for test in tests_of(problem))
    return replace(
        problem, tests=tests, columns=problem.columns | {"inexpressible": reason}
    )
