"""Where a program went wrong, by what it did: EGCA's routing and localisation.

    verdict, constraints, likeness -> mode -> span of characters

    syntax      it does not compile or ends in an error    what Python blames
    constraint  it breaks a constraint, or is built too    none
                differently from the reference
    correct     it passes                                  none
    logic       it runs and fails a test                   the statement at which it
                                                           first does something else
                                                           than the reference

The first mode that applies is taken. Whether a span focuses the credit is decided
where advantages are known; a completion without one has uniform credit.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from jaxgrpo.host.credit.comparability import control_flow, likeness
from jaxgrpo.host.credit.constraints import (
    Constraint,
    broken_constraints,
    constraints_of,
    entry_point_of,
    features_of,
)
from jaxgrpo.host.credit.localization import blamed_divergence, random_boundary
from jaxgrpo.host.credit.settings import NONE, RANDOM, BlameSettings
from jaxgrpo.host.credit.tracing import (
    Run,
    failed_test,
    remembering,
    trace_of,
    traced_program,
)
from jaxgrpo.host.credit.user_functions import (
    UserFunctionError,
    extracted_constraints,
    loaded,
    localized_span,
)
from jaxgrpo.host.judge.passages import Extraction
from jaxgrpo.host.records import (
    Blame,
    BlameMode,
    Problem,
    Span,
    Test,
    Verdict,
    VerdictStatus,
)
from jaxgrpo.host.trace import exception_span, statement_span
from jaxgrpo.host.trace_records import Trace, TraceEvent

MODES: tuple[BlameMode, ...] = get_args(BlameMode)

NO_PROGRAM = "no_program"
"""There is no program in the completion."""
NO_LINE = "no_line"
"""Nothing says where it ended: it ran out of time or memory, or ended by itself."""
NO_REFERENCE = "no_reference"
"""The problem's reference is no program that could be read."""
UNREAD = "unread"
"""It nests too deep to be compared with the reference."""
NO_TRACE = "no_trace"
"""One of the two programs could not be traced on the test."""
NO_DIVERGENCE = "no_divergence"
"""It does nothing else than the reference until it gives the result, which is blamed;
or a trace is cut before that."""
TIED = "tied"
"""Its group's rewards are all equal, so that it has no advantage: it is not traced."""
USER_FUNCTION = "user_function"
"""A function of the user's failed."""
FALLBACKS = (
    NO_PROGRAM, NO_LINE, NO_REFERENCE, UNREAD, NO_TRACE, NO_DIVERGENCE, TIED,
    USER_FUNCTION,
)  # fmt: skip
"""Why a completion of a mode that has spans has none, or only that of its result."""

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python raises for a text that it cannot read."""
_ERRORS: tuple[VerdictStatus, ...] = ("CE", "RE", "TLE", "MLE", "OLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blaming:
    """How blame is found, with the user's functions loaded."""

    settings: BlameSettings
    extractor: Callable[..., Any] | None = None
    localizer: Callable[..., Any] | None = None


