"""Where a candidate first does something else than the reference.

Both are traced alike on the same input (`Program(mode="trace")`). Compared are, for
each execution of a function and the reference's execution that corresponds to it,

    the values that each variable takes on, one after the other,
    the outcomes of each branch, loop and assert,
    what is returned, yielded and raised,

and what is printed over all. A boundary of the candidate at which any of these is
another than the reference's is a divergence. Variables correspond by their history and
statements by their shape, so that neither other names nor another order of independent
statements is one.

Reference:
  EGCA (execution-grounded credit assignment) takes k* = min {k : S_k != S_k^ref}, the
  earliest boundary whose states differ, on the first failing test.
  Differs from it: states are compared variable by variable and execution by execution
  instead of whole and by their number, and a language model has no part in it.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxgrpo.host.trace.matching import (
    DECIDING_KINDS,
    Activation,
    activations_of,
    aligned_statements,
    histories_of,
    matched_activations,
    matched_decisions,
    matched_scopes,
    matched_variables,
)
from jaxgrpo.host.trace_records import Trace, TraceEvent

Cause = Literal["branch", "value", "return", "yield", "exception", "output"]
CAUSES: dict[str, Cause] = {
    "<return>": "return",
    "<yield>": "yield",
    "<raise>": "exception",
}
NOTHING = ""
"""In place of a value where the reference has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A boundary at which the candidate differs from the reference."""

    step: int
    """Index of the boundary among the candidate's events."""
    event: TraceEvent
    execution: int
    """How often the statement had been executed by then, this time included."""
    cause: Cause
    name: str = ""
    """Of the variable (cause `value`)."""
    found: str = ""
    """The candidate's value or outcome."""
    expected: str = NOTHING
    """The reference's; empty where it has none."""


def divergences(candidate: Trace, reference: Trace) -> tuple[Divergence, ...]:
    """Returns all divergences in the candidate's order; none between equivalents.

    What lies beyond the end of a trace that was cut is not compared.

    Args:
      candidate: On some input.
      reference: On the same input.
    """
    found = [
        *_divergences_in_functions(candidate, reference),
        *_divergences_in_output(candidate, reference),
    ]
    executions = _executions(candidate)
    return tuple(
        Divergence(
            step=step,
            event=candidate.events[step],
            execution=executions[step],
            cause=cause,
            name=name,
            found=ours,
            expected=theirs,
        )
        for step, cause, name, ours, theirs in sorted(found, key=_order)
    )


def earliest(candidate: Trace, reference: Trace) -> Divergence | None:
    """Returns the first divergence; None where there is none."""
    return next(iter(divergences(candidate, reference)), None)


def last(candidate: Trace, reference: Trace) -> Divergence | None:
    """Returns the last divergence; None where there is none."""
    return next(reversed(divergences(candidate, reference)), None)


def any_divergence(
    candidate: Trace, reference: Trace, generator: random.Random
) -> Divergence | None:
    """Returns a divergence drawn at random; None where there is none."""
    found = divergences(candidate, reference)
    return generator.choice(found) if found else None


def any_boundary(candidate: Trace, generator: random.Random) -> TraceEvent | None:
    """Returns an executed boundary drawn at random; None where there is none.

    Not a divergence but the control for one.
    """
    return generator.choice(candidate.events) if candidate.events else None


def result_boundary(candidate: Trace) -> TraceEvent | None:
    """Returns the last boundary that returned or printed something, from outermost on.

    To fall back on where a candidate fails a test without a divergence.
    """
    first = candidate.events[0].activation if candidate.events else 0
    for event in reversed(candidate.events):
        names = {name for name, _ in event.values}
        is_result = "<return>" in names and event.activation == first
        if is_result or "<stdout>" in names:
            return event
    return candidate.events[-1] if candidate.events else None


_Found = tuple[int, Cause, str, str, str]
"""Step, cause, name, the candidate's and the reference's value."""


def _order(found: _Found) -> tuple:
    # A branch comes before the values of the same boundary.
    return found[0], found[1] != "branch", found[1:]


def _executions(trace: Trace) -> list[int]:
    counts: Counter[tuple[int, str]] = Counter()
    executions = []
    for event in trace.events:
        counts[event.statement.index, event.kind] += 1
        executions.append(counts[event.statement.index, event.kind])
    return executions


