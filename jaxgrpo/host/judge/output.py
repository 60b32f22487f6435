"""The judge of output prediction: from a completion to the verdict on its literal."""

from dataclasses import replace
from typing import NamedTuple

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.extraction import WHOLE, extract
from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.records import Completion, Problem, Span, TestResult, Verdict
from jaxgrpo.host.trace.steps import COLUMN

ANSWER_SPAN = "answer"
"""Label of the span that the answer takes in the text."""


def judge_output(
    problem: Problem, completion: Completion, settings: JudgeSettings
) -> Verdict:
    """Returns the verdict on the literal in a completion.

    White space around an answer is not part of it, unless the answer is the whole text.
    A completion without an answer is wrong, in a class that says what is missing.

    Args:
      problem: Its reference is the expected `repr`.
      completion: With its text.
      settings: How the answer is found.
    """
    found = found_literal(problem, completion, settings)
    if found.error_class:
        return without_answer(found.error_class)
    verdict = judge_literal(found.answer, problem.reference)
    return replace(verdict, spans=found.spans)


class FoundLiteral(NamedTuple):
    """The answer that should be a literal, or why there is none."""

    answer: str = ""
    error_class: str = ""
    spans: tuple[Span, ...] = ()
    """Where it stands in the text; none where it is the whole text, or is empty."""


def found_literal(
    problem: Problem, completion: Completion, settings: JudgeSettings
) -> FoundLiteral:
    """Returns the answer in a completion, without the white space around it.

    Args:
      problem: Its kind chooses the rule, with the prompt.
      completion: With its text.
      settings: How the answer is found.
    """
    rule = settings.rule_of(
        problem.kind,
        completion.prompt_variant,
        has_steps=bool(problem.columns.get(COLUMN)),
    )
    if rule == WHOLE:
        return FoundLiteral(completion.text)
    found = extract(
        completion.text,
        rule,
        markers=settings.markers,
        stop=completion.stop,
        in_thought=completion.in_thought,
    )
    if found.error_class in error_classes.NO_ANSWER:
        return FoundLiteral(error_class=found.error_class)
    found = found.stripped()
    span = Span(start=found.start, end=found.end, label=ANSWER_SPAN)
    return FoundLiteral(found.answer, spans=(span,) if found.answer else ())


def without_answer(error_class: str, num_tests: int = 1) -> Verdict:
    """Returns the verdict on a completion in which no literal was found.

    Args:
      error_class: The kind of failure, one of `error_classes.NO_ANSWER`.
      num_tests: Of the problem.
    """
    result = TestResult(status="WA", error_class=error_class)
    return Verdict(
        status="WA",
        error_class=error_class,
        num_tests=num_tests,
        results=(result,) * num_tests,
    )