def blaming(settings: BlameSettings) -> Blaming:
    """Returns how blame is found, with the user's functions loaded.

    Args:
      settings: Name them.

    Raises:
      ValueError: One of them is not there, or does not load.
    """
    return Blaming(
        settings=settings,
        extractor=loaded(settings.extractor),
        localizer=loaded(settings.localizer),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """What the programs of one problem are held against."""

    problem: Problem
    run: Run
    """The sandbox."""
    how: Blaming
    control_flow: tuple[str, ...] = ()
    """Of the reference."""
    constraints: tuple[Constraint, ...] = ()
    is_tied: bool = False
    """Whether none of them has an advantage."""
    fallback: str = ""
    """Why they cannot be compared; empty where they can."""
    detail: str = ""
    """Likewise, in words."""


def standard(
    problem: Problem, run: Run, how: Blaming, *, is_tied: bool = False
) -> Standard:
    """Returns what the programs of a problem are held against.

    Args:
      problem: Of a kind with programs; its reference is one too.
      run: The sandbox; it runs nothing twice.
      how: Blame is found.
      is_tied: Whether none of the programs has an advantage, so that they need not be
        traced.
    """
    plain = Standard(problem=problem, run=remembering(run), how=how, is_tied=is_tied)
    try:
        flow = tuple(control_flow(problem.reference))
        constraints = tuple(asked_constraints(problem, how))
    except UserFunctionError as error:
        return replace(plain, fallback=USER_FUNCTION, detail=str(error))
    except UNREADABLE:
        return replace(plain, fallback=NO_REFERENCE)
    return replace(plain, control_flow=flow, constraints=constraints)


def asked_constraints(problem: Problem, how: Blaming) -> list[Constraint]:
    """Returns what is asked of a problem's programs besides the tests.

    Args:
      problem: With its reference.
      how: Blame is found.

    Raises:
      SyntaxError: The reference is no program.
      UserFunctionError: The user's function raises, or returns something else.
    """
    if how.extractor is not None:
        return extracted_constraints(how.extractor, problem)
    reference, kinds = features_of(problem.reference), how.settings.constraints
    return constraints_of(reference, kinds, entry_point_of(problem))


def blame_of(
    against: Standard, found: Extraction, verdict: Verdict, generator: random.Random
) -> Blame:
    """Returns mode and span of a judged program.

    Args:
      against: Of its problem.
      found: The program in the completion's text.
      verdict: The judge's.
      generator: For `random`.

    Reference:
      EGCA, 2026, https://arxiv.org/abs/2603.16158.
      Differs from it: constraints come from the reference's syntax tree and the span
      from comparing traces; no language model has a part in it. Time, memory and output
      limits count as runtime errors.
    """
    if verdict.status in _ERRORS:
        return _blame_for_error(found, verdict)
    mode: BlameMode = "correct" if verdict.is_correct else "logic"
    if against.fallback:
        fallback = "" if verdict.is_correct else against.fallback
        return Blame(mode=mode, fallback=fallback, detail=against.detail)
    try:
        compared = _compared(against, found.answer, mode)
        localization = against.how.settings.localization
        if compared.mode != "logic" or compared.fallback or localization == NONE:
            return compared
        if against.is_tied:
            return replace(compared, fallback=TIED)
        return _blame_for_logic(against, found, verdict, generator, compared)
    except UserFunctionError as error:
        return Blame(mode=mode, fallback=USER_FUNCTION, detail=str(error))


def _blame_for_error(found: Extraction, verdict: Verdict) -> Blame:
    """What Python blames for the first error."""
    if not found.answer:
        return Blame(mode="syntax", fallback=NO_PROGRAM)
    failed = next((r for r in verdict.results if r.status != "OK"), None)
    span = None
    if failed is not None and failed.exception is not None:
        span = exception_span(failed.exception, found.line_starts, found.end)
    return Blame(mode="syntax", span=span, fallback="" if span else NO_LINE)


def _compared(against: Standard, source: str, mode: BlameMode) -> Blame:
    """Likeness and broken constraints: mode `constraint`, or the given one."""
    try:
        alike = likeness(control_flow(source), against.control_flow)
        candidate = features_of(source)
    except UNREADABLE:
        fallback = "" if mode == "correct" else UNREAD
        return Blame(mode=mode, fallback=fallback, similarity=0.0)
    broken = broken_constraints(candidate, against.constraints)
    is_comparable = alike >= against.how.settings.min_similarity
    if broken or not is_comparable:
        mode = "constraint"
    return Blame(mode=mode, similarity=alike, broken=broken)


def _blame_for_logic(
    against: Standard,
    found: Extraction,
    verdict: Verdict,
    generator: random.Random,
    compared: Blame,
) -> Blame:
    how, problem = against.how, against.problem
    test = failed_test(problem, verdict)
    if test is None:
        return replace(compared, fallback=NO_TRACE)
    candidate = _traced(found.answer, test, against)
    if candidate is not None:
        compared = replace(compared, num_boundaries=len(candidate.events))
    if how.localizer is not None:
        reference = _traced(problem.reference, test, against)
        span = localized_span(how.localizer, problem, found, candidate, reference)
        return replace(compared, span=span)
    if candidate is None:
        return replace(compared, fallback=NO_TRACE)
    num_lines, localization = len(found.line_starts), how.settings.localization
    if localization == RANDOM:
        event = random_boundary(candidate, num_lines, generator)
        return _with_span(compared, event, found, is_divergence=event is not None)
    reference = _traced(problem.reference, test, against)
    if reference is None:
        return replace(compared, fallback=NO_TRACE)
    event, is_divergence = blamed_divergence(
        candidate, reference, num_lines, localization
    )
    if (candidate.cut or reference.cut) and not is_divergence:
        event = None  # Beyond the cut there may be one, before what gave the result.
    return _with_span(compared, event, found, is_divergence=is_divergence)


def _traced(source: str, test: Test, against: Standard) -> Trace | None:
    limits = against.how.settings.limits
    return trace_of(traced_program(source, test, limits), against.run)


def _with_span(
    compared: Blame, event: TraceEvent | None, found: Extraction, *, is_divergence: bool
) -> Blame:
    span: Span | None = None
    if event is not None:
        span = statement_span(event.statement, found.line_starts)
    fallback = "" if is_divergence else NO_DIVERGENCE
    return replace(compared, span=span, fallback=fallback)