def _divergences_in_functions(candidate: Trace, reference: Trace) -> Iterator[_Found]:
    scopes = matched_scopes(candidate, reference)
    variables: dict[str, dict[str, str]] = {}
    decisions: dict[str, dict[int, int]] = {}
    for ours, theirs in scopes.items():
        aligned = aligned_statements(
            [one for one in candidate.statements if one.scope == ours],
            [one for one in reference.statements if one.scope == theirs],
        )
        variables[ours] = matched_variables(
            histories_of(candidate.events, ours),
            histories_of(reference.events, theirs),
            aligned,
        )
        decisions[ours] = matched_decisions(
            aligned, _outcomes(candidate, ours), _outcomes(reference, theirs)
        )
    pairs = matched_activations(
        activations_of(candidate), activations_of(reference), scopes
    )
    for mine, other in pairs:
        yield from _differing_values(
            _changes(candidate, mine, variables[mine.scope]),
            _changes(reference, other, None),
            is_cut=bool(reference.cut),
        )
        yield from _differing_outcomes(
            _decided(candidate, mine, decisions[mine.scope]),
            _decided(reference, other, None),
        )


def _outcomes(trace: Trace, scope: str) -> dict[int, tuple]:
    """Outcomes of a function's deciding statements, one after the other."""
    found: dict[int, list] = {}
    for event in trace.events:
        if event.scope == scope and event.kind in DECIDING_KINDS:
            found.setdefault(event.statement.index, []).append(event.branch)
    return {index: tuple(outcomes) for index, outcomes in found.items()}


_Sequences = dict[str | int, list[tuple[int, str]]]
"""For each variable, effect or statement: (step, value), one after the other."""


def _changes(
    trace: Trace, activation: Activation, names: dict[str, str] | None
) -> _Sequences:
    """Values of variables and effects in one execution, by the reference's names.

    Args:
      trace: Holds the events.
      activation: The execution.
      names: From the trace's own to the reference's; None keeps them.
    """
    found: _Sequences = {}
    for step in activation.events:
        for name, text in trace.events[step].values:
            if name == "<stdout>":
                continue
            is_common = names is None or name.startswith("<")
            common = name if is_common else (names or {}).get(name)
            if common is not None:
                found.setdefault(common, []).append((step, text))
    return found


def _differing_values(
    ours: _Sequences, theirs: _Sequences, *, is_cut: bool
) -> Iterator[_Found]:
    for name, sequence in ours.items():
        expected = [text for _, text in theirs.get(name, [])]
        cause = CAUSES.get(str(name), "value")
        # What the reference did after its trace was cut is not known.
        compared = sequence[: len(expected)] if is_cut else sequence
        for index, (step, text) in enumerate(compared):
            other = expected[index] if index < len(expected) else NOTHING
            if text != other:
                yield step, cause, str(name), text, other


def _decided(
    trace: Trace, activation: Activation, indices: dict[int, int] | None
) -> _Sequences:
    """Outcomes in one execution, by the reference's statements."""
    found: _Sequences = {}
    for step in activation.events:
        event = trace.events[step]
        if event.kind not in DECIDING_KINDS:
            continue
        index = event.statement.index
        common = index if indices is None else indices.get(index)
        if common is not None:
            found.setdefault(common, []).append((step, str(event.branch)))
    return found


def _differing_outcomes(ours: _Sequences, theirs: _Sequences) -> Iterator[_Found]:
    for index, sequence in ours.items():
        pairs = zip(sequence, theirs.get(index, []), strict=False)
        for (step, outcome), (_, expected) in pairs:
            if outcome != expected:
                yield step, "branch", "", outcome, expected


def _divergences_in_output(candidate: Trace, reference: Trace) -> Iterator[_Found]:
    """Boundaries that print what the reference does not, in whatever pieces."""
    expected = "".join(text for _, text in _printed(reference.events))
    printed = ""
    for step, text in _printed(candidate.events):
        begin = len(printed)
        printed += text
        if reference.cut and len(printed) > len(expected):
            return
        if not expected.startswith(printed):
            yield step, "output", "", text, expected[begin : begin + len(text)]


def _printed(events: Sequence[TraceEvent]) -> Iterator[tuple[int, str]]:
    for step, event in enumerate(events):
        for name, text in event.values:
            if name == "<stdout>":
                yield step, text
