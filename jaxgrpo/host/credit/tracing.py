"""What is traced to find a fault: the first test that a program failed, and how."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxgrpo.host.judge.assert_plans import plan_of, with_check_called
from jaxgrpo.host.judge.source_names import parsed
from jaxgrpo.host.records import (
    Call,
    Execution,
    Limits,
    Problem,
    Program,
    Test,
    Verdict,
)
from jaxgrpo.host.stored_tests import tests_of
from jaxgrpo.host.trace_records import Trace, TraceEvent

Run = Callable[[Program], Execution]
"""The sandbox."""
_LIMITED = ("TLE", "MLE", "OLE")
"""Ends by a limit, which depend on what tracing costs."""


def failed_test(problem: Problem, verdict: Verdict) -> Test | None:
    """Returns the first test that a program did not pass; None where it is not known.

    Args:
      problem: Of a kind with programs.
      verdict: On the program.
    """
    tests: Sequence[Test] = tests_of(problem)
    statuses = [result.status for result in verdict.results]
    place = next((i for i, status in enumerate(statuses) if status != "OK"), None)
    if place is None:
        return None
    if problem.kind != "assert":
        return tests[place] if place < len(tests) else None
    # A test may hold several asserts, each with a result of its own.
    for test in tests:
        plan = plan_of(test.source, test.function, problem.reference, test.is_inside)
        if place < plan.num_tests:
            return test
        place -= plan.num_tests
    return None


def traced_program(source: str, test: Test, limits: Limits) -> Program:
    """Returns what is traced of a program under a test.

    Asserts are put behind the program, whose lines stay where they are.

    Args:
      source: The program.
      test: One of its problem's.
      limits: For it.
    """
    if test.kind == "stdin":
        return Program(source=source, mode="trace", stdin=test.stdin, limits=limits)
    if test.kind == "call":
        call = Call(
            function=test.function, arguments=test.arguments, keywords=test.keywords
        )
        return Program(source=source, mode="trace", calls=(call,), limits=limits)
    end = "" if source.endswith(("\n", "\r")) else "\n"
    called = with_check_called(parsed(test.source), test.source, test.function)
    return Program(source=f"{source}{end}{called}\n", mode="trace", limits=limits)


def trace_of(program: Program, run: Run) -> Trace | None:
    """Returns what a program did; None where nothing of it could be seen.

    Programs that are traced have ended well untraced, or are right. Where one does not
    this time, by a limit or an exception, its trace counts as cut there: that is what
    tracing does to it. What the asserts behind it raise is not its end.

    Args:
      program: From `traced_program`.
      run: The sandbox.
    """
    execution = run(program)
    trace = next(iter(execution.traces), None)
    if trace is None or not trace.events:
        return None
    statuses = {execution.status, *(result.status for result in execution.results)}
    end = _begin_of_exception(trace.events)
    if statuses == {"OK"} or end < 0 and statuses.isdisjoint(_LIMITED):
        return trace
    events = trace.events if end < 0 else trace.events[:end]
    return replace(trace, events=events, cut=trace.cut or "stopped")


def _begin_of_exception(events: Sequence[TraceEvent]) -> int:
    """Place of the boundary at which it was raised; -1 for none or one of an assert."""
    begin = len(events)
    while begin and any(name == "<raise>" for name, _ in events[begin - 1].values):
        begin -= 1
    is_other = begin == len(events) or events[begin].kind == "assert"
    return -1 if is_other else begin


def remembering(run: Run) -> Run:
    """Returns a sandbox that runs what it has run before no second time.

    For the programs of one group, which fail the same tests of one reference.

    Args:
      run: The sandbox.
    """
    known: dict[tuple[str, str, str], Execution] = {}

    def remembered(program: Program) -> Execution:
        key = program.source, program.stdin, repr(program.calls)
        if key not in known:
            known[key] = run(program)
        return known[key]

    return remembered
