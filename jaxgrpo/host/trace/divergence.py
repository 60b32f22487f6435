"""Where a candidate first does something else than the reference.

Both are traced alike on the same input (`Program(mode="trace")`). Compared are, for
each execution of a function and the reference's execution that corresponds to it,

    the values that each variable takes on, one after the other,
    the outcomes of each branch, loop and assert,
    what is returned, yielded and raised,

and what is printed over all. A boundary of the candidate at which any of these is
another than the reference's is a divergence, and so is one at which the candidate
leaves a loop where the reference goes on, or goes on where that leaves it. Variables
correspond by their history and statements by their shape, so that neither other names
nor another order of independent statements is one. Values that are `==` are the same,
whatever their types, but for the result of the outermost function.

Reference:
  EGCA (execution-grounded credit assignment) takes k* = min {k : S_k != S_k^ref}, the
  earliest boundary whose states differ, on the first failing test.
  Differs from it: states are compared variable by variable and execution by execution
  instead of whole and by their number, and a language model has no part in it.
"""

import random
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal

from jaxgrpo.host.trace.attributes import with_common_attributes
from jaxgrpo.host.trace.equality import folded, other_output
from jaxgrpo.host.trace.matching import (
    DECIDING_KINDS,
    activations_of,
    aligned_statements,
    histories_of,
    matched_activations,
    matched_decisions,
    matched_scopes,
    matched_variables,
)
from jaxgrpo.host.trace.negation import negated_branches
from jaxgrpo.host.trace.rounds import Side, left_loops, parted_rounds, runs_of
from jaxgrpo.host.trace_records import Trace, TraceEvent

Cause = Literal["branch", "jump", "value", "return", "yield", "exception", "output"]
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
    """The candidate's value or outcome; of a jump, the kind of statement."""
    expected: str = NOTHING
    """The reference's; empty where it has none."""


