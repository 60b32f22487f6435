"""The judge of input prediction: does a function give the output for these arguments?

The program is the problem's, and the completion says what to call its function with.
Whatever gives the expected value is right. Nothing of the completion is ever run: it is
read as literals, and these are sent to the program as data.
"""

import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.comparators import comparator
from jaxgrpo.host.judge.literal import NOT_ONE_LITERAL
from jaxgrpo.host.judge.literal_values import (
    MAX_CHARACTERS,
    NotALiteralError,
    read_literal,
)
from jaxgrpo.host.judge.output import found_literal, without_answer
from jaxgrpo.host.judge.results import (
    failed_call,
    made_of,
    passed,
    shown,
    undecided,
    verdict_of,
    wrong,
)
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.records import (
    Call,
    Completion,
    Execution,
    Limits,
    Problem,
    Program,
    Test,
    TestResult,
    Verdict,
)
from jaxgrpo.host.stored_tests import tests_of

Run = Callable[[Program], Execution]
Arguments = tuple[tuple[object, ...], dict[str, object]]

_PIECE = re.compile(
    r"""(?P<string> '(?:[^'\\\r\n]|\\.)*' | "(?:[^"\\\r\n]|\\.)*" )
      | (?P<mark> [][(){},] ) | (?P<rest> . )""",
    re.VERBOSE | re.DOTALL,
)
_KEYWORD = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*=(?!=)")


def judge_arguments(
    problem: Problem, completion: Completion, settings: JudgeSettings, run: Run
) -> Verdict:
    """Returns the verdict on a list of arguments.

    Args:
      problem: Of kind `input`. The `source` of its tests is the program.
      completion: Its answer is the arguments, as they stand between the parentheses of
        a call, or the whole call.
      settings: How the answer is found, and what a call may use.
      run: A sandbox's.
    """
    tests = tests_of(problem)
    found = found_literal(problem, completion, settings)
    if found.error_class:
        return without_answer(found.error_class, len(tests))
    limits = problem.limits or settings.limits
    results: list[TestResult] = []
    for test in tests:
        try:
            given = read_arguments(found.answer, test.function)
        except NotALiteralError as error:
            detail = f"{shown(found.answer)}: {error}"
            result = TestResult(status="WA", error_class=NOT_ONE_LITERAL, detail=detail)
        else:
            result = _result(test, given, limits, run)
        results.append(result)
    verdict = verdict_of(results, len(tests))
    return replace(verdict, extracted=found.answer, spans=found.spans)


def read_arguments(text: str, function: str) -> Arguments:
    """Returns the arguments that a text spells, by position and by name.

    Args:
      text: Any text, also hostile.
      function: May stand around them, as in the call.

    Raises:
      NotALiteralError: They are not all literals, or the text is something else.

    Example:
      >>> read_arguments("[1, 2], sep='-'", "f"), read_arguments("f((1, 2))", "f")
      ((([1, 2],), {'sep': '-'}), (((1, 2),), {}))
    """
    if len(text) > MAX_CHARACTERS:
        raise NotALiteralError(
            f"{len(text)} characters are more than {MAX_CHARACTERS}."
        )
    text = text.strip()
    if text.startswith(f"{function}(") and text.endswith(")"):
        text = text[len(function) + 1 : -1]
    positional: list[object] = []
    named: dict[str, object] = {}
    for piece in _pieces(text):
        match = _KEYWORD.match(piece)
        if match is None:
            if named:
                raise NotALiteralError("an argument without a name follows one with.")
            positional.append(read_literal(piece))
            continue
        name = match["name"]
        if name in named or keyword.iskeyword(name):
            raise NotALiteralError(f"{name!r} cannot name this argument.")
        named[name] = read_literal(piece[match.end() :])
    return tuple(positional), named


def _pieces(text: str) -> Iterator[str]:
    """The text between commas that stand in no bracket; none where there is none."""
    depth = start = 0
    for match in _PIECE.finditer(text):
        mark = match["mark"]
        if mark == "," and depth == 0:
            yield text[start : match.start()]
            start = match.end()
        elif mark:
            depth += (mark in "([{") - (mark in ")]}")
            if depth < 0:
                raise NotALiteralError("a bracket is closed that was not opened.")
    if text[start:].strip():  # A comma may stand at the end, and there may be nothing.
        yield text[start:]


def _result(test: Test, given: Arguments, limits: Limits, run: Run) -> TestResult:
    arguments, keywords = given
    call = Call(function=test.function, arguments=arguments, keywords=keywords)
    execution = run(
        Program(source=test.source, mode="calls", calls=(call,), limits=limits)
    )
    (result,) = execution.results
    if execution.status == "INFRA" or not execution.is_loaded:
        reason = execution.reason or execution.status
        return undecided(f"the problem's own program does not run: {reason}")
    if result.status != "OK":
        failed = failed_call(execution, result)
        if failed.error_class == error_classes.MISSING_FUNCTION:
            return undecided(f"the problem's program defines no {test.function}")
        return failed
    made = made_of([result])
    if comparator("call", test.compare)(test.expected, result.value).is_match:
        return passed(execution, made)
    detail = f"expected {shown(test.expected)}, got {shown(result.value)}"
    return wrong(execution, made, detail)
