"""Tests by calls: arguments in, a value out, compared on this side of the border."""

from collections.abc import Callable, Sequence

from jaxgrpo.host.judge.batches import Case, results_of_cases
from jaxgrpo.host.judge.checker import Checker
from jaxgrpo.host.judge.comparators import comparator
from jaxgrpo.host.judge.results import failed_call, made_of, passed, shown, wrong
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.records import (
    Call,
    CallResult,
    Execution,
    Limits,
    Program,
    Test,
    TestResult,
)

Run = Callable[[Program], Execution]


def judge_call_tests(
    code: str, tests: Sequence[Test], limits: Limits, settings: JudgeSettings, run: Run
) -> list[TestResult]:
    """Returns the results of tests of kind `call`.

    Args:
      code: The program.
      tests: Of kind `call`.
      limits: Of one test.
      settings: The judge's.
      run: A sandbox's.
    """
    cases = [_case(test, limits, run) for test in tests]
    return results_of_cases(
        code, cases, limits, run, stops_at_failure=settings.stops_at_failure
    )


def _case(test: Test, limits: Limits, run: Run) -> Case:
    call = Call(
        function=test.function, arguments=test.arguments, keywords=test.keywords
    )

    def decide(execution: Execution, given: Sequence[CallResult]) -> TestResult:
        (result,) = given
        if result.status != "OK":
            return failed_call(execution, result)
        if test.checker:
            checker = Checker(source=test.checker, limits=limits, run=run)
            question = (list(test.arguments), test.expected, result.value)
            return checker.result(question, execution, made_of(given))
        match = comparator("call", test.compare)(test.expected, result.value)
        if match.is_match:
            return passed(execution, made_of(given), rung=match.rung)
        detail = f"expected {shown(test.expected)}, got {shown(result.value)}"
        return wrong(execution, made_of(given), detail)

    return Case(calls=(call,), decide=decide)