def divergences(candidate: Trace, reference: Trace) -> tuple[Divergence, ...]:
    """Returns all divergences in the candidate's order; none between equivalents.

    What lies beyond the end of a trace that was cut is not compared.

    Args:
      candidate: On some input.
      reference: On the same input.
    """
    compared = with_common_attributes(candidate, reference)
    found = [
        *_divergences_in_functions(compared, reference),
        *_divergences_in_output(compared, reference),
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
    # How control goes on comes before the values of the same boundary.
    return found[0], found[1] not in ("branch", "jump"), found[1:]


def _executions(trace: Trace) -> list[int]:
    counts: Counter[tuple[int, str]] = Counter()
    executions = []
    for event in trace.events:
        counts[event.statement.index, event.kind] += 1
        executions.append(counts[event.statement.index, event.kind])
    return executions


def _divergences_in_functions(candidate: Trace, reference: Trace) -> Iterator[_Found]:
    scopes = matched_scopes(candidate, reference)
    pairs = matched_activations(
        activations_of(candidate), activations_of(reference), scopes
    )
    for ours, theirs in scopes.items():
        aligned = aligned_statements(
            [one for one in candidate.statements if one.scope == ours],
            [one for one in reference.statements if one.scope == theirs],
        )
        variables = matched_variables(
            histories_of(candidate.events, ours),
            histories_of(reference.events, theirs),
            _equally_shaped(aligned, candidate, reference),
        )
        decisions = matched_decisions(
            aligned, _outcomes(candidate, ours), _outcomes(reference, theirs)
        )
        executions = [pair for pair in pairs if pair[0].scope == ours]
        negated = negated_branches(candidate, reference, executions, decisions)
        loops, other_loops = (
            left_loops([one for one in trace.statements if one.scope == scope])
            for trace, scope in ((candidate, ours), (reference, theirs))
        )
        for mine, other in executions:
            yield from _divergences_in_executions(
                Side(
                    trace=candidate, activation=mine, names=variables, loops=loops,
                ),
                Side(
                    trace=reference, activation=other, names=None, loops=other_loops,
                ),
                decisions,
                negated,
            )  # fmt: skip


def _divergences_in_executions(
    candidate: Side, reference: Side, decisions: dict[int, int], negated: Set[int]
) -> Iterator[_Found]:
    parted, left_out, other_left_out = parted_rounds(candidate, reference, decisions)
    for one in parted:
        yield one.step, "jump", "", one.found, one.expected
    yield from _differing_values(
        _changes(candidate, left_out),
        _changes(reference, other_left_out),
        is_cut=bool(reference.trace.cut),
        is_result=candidate.activation.is_result,
    )
    yield from _differing_outcomes(
        _decided(candidate, decisions, negated, left_out),
        _decided(reference, None, set(), other_left_out),
    )


def _equally_shaped(
    aligned: dict[int, int], candidate: Trace, reference: Trace
) -> dict[int, int]:
    shapes = {one.index: one.shape for one in candidate.statements}
    others = {one.index: one.shape for one in reference.statements}
    return {
        index: other
        for index, other in aligned.items()
        if shapes[index] == others[other]
    }


def _outcomes(trace: Trace, scope: str) -> dict[int, tuple]:
    """Outcomes of a function's deciding statements, one after the other."""
    found: dict[int, list] = {}
    for event in trace.events:
        if event.scope == scope and event.kind in DECIDING_KINDS:
            found.setdefault(event.statement.index, []).append(event.branch)
    return {index: tuple(outcomes) for index, outcomes in found.items()}


_Sequences = dict[str | tuple[int, int], list[tuple[int, str]]]
"""For each variable, effect or statement: (step, value), one after the other."""


def _changes(side: Side, left_out: Set[int]) -> _Sequences:
    """Values of variables and effects in one execution, by the reference's names."""
    found: _Sequences = {}
    for step in side.activation.events:
        if step in left_out:
            continue
        for name, text in side.trace.events[step].values:
            if name in ("<stdout>", "<unseen>"):
                continue
            common = name if name.startswith("<") else side.common_name(name)
            if common is not None:
                found.setdefault(common, []).append((step, text))
    return found


def _differing_values(
    ours: _Sequences, theirs: _Sequences, *, is_cut: bool, is_result: bool
) -> Iterator[_Found]:
    for name, sequence in ours.items():
        expected = [text for _, text in theirs.get(name, [])]
        cause = CAUSES.get(str(name), "value")
        # What the reference did after its trace was cut is not known.
        compared = sequence[: len(expected)] if is_cut else sequence
        is_strict = is_result and name == "<return>"
        for index, (step, text) in enumerate(compared):
            other = expected[index] if index < len(expected) else NOTHING
            if text != other and (is_strict or folded(text) != folded(other)):
                yield step, cause, str(name), text, other


def _decided(
    side: Side, indices: dict[int, int] | None, negated: Set[int], left_out: Set[int]
) -> _Sequences:
    """Outcomes in one execution, by the reference's statements; of loops, by runs."""
    found: _Sequences = {}
    runs = {
        step: number
        for all_runs in runs_of(side, left_out).values()
        for number, run in enumerate(all_runs)
        for step in run.headers
    }
    for step in side.activation.events:
        event = side.trace.events[step]
        if event.kind not in DECIDING_KINDS or step in left_out:
            continue
        index = event.statement.index
        common = index if indices is None else indices.get(index)
        if common is not None:
            outcome = not event.branch if index in negated else event.branch
            place = common, runs.get(step, 0)
            found.setdefault(place, []).append((step, str(outcome)))
    return found


def _differing_outcomes(ours: _Sequences, theirs: _Sequences) -> Iterator[_Found]:
    for index, sequence in ours.items():
        pairs = zip(sequence, theirs.get(index, []), strict=False)
        for (step, outcome), (_, expected) in pairs:
            if outcome != expected:
                yield step, "branch", "", outcome, expected


def _divergences_in_output(candidate: Trace, reference: Trace) -> Iterator[_Found]:
    for step, text, expected in other_output(candidate, reference):
        yield step, "output", "", text, expected
