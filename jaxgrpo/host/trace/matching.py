"""Which parts of two programs play the same role: functions, statements, variables.

Two programs that differ in names alone, or in the order of statements that do not
depend on each other, match in full; one with a fault still matches around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from jaxgrpo.host.trace.equality import folded
from jaxgrpo.host.trace_records import Statement, Trace, TraceEvent

DECIDING_KINDS = ("branch", "loop", "assert")
"""Statements with an outcome."""


@dataclass(slots=True, kw_only=True)
class Activation:
    """One execution of a function."""

    number: int
    scope: str
    arguments: tuple[str, ...] | None = None
    """Values that it was called with; None if it was not called, as a module."""
    returned: str = ""
    """The value that it gave; empty where it gave none."""
    events: list[int] = field(default_factory=list)
    """Indices of its events in the trace, its `call` included."""

    @property
    def is_result(self) -> bool:
        """Whether it is the call that was asked for, and what it returns the result."""
        return self.number == 0 and self.arguments is not None


def activations_of(trace: Trace) -> dict[int, Activation]:
    """The executions of functions in a trace, by number."""
    found: dict[int, Activation] = {}
    for index, event in enumerate(trace.events):
        number = event.activation
        activation = found.setdefault(
            number, Activation(number=number, scope=event.scope)
        )
        activation.events.append(index)
        if event.kind == "call":
            activation.arguments = tuple(folded(text) for _, text in event.values)
        for name, text in event.values:
            if name == "<return>":
                activation.returned = folded(text)
    return dict(sorted(found.items()))


def matched_scopes(candidate: Trace, reference: Trace) -> dict[str, str]:
    """The reference's function for each of the candidate's.

    By name. Of the others, those go together first that take as many arguments, give
    the same for the same arguments, have the same name within another class or
    function, or have statements of the same shapes; what is still equal, the order of
    first execution decides.
    """
    ours, theirs = _functions(candidate), _functions(reference)
    matched = {scope: scope for scope in ours if scope in theirs}
    ranked = []
    for rank, (scope, mine) in enumerate(ours.items()):
        for other_rank, (other_scope, other) in enumerate(theirs.items()):
            if scope in matched or other_scope in matched:
                continue
            shapes = SequenceMatcher(None, mine.shapes, other.shapes, autojunk=False)
            key = (
                mine.num_arguments == other.num_arguments,
                _share(mine.behaviours, other.behaviours),
                scope.rpartition(".")[2] == other_scope.rpartition(".")[2],
                shapes.ratio(),
                -abs(rank - other_rank),
            )
            ranked.append((key, scope, other_scope))
    return matched | best_pairs(ranked)


@dataclass(slots=True, kw_only=True)
class _Function:
    """What is known of a function from its executions."""

    num_arguments: int = -1
    """-1 if it was not called, as a module."""
    behaviours: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    """Arguments with what it gave for them."""
    shapes: list[str] = field(default_factory=list)


def _functions(trace: Trace) -> dict[str, _Function]:
    """The functions that ran, in order of first execution."""
    found: dict[str, _Function] = {}
    for activation in activations_of(trace).values():
        function = found.setdefault(activation.scope, _Function())
        if activation.arguments is not None:
            function.num_arguments = len(activation.arguments)
            if activation.returned:
                function.behaviours.add((activation.arguments, activation.returned))
    for statement in trace.statements:
        if statement.scope in found:
            found[statement.scope].shapes.append(statement.shape)
    return found


def _share(ours: set, theirs: set) -> float:
    return len(ours & theirs) / max(len(ours), len(theirs), 1)


def best_pairs(ranked: list[tuple[tuple, str, str]]) -> dict[str, str]:
    """Returns pairs by falling key, each name once.

    Args:
      ranked: Key, name and the reference's name of each pair that may be.
    """
    ranked.sort(key=lambda entry: entry[0], reverse=True)
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for _, name, other in ranked:
        if name not in matched and other not in taken:
            matched[name] = other
            taken.add(other)
    return matched


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
    """Canonical and folded, one per change."""
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
            history.values.append(folded(text))
            if history.first_statement < 0:
                history.first_statement = event.statement.index
    return list(found.values())


def matched_variables(
    candidate: Sequence[History],
    reference: Sequence[History],
    aligned: dict[int, int],
) -> dict[str, str]:
    """The reference's variable for each of the candidate's that has one.

    Parameters go together by their place, or by their name where they hold the same
    throughout, and nothing else with them. Of the rest, equal histories go together
    before those that have the same name or are first set by aligned statements, but
    not before those with both: short histories are equal by chance. Then those go
    together with the longer common beginning; two that have no name, statement or half
    of a history in common do not. What is still equal, the order of appearance decides.

    Args:
      candidate: Of one function.
      reference: Of the matched one.
      aligned: Statements of the two, of equal shape: what is merely of one kind does
        not set corresponding variables.
    """
    ranked = []
    for rank, ours in enumerate(candidate):
        for other_rank, theirs in enumerate(reference):
            length = common_length(ours.values, theirs.values)
            shortest = min(len(ours.values), len(theirs.values))
            is_equal = length == len(ours.values) == len(theirs.values)
            is_named_alike = ours.name == theirs.name
            is_placed_alike = ours.parameter == theirs.parameter
            is_set_alike = (
                ours.parameter >= 0
                or aligned.get(ours.first_statement) == theirs.first_statement
            )
            if not is_placed_alike and not (
                is_equal and is_named_alike and ours.parameter >= 0 <= theirs.parameter
            ):
                continue
            if not (is_named_alike or is_set_alike or 2 * length > shortest):
                continue
            order = -abs(rank - other_rank)
            likeness = 1.5 * is_equal + is_named_alike + is_set_alike
            key = (likeness, length, order)
            ranked.append((key, ours.name, theirs.name))
    return best_pairs(ranked)


def common_length(ours: Sequence, theirs: Sequence) -> int:
    """Length of the longest common beginning."""
    length = 0
    for one, other in zip(ours, theirs, strict=False):
        if one != other:
            break
        length += 1
    return length
