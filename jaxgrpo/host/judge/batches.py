"""Many tests in few processes, so that a test costs a call and not a process.

Tests that share a process share its limits, and one may take the process down. A test
is only condemned for that if no test before it can have had a part in it: otherwise it
is run again in a fresh process, where what they used up does not count against it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxgrpo.host.judge.results import failed_run
from jaxgrpo.host.judge.votes import key_of_calls
from jaxgrpo.host.records import (
    Call,
    CallResult,
    Execution,
    Limits,
    Program,
    TestResult,
)

MAX_TIMEOUTS = 3
"""Tests of one program that may run out of time before the rest is left out."""
MAX_ENDS = 20
"""Tests of one program that may take their process down before the rest is left out."""
NEGLIGIBLE = 0.1
"""Share of the processor time that earlier tests may use without being blamed."""


class Attempt(NamedTuple):
    """What came of some tests, in order, in one process."""

    results: list[TestResult]
    """Of the tests that it came back from."""
    end: TestResult | None
    """Of the test that it did not come back from; None if there is none."""
    is_loaded: bool
    """Whether the program's top level ran to its end."""


def attempt_of(
    results: list[TestResult], end: TestResult | None, *, is_loaded: bool
) -> Attempt:
    """Returns what came of some tests, up to the first that met a limit.

    What a process has used of its memory or output is not there for the tests after
    it, so that meeting such a limit is as good as ending.

    Args:
      results: Of the tests that the process came back from.
      end: Of the test that it did not come back from, or None.
      is_loaded: Whether the program's top level ran to its end.
    """
    for place, result in enumerate(results):
        if result.status in ("MLE", "OLE"):
            return Attempt(results[:place], result, is_loaded)
    return Attempt(results, end, is_loaded)


def results_in_batches(
    num_tests: int,
    attempt: Callable[[int], Attempt],
    limits: Limits,
    *,
    stops_at_failure: bool,
) -> list[TestResult]:
    """Returns the results of a program's tests, in fresh processes as they are needed.

    Args:
      num_tests: How many there are.
      attempt: Runs the tests from an index on in one new process.
      limits: Of a process.
      stops_at_failure: Whether to leave out what follows the first failure.

    Returns:
      One result per test. Fewer after an INFRA result, after MAX_TIMEOUTS (one, if the
      program slept) or MAX_ENDS, or after a failure if that was asked for.
    """
    results: list[TestResult] = []
    num_timeouts = num_ends = 0
    while len(results) < num_tests:
        done, end, is_loaded = attempt(len(results))
        results += done
        if stops_at_failure and any(result.status != "OK" for result in done):
            break
        if end is None:
            assert done, "an attempt that comes through has done something"
            continue
        if not is_loaded:
            # No test can be run, now or later.
            left = num_tests - len(results)
            return results + [end] * (left if end.status != "INFRA" else 1)
        if _may_be_blamed(done, end, limits):
            continue
        results.append(end)
        if end.status == "TLE":
            # To wait is cheap for a program, and dear for its judge.
            has_slept = end.cpu_s < limits.cpu_s / 2
            num_timeouts += MAX_TIMEOUTS if has_slept else 1
        num_ends += 1
        is_enough = num_timeouts >= MAX_TIMEOUTS or num_ends >= MAX_ENDS
        if is_enough or stops_at_failure or end.status == "INFRA":
            break
    return until_failure(results) if stops_at_failure else results


def _may_be_blamed(earlier: list[TestResult], end: TestResult, limits: Limits) -> bool:
    """Whether earlier tests may have had a part in how a process ended."""
    if end.status != "TLE":
        return bool(earlier)
    # What the program tells of its time; a lie could only make it be tried less often.
    return sum(result.cpu_s for result in earlier) > NEGLIGIBLE * limits.cpu_s


def until_failure(results: list[TestResult]) -> list[TestResult]:
    """Returns the results up to the first that is not OK, which is included."""
    for index, result in enumerate(results):
        if result.status != "OK":
            return results[: index + 1]
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A test that is decided here, from the values of some calls."""

    calls: tuple[Call, ...]
    decide: Callable[[Execution, Sequence[CallResult]], TestResult]
    """Takes the run, and one result per call."""


def results_of_cases(
    code: str,
    cases: Sequence[Case],
    limits: Limits,
    run: Callable[[Program], Execution],
    *,
    stops_at_failure: bool,
) -> list[TestResult]:
    """Returns the results of tests by calls, one call at a time.

    Args:
      code: The program.
      cases: The tests.
      limits: Of one test; tests may use less, because they share.
      run: A sandbox's.
      stops_at_failure: As for `results_in_batches`.
    """

    def attempt(start: int) -> Attempt:
        waiting = cases[start:]
        calls = tuple(call for case in waiting for call in case.calls)
        execution = run(Program(source=code, mode="calls", calls=calls, limits=limits))
        done: list[TestResult] = []
        first = 0
        for case in waiting:
            last = first + len(case.calls)
            if last > execution.num_answered:
                end = failed_run(execution)
                return attempt_of(done, end, is_loaded=execution.is_loaded)
            given = execution.results[first:last]
            result = case.decide(execution, given)
            done.append(replace(result, output_key=key_of_calls(given)))
            first = last
        return attempt_of(done, None, is_loaded=True)

    return results_in_batches(
        len(cases), attempt, limits, stops_at_failure=stops_at_failure
    )
