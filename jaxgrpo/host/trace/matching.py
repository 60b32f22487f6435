"""Which parts of two programs play the same role: functions, statements, variables.

Two programs that differ in names alone, or in the order of statements that do not
depend on each other, match in full; one with a fault still matches around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from jaxgrpo.host.trace_records import Statement, Trace, TraceEvent

DECIDING_KINDS = ("branch", "loop", "assert")
"""Statements with an outcome."""


@dataclass(slots=True, kw_only=True)
class Activation:
    """One execution of a function."""

    scope: str
    arguments: tuple[str, ...] = ()
    """Canonical values that it was called with."""
    events: list[int] = field(default_factory=list)
    """Indices of its events in the trace, its `call` included."""


def activations_of(trace: Trace) -> dict[int, Activation]:
    """The executions of functions in a trace, by number."""
    found: dict[int, Activation] = {}
    for index, event in enumerate(trace.events):
        activation = found.setdefault(event.activation, Activation(scope=event.scope))
        activation.events.append(index)
        if event.kind == "call":
            activation.arguments = tuple(text for _, text in event.values)
    return dict(sorted(found.items()))


def matched_scopes(candidate: Trace, reference: Trace) -> dict[str, str]:
    """The reference's function for each of the candidate's.

    By name; then the first function that ran; then in order of first execution.
    """
    ours = list(dict.fromkeys(event.scope for event in candidate.events))
    theirs = list(dict.fromkeys(event.scope for event in reference.events))
    matched = {scope: scope for scope in ours if scope in theirs}
    ours = [scope for scope in ours if scope not in matched]
    theirs = [scope for scope in theirs if scope not in matched]
    return matched | dict(zip(ours, theirs, strict=False))


def matched_activations(
    candidate: dict[int, Activation],
    reference: dict[int, Activation],
    scopes: dict[str, str],
) -> list[tuple[Activation, Activation]]:
    """Pairs of executions of matched functions.

    Those with equal arguments go together, in order; then the others, in order.
    """
    pairs: list[tuple[Activation, Activation]] = []
    for ours, theirs in scopes.items():
        mine = [a for a in candidate.values() if a.scope == ours]
        rest = [a for a in reference.values() if a.scope == theirs]
        unmatched: list[Activation] = []
        for activation in mine:
            equal = (a for a in rest if a.arguments == activation.arguments)
            if (other := next(equal, None)) is None:
                unmatched.append(activation)
                continue
            pairs.append((activation, other))
            rest.remove(other)
        pairs += zip(unmatched, rest, strict=False)
    return pairs


def aligned_statements(
    candidate: Sequence[Statement], reference: Sequence[Statement]
) -> dict[int, int]:
    """Indices of the reference's statements for indices of the candidate's.

    Aligned by shape, that is without names, constants and operators; between those,
    statements of one kind go together, in order.

    Args:
      candidate: Statements of one function.
      reference: Of the matched one.
    """
    aligned: dict[int, int] = {}
    matcher = SequenceMatcher(
        None,
        [one.shape for one in candidate],
        [one.shape for one in reference],
        autojunk=False,
    )
    for operation, first, last, other_first, other_last in matcher.get_opcodes():
        mine, theirs = candidate[first:last], list(reference[other_first:other_last])
        for one in mine:
            alike = (
                other
                for other in theirs
                if operation == "equal" or other.kind == one.kind
            )
            if (other := next(alike, None)) is not None:
                aligned[one.index] = other.index
                theirs.remove(other)
    return aligned


def matched_decisions(
    aligned: dict[int, int],
    candidate: dict[int, tuple],
    reference: dict[int, tuple],
) -> dict[int, int]:
    """Alignment of deciding statements, crosswise where that explains all outcomes.

    Two statements that changed places are aligned wrongly by their order. Where their
    outcomes all agree when the pairs are crossed, they are.

    Args:
      aligned: By the order of the source.
      candidate: Outcomes of each statement, by index.
      reference: The same of the reference.
    """
    matched = {one: other for one, other in aligned.items() if one in candidate}
    differing = [
        one for one, other in matched.items() if candidate[one] != reference.get(other)
    ]
    theirs = [matched[one] for one in differing]
    crossed: dict[int, int] = {}
    for one in differing:
        equal = (other for other in theirs if reference.get(other) == candidate[one])
        if (other := next(equal, None)) is None:
            continue
        crossed[one] = other
        theirs.remove(other)
    # Only whole exchanges: a single statement with another's outcomes is a fault.
    if {matched[one] for one in crossed} == set(crossed.values()):
        matched |= crossed
    return matched


@dataclass(slots=True, kw_only=True)
class History:
    """What became of one variable of a function, over all its executions."""

    name: str
    values: list[str] = field(default_factory=list)
    """Canonical, one per change."""
    parameter: int = -1
    """Its place among the function's parameters; -1 if it is none."""
    first_statement: int = -1
    """Index of the statement that first set it."""


def histories_of(events: Sequence[TraceEvent], scope: str) -> list[History]:
    """Histories of a function's variables, in the order in which they appear."""
    found: dict[str, History] = {}
    for event in events:
        if event.scope != scope:
            continue
        for place, (name, text) in enumerate(event.values):
            if name.startswith("<"):
                continue
            if name not in found:
                parameter = place if event.kind == "call" else -1
                found[name] = History(name=name, parameter=parameter)
            history = found[name]
            history.values.append(text)
            if history.first_statement < 0:
                history.first_statement = event.statement.index
    return list(found.values())


def matched_variables(
    candidate: Sequence[History],
    reference: Sequence[History],
    aligned: dict[int, int],
) -> dict[str, str]:
    """The reference's variable for each of the candidate's that has one.

    Parameters go together by their place, and nothing else with them. Of the rest,
    equal histories go together first; then those which have the same name or are first
    set by aligned statements, and those with the longer common beginning; two that have
    none of this do not go together. What is still equal, the order of appearance
    decides.

    Args:
      candidate: Of one function.
      reference: Of the matched one.
      aligned: Statements of the two.
    """
    ranked = []
    for rank, ours in enumerate(candidate):
        for other_rank, theirs in enumerate(reference):
            if ours.parameter != theirs.parameter:
                continue
            length = common_length(ours.values, theirs.values)
            is_named_alike = ours.name == theirs.name
            is_set_alike = (
                ours.parameter >= 0
                or aligned.get(ours.first_statement) == theirs.first_statement
            )
            if not (length or is_named_alike or is_set_alike):
                continue
            is_equal = length == len(ours.values) == len(theirs.values)
            order = -abs(rank - other_rank)
            key = (is_equal, is_named_alike + is_set_alike, length, order)
            ranked.append((key, ours.name, theirs.name))
    ranked.sort(key=lambda entry: entry[0], reverse=True)
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for _, name, other in ranked:
        if name not in matched and other not in taken:
            matched[name] = other
            taken.add(other)
    return matched


def common_length(ours: Sequence, theirs: Sequence) -> int:
    """Length of the longest common beginning."""
    length = 0
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            break
        length += 1
    return length
