"""The judge of programs: from a completion's text to the verdict on its tests."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.assert_plans import AssertPlan, plan_of
from jaxgrpo.host.judge.assertion import judge_assert_tests
from jaxgrpo.host.judge.call import judge_call_tests
from jaxgrpo.host.judge.comparators import comparator
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.results import infra_verdict, refused_verdict, verdict_of
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.judge.stdin import judge_stdin_tests
from jaxgrpo.host.records import (
    Call,
    Limits,
    Problem,
    Span,
    Test,
    TestResult,
    Verdict,
)
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.sandbox.calls import MAX_ARGUMENT_BYTES, encoded_calls
from jaxgrpo.host.sandbox.plain_data import NotPlainDataError, to_bytes
from jaxgrpo.host.stored_tests import tests_of, with_tests

CODE_SPAN = "code"
"""Label of the span that the extracted program takes in the text."""


def judge_program(
    problem: Problem,
    text: str,
    sandbox: Sandbox,
    settings: JudgeSettings,
    *,
    stop: str = "",
    in_thought: bool = False,
) -> Verdict:
    """Returns the verdict on a program.

    Args:
      problem: Of kind `stdin`, `call` or `assert`.
      text: The completion's.
      sandbox: Runs the program.
      settings: How programs are found, limited and tested.
      stop: As of the completion.
      in_thought: Likewise.
    """
    problem = with_tests(problem)
    if not problem.tests:
        return infra_verdict("the problem has no tests", error_classes.NO_TESTS)
    plans = _plans(problem)
    reasons = [plan.untrusted_reason for plan in plans if plan.untrusted_reason]
    if reasons:
        return infra_verdict(reasons[0], error_classes.UNTRUSTED_ASSERTS)
    num_tests = sum(plan.num_tests for plan in plans) if plans else len(problem.tests)
    found = extract(
        text,
        settings.extraction,
        markers=settings.markers,
        stop=stop,
        in_thought=in_thought,
    )
    if found.error_class:
        return refused_verdict(found.error_class, num_tests)
    limits = problem.limits or settings.limits
    results = _results(problem, plans, found.answer, limits, settings, sandbox)
    verdict = verdict_of(results, num_tests)
    span = Span(start=found.start, end=found.end, label=CODE_SPAN)
    return replace(verdict, extracted=found.answer, spans=(span,))


def _plans(problem: Problem) -> list[AssertPlan]:
    """How each test is run; empty for problems of other kinds."""
    tests = tests_of(problem) if problem.kind == "assert" else ()
    return [
        plan_of(test.source, test.function, problem.reference, test.is_inside)
        for test in tests
    ]


def _results(
    problem: Problem,
    plans: Sequence[AssertPlan],
    code: str,
    limits: Limits,
    settings: JudgeSettings,
    sandbox: Sandbox,
) -> list[TestResult]:
    if problem.kind == "assert":
        return judge_assert_tests(code, plans, limits, settings, sandbox)
    if problem.kind == "call":
        return judge_call_tests(code, tests_of(problem), limits, settings, sandbox.run)
    return judge_stdin_tests(code, tests_of(problem), limits, settings, sandbox.run)


def check_problem(problem: Problem) -> None:
    """Raises ValueError if a problem cannot be judged as it is described.

    Problems whose asserts would have to be trusted pass; `untrusted_reason` finds them.

    Args:
      problem: Of kind `input`, `stdin`, `call` or `assert`.
    """
    if not problem.tests:
        raise ValueError("no tests. Give at least one, or leave the problem out.")
    for index, test in enumerate(tests_of(problem)):
        try:
            _check_test(test, problem)
        except ValueError as error:
            raise ValueError(f"test {index}: {error}") from None


def _check_test(test: Test, problem: Problem) -> None:
    is_input = problem.kind == "input"
    wanted = "call" if is_input else problem.kind
    if test.kind != wanted:
        raise ValueError(
            f"kind {test.kind!r} in a problem of kind {problem.kind!r}. "
            f"Make it {wanted!r}."
        )
    if test.kind == "assert":
        plan = plan_of(test.source, test.function, problem.reference, test.is_inside)
        if plan.num_tests == 0:
            raise ValueError("no assert calls the program. Add one that does.")
        return
    comparator(test.kind, test.compare)
    if test.checker and test.compare != "default":
        raise ValueError(
            f"a checker and the comparator {test.compare!r}. Give one of them."
        )
    if test.kind == "stdin" and not isinstance(test.expected, str):
        raise ValueError(
            f"expected output of type {type(test.expected).__name__}. Give text."
        )
    if test.kind == "call":
        _check_call(test, is_input=is_input)


def _check_call(test: Test, *, is_input: bool) -> None:
    if not test.function:
        raise ValueError("no function to call. Name it.")
    if is_input != bool(test.source):
        raise ValueError(
            "no source to call. Give the program that the answer is arguments for."
            if is_input
            else "source in a call. It is the completion's to write: leave it out."
        )
    if is_input and (test.arguments or test.keywords or test.checker):
        raise ValueError(
            "arguments or a checker where the answer is the arguments. Leave them out."
        )
    if test.checker and test.keywords:
        raise ValueError("a checker and keyword arguments. Use positional arguments.")
    call = Call(
        function=test.function, arguments=test.arguments, keywords=test.keywords
    )
    encoded_calls((call,))
    try:
        to_bytes(test.expected, MAX_ARGUMENT_BYTES)
    except NotPlainDataError as error:
        raise ValueError(f"expected value: {error}. Use plain data.") from None


def untrusted_reason(problem: Problem) -> str:
    """Returns why a problem's asserts would have to be trusted; empty if they need not.

    Args:
      problem: Of any kind.
    """
    reasons = [plan.untrusted_reason for plan in _plans(problem)]
    return next(filter(None, reasons), "")


def without_untrusted(
    problems: Iterable[Problem],
) -> tuple[list[Problem], dict[str, str]]:
    """Returns the problems that can be judged from outside, and why others cannot.

    Args:
      problems: Of any kinds.

    Returns:
      The problems kept, in order, and the reason by the id of each one left out.
    """
    kept: list[Problem] = []
    left_out: dict[str, str] = {}
    for problem in problems:
        reason = untrusted_reason(problem)
        if reason:
            left_out[problem.id] = reason
        else:
            kept.append(problem)
    return kept, left_out
