"""From what happened to one test to its result, and from results to a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.records import (
    CallResult,
    ExceptionInfo,
    Execution,
    ExecutionStatus,
    TestResult,
    Verdict,
    VerdictStatus,
)

MAX_OUTPUT_CHARACTERS = 1000
"""Of a test's standard output that its result keeps."""
MAX_DETAIL_CHARACTERS = 500

_CLASS_OF_STATUS: dict[ExecutionStatus, str] = {
    "CE": error_classes.SYNTAX_ERROR,
    "TLE": error_classes.TIMEOUT,
    "MLE": error_classes.MEMORY_LIMIT,
    "OLE": error_classes.OUTPUT_LIMIT,
    "INFRA": error_classes.INFRA,
}
_NAME_ERRORS = ("NameError", "AttributeError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a program printed and used in one test."""

    stdout: str = ""
    cpu_s: float = 0.0


def made_of(calls: Sequence[CallResult]) -> Made:
    """Returns what a program printed and used in some calls.

    Args:
      calls: Of one test.
    """
    stdout = "".join(call.stdout for call in calls)
    return Made(stdout=stdout, cpu_s=sum(call.cpu_s for call in calls))


def passed(execution: Execution, made: Made, *, rung: str = "") -> TestResult:
    """Returns the result of a test that passed.

    Args:
      execution: The run it was part of.
      made: What the program printed and used in it.
      rung: What matched.
    """
    return _result(execution, "OK", error_classes.PASSED, made, rung=rung)


def wrong(
    execution: Execution,
    made: Made,
    detail: str,
    *,
    error_class: str = error_classes.WRONG_ANSWER,
) -> TestResult:
    """Returns the result of a test whose answer is not the wanted one.

    Args:
      execution: The run it was part of.
      made: What the program printed and used in it.
      detail: What was wanted and what came.
      error_class: Where it is not `wrong_answer`.
    """
    return _result(execution, "WA", error_class, made, detail=detail)


def undecided(detail: str, error_class: str = error_classes.INFRA) -> TestResult:
    """Returns the result of a test that could not be decided.

    Args:
      detail: Why, in words.
      error_class: The kind of failure, one of those with status INFRA.
    """
    return TestResult(status="INFRA", error_class=error_class, detail=capped(detail))


def failed_run(execution: Execution) -> TestResult:
    """Returns the result of a test whose program did not end well.

    Args:
      execution: Its status is not OK.
    """
    assert execution.status != "OK", "a program that ended well has not failed"
    found = execution.exception
    if execution.status == "RE" and found is None:
        # Without an exception the process ended by a signal or by its own exit.
        is_exit = execution.reason.startswith(("exit", "ended"))
        error_class = error_classes.EXIT if is_exit else error_classes.CRASH
    else:
        error_class = _class_of(execution.status, found)
    return _result(
        execution,
        execution.status,
        error_class,
        Made(stdout=execution.stdout, cpu_s=execution.cpu_s),
        detail=execution.reason,
        exception=found,
    )


def failed_call(execution: Execution, call: CallResult) -> TestResult:
    """Returns the result of a test that depends on a call which gave no value.

    Args:
      execution: The run that the call was part of.
      call: Its status is not OK.
    """
    found = call.exception
    if call.status == "RE" and found is None and execution.status != "OK":
        return failed_run(execution)
    error_class = _class_of(call.status, found)
    # It ran to its end and gave something: only nothing that could be compared.
    is_wrong = error_class == error_classes.NOT_PLAIN_DATA
    detail = f"{found.type_name}: {found.message}" if found else execution.reason
    return _result(
        execution,
        "WA" if is_wrong else call.status,
        error_class,
        made_of([call]),
        detail=detail,
        exception=found,
    )


def _class_of(status: ExecutionStatus, found: ExceptionInfo | None) -> str:
    if status in _CLASS_OF_STATUS:
        return _CLASS_OF_STATUS[status]
    if found is None:
        return error_classes.CRASH
    if found.type_name == "NotPlainDataError":
        return error_classes.NOT_PLAIN_DATA
    if found.type_name == "SystemExit":
        return error_classes.EXIT
    # Raised where no line of the program was running: while looking for the function.
    if found.type_name in _NAME_ERRORS and found.line is None:
        return error_classes.MISSING_FUNCTION
    return error_classes.EXCEPTION


def _result(
    execution: Execution,
    status: VerdictStatus,
    error_class: str,
    made: Made,
    *,
    rung: str = "",
    detail: str = "",
    exception: ExceptionInfo | None = None,
) -> TestResult:
    # Whatever a program says of itself: it passes by what it gave, or not at all.
    assert (status == "OK") == (error_class == error_classes.PASSED)
    return TestResult(
        status=status,
        error_class=error_class,
        cpu_s=made.cpu_s,
        peak_bytes=execution.peak_bytes,
        exception=exception,
        stdout=made.stdout[:MAX_OUTPUT_CHARACTERS],
        is_stdout_cut=len(made.stdout) > MAX_OUTPUT_CHARACTERS,
        rung=rung,
        detail=capped(detail),
    )


def capped(detail: str) -> str:
    """Returns a text cut to what a result keeps of it."""
    if len(detail) <= MAX_DETAIL_CHARACTERS:
        return detail
    return detail[: MAX_DETAIL_CHARACTERS - 3] + "..."


def shown(value: object) -> str:
    """Returns a value as a detail shows it; any plain data, also huge."""
    if isinstance(value, str):
        return repr(value[:MAX_DETAIL_CHARACTERS])
    try:
        return repr(value)[:MAX_DETAIL_CHARACTERS]
    except ValueError:
        return "a value with an integer of too many digits"


def verdict_of(results: Sequence[TestResult], num_tests: int) -> Verdict:
    """Returns the verdict on a program from the results of its tests.

        status        INFRA if any test is; else that of the first that did not pass
        error_class   likewise

    Args:
      results: Of the first tests, in their order.
      num_tests: Of the problem. Fewer results are taken for a deliberate stop only
        after a test that did not pass; otherwise they are lost, which is INFRA.
    """
    if not num_tests:
        return infra_verdict("the problem has no tests", error_classes.NO_TESTS)
    failures = [result for result in results if result.status != "OK"]
    if len(results) > num_tests or (len(results) < num_tests and not failures):
        return infra_verdict(f"{len(results)} results of {num_tests} tests")
    undecided = [result for result in results if result.status == "INFRA"]
    decisive = (undecided or failures or results)[0]
    return Verdict(
        status=decisive.status,
        error_class=decisive.error_class,
        num_passed=len(results) - len(failures),
        num_tests=num_tests,
        results=tuple(results),
        detail=decisive.detail,
    )


def infra_verdict(reason: str, error_class: str = error_classes.INFRA) -> Verdict:
    """Returns the verdict that no verdict was possible, through no fault of the text.

    Args:
      reason: What went wrong, in words.
      error_class: The kind of failure.
    """
    return Verdict(status="INFRA", error_class=error_class, detail=capped(reason))


def refused_verdict(error_class: str, num_tests: int) -> Verdict:
    """Returns the verdict on a completion in which no program was found.

    Args:
      error_class: The kind of failure, from the extraction.
      num_tests: Of the problem.
    """
    return Verdict(status="CE", error_class=error_class, num_tests=num_tests)
