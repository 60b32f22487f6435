"""Tests by standard input and output: the program runs untouched, as a script would."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxgrpo.host.judge.batches import Attempt, results_in_batches
from jaxgrpo.host.judge.checker import Checker
from jaxgrpo.host.judge.comparators import comparator
from jaxgrpo.host.judge.results import Made, failed_run, passed, shown, wrong
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.judge.votes import key_of_output
from jaxgrpo.host.records import Execution, Limits, Program, Test, TestResult

Run = Callable[[Program], Execution]


def judge_stdin_tests(
    code: str, tests: Sequence[Test], limits: Limits, settings: JudgeSettings, run: Run
) -> list[TestResult]:
    """Returns the results of tests of kind `stdin`, each a process of its own.

    Args:
      code: The program.
      tests: Of kind `stdin`.
      limits: Of one test.
      settings: The judge's.
      run: A sandbox's.
    """

    def attempt(start: int) -> Attempt:
        result = judge_stdin_test(code, tests[start], limits, run)
        # A run that failed is final: the test had the whole process to itself.
        is_end = result.status not in ("OK", "WA")
        return Attempt([] if is_end else [result], result if is_end else None, True)

    return results_in_batches(
        len(tests), attempt, limits, stops_at_failure=settings.stops_at_failure
    )


def judge_stdin_test(code: str, test: Test, limits: Limits, run: Run) -> TestResult:
    """Returns the result of one test: a run of its own, and a look at its output.

    Any way to end with exit status 0 is fine. A non-zero status or a signal is RE even
    if the output matches.

    Args:
      code: The program.
      test: Of kind `stdin`.
      limits: Of the run.
      run: A sandbox's.
    """
    program = Program(source=code, stdin=test.stdin, limits=limits)
    execution = run(program)
    if execution.status != "OK":
        return failed_run(execution)
    result = _decision(test, execution, limits, run)
    return replace(result, output_key=key_of_output(execution.stdout))


def _decision(test: Test, execution: Execution, limits: Limits, run: Run) -> TestResult:
    output = execution.stdout
    made = Made(stdout=output, cpu_s=execution.cpu_s)
    expected = test.expected
    assert isinstance(expected, str), "checked with the problem"
    if test.checker:
        checker = Checker(source=test.checker, limits=limits, run=run)
        return checker.result((test.stdin, expected, output), execution, made)
    match = comparator("stdin", test.compare)(expected, output)
    if match.is_match:
        return passed(execution, made, rung=match.rung)
    return wrong(execution, made, f"expected {shown(expected)}, got {shown(output)}")
