"""Tests by asserts, kept out of the program's reach.

Three ways, the first that fits (`assert_plans.py` chooses):

1. The asserts are rewritten into calls and decided here (`rewriting.py`).
2. They run in a second sandboxed process, a tester, in which the program's functions
   are stubs. Plain data crosses between the two, nothing else.
3. They hand the program functions, classes, or objects with a state of their own. Then
   they would have to run beside the program, which could forge their outcome: they are
   `untrusted_asserts`, and not run unless the test itself asks for it (`is_inside`).
"""

import itertools
from collections.abc import Iterator, Sequence

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.assert_plans import AssertPlan
from jaxgrpo.host.judge.batches import (
    Attempt,
    attempt_of,
    results_in_batches,
    results_of_cases,
)
from jaxgrpo.host.judge.results import (
    Made,
    failed_call,
    failed_run,
    passed,
    undecided,
    wrong,
)
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.records import (
    Execution,
    Finding,
    Limits,
    Program,
    TestResult,
)
from jaxgrpo.host.sandbox import Sandbox, TesterTask


def judge_assert_tests(
    code: str,
    plans: Sequence[AssertPlan],
    limits: Limits,
    settings: JudgeSettings,
    sandbox: Sandbox,
) -> list[TestResult]:
    """Returns the results of tests by asserts.

    Args:
      code: The program.
      plans: How each test is run; none is untrusted.
      limits: Of one test.
      settings: The judge's.
      sandbox: Runs the program, and testers beside it.

    Returns:
      One result per assert that was rewritten, and per test that was not, in order;
      fewer where the judge stopped early.
    """
    stops = settings.stops_at_failure
    cases = [case for plan in plans for case in plan.cases or ()]
    tasks = [plan.task for plan in plans if plan.task is not None]
    of_cases: list[TestResult] = []
    of_tasks: list[TestResult] = []
    of_insides: list[TestResult] = []
    if cases:
        of_cases = results_of_cases(
            code, cases, limits, sandbox.run, stops_at_failure=stops
        )
    if tasks and not _is_decided(of_cases, stops):
        of_tasks = _results_of_tasks(code, tasks, limits, sandbox, stops)
    for plan in plans:
        if plan.inside and not _is_decided(of_cases + of_tasks + of_insides, stops):
            of_insides.append(_judge_inside(code, plan.inside, limits, sandbox))
    return _in_order(plans, iter(of_cases), iter(of_tasks), iter(of_insides))


def _in_order(
    plans: Sequence[AssertPlan],
    of_cases: Iterator[TestResult],
    of_tasks: Iterator[TestResult],
    of_insides: Iterator[TestResult],
) -> list[TestResult]:
    results: list[TestResult] = []
    for plan in plans:
        if plan.cases is not None:
            results += itertools.islice(of_cases, len(plan.cases))
        else:
            results += itertools.islice(of_tasks if plan.task else of_insides, 1)
    return results


def _is_decided(results: list[TestResult], stops: bool) -> bool:
    has_lost = any(result.status == "INFRA" for result in results)
    return has_lost or (stops and any(result.status != "OK" for result in results))


def _results_of_tasks(
    code: str,
    tasks: Sequence[TesterTask],
    limits: Limits,
    sandbox: Sandbox,
    stops: bool,
) -> list[TestResult]:
    def attempt(start: int) -> Attempt:
        program = Program(source=code, mode="calls", limits=limits)
        examination = sandbox.examine(program, tasks[start:])
        execution = examination.execution
        done = [_result_of(finding, execution) for finding in examination.findings]
        is_through = len(done) == len(tasks) - start
        end = None if is_through else failed_run(execution)
        return attempt_of(done, end, is_loaded=execution.is_loaded)

    return results_in_batches(len(tasks), attempt, limits, stops_at_failure=stops)


def _result_of(finding: Finding, execution: Execution) -> TestResult:
    if finding.status == "inexpressible":
        return undecided(finding.reason, error_classes.UNTRUSTED_ASSERTS)
    if finding.status == "passed" and not finding.num_calls:
        return undecided("a test that calls nothing", error_classes.NO_TESTS)
    if finding.status == "passed":
        return passed(execution, Made(cpu_s=finding.cpu_s))
    found = finding.exception
    if finding.cause is not None:
        return failed_call(execution, finding.cause)
    said = f"{found.type_name}: {found.message}" if found else "it failed"
    where = f"line {found.line} of the test: " if found and found.line else ""
    return wrong(execution, Made(cpu_s=finding.cpu_s), where + said)


def _judge_inside(
    code: str, inside: str, limits: Limits, sandbox: Sandbox
) -> TestResult:
    """Runs a test beside the program, which can forge its outcome."""
    # In mode `calls` the run is only OK if the top level came to its end.
    program = Program(source=f"{code}\n\n{inside}", mode="calls", limits=limits)
    execution = sandbox.run(program)
    made = Made(stdout=execution.stdout, cpu_s=execution.cpu_s)
    if execution.status == "OK":
        return passed(execution, made)
    found = execution.exception
    if execution.status == "RE" and found and found.type_name == "AssertionError":
        return wrong(execution, made, f"AssertionError: {found.message}")
    return failed_run(execution)
