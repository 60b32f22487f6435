"""Loops that one program leaves while the other goes on.

A loop is compared run by run: the first time that it is entered in an execution of a
function with the reference's first time, and so on. Where one of the two leaves it by
`break` and the other goes on, their statements cannot be aligned any more. That is a
divergence, unless it makes no difference: when both are through with the loop, all
variables are the same, but for those that `for` loops count on. Then the rounds which
one of them has more are left out.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from jaxgrpo.host.trace.equality import folded
from jaxgrpo.host.trace.matching import Activation
from jaxgrpo.host.trace_records import Statement, Trace, TraceEvent

LOOP_SHAPES = ("For(", "AsyncFor(", "While(")
EMPTY_KINDS = ("continue", "pass")
"""Statements that only say how control goes on."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One execution of a loop from its first round on."""

    headers: list[int] = field(default_factory=list)
    """Steps at which it was decided whether there is another round."""
    end: int = -1
    """Step at which it ended: a header or a `break`; -1 where it did neither."""
    is_broken: bool = False
    """Whether it ended by `break`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One execution of a function by one of the two programs."""

    trace: Trace
    activation: Activation
    names: dict[str, str] | None
    """From its variables to the reference's; None keeps them."""
    loops: dict[int, int]
    """Of each `break`, the loop that it leaves, both as indices of statements."""

    def common_name(self, name: str) -> str | None:
        """The reference's name for a variable; None where it has none."""
        return name if self.names is None else self.names.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two executions of loops part."""

    step: int
    """Of the candidate."""
    found: str
    """What kind of statement it comes to."""
    expected: str
    """What kind the reference does."""


def left_loops(statements: Sequence[Statement]) -> dict[int, int]:
    """Returns the loop that each `break` leaves, both as indices of statements.

    Args:
      statements: Of a trace. By their columns they are inside each other.
    """
    found: dict[int, int] = {}
    for place, statement in enumerate(statements):
        if statement.kind != "break":
            continue
        column = statement.column
        for other in reversed(statements[:place]):
            if other.scope != statement.scope or other.column >= column:
                continue
            column = other.column
            if other.shape.startswith(LOOP_SHAPES):
                found[statement.index] = other.index
                break
    return found


def runs_of(side: Side, left_out: Set[int]) -> dict[int, list[Run]]:
    """Returns the executions of each loop, by index of its statement.

    Args:
      side: One execution of a function.
      left_out: Steps of it that are not looked at.
    """
    runs: dict[int, list[Run]] = {}
    entered: list[int] = []

    def leave(loop: int, step: int, *, is_broken: bool) -> None:
        runs[loop][-1].end, runs[loop][-1].is_broken = step, is_broken
        del entered[entered.index(loop) :]

    for step in side.activation.events:
        event = side.trace.events[step]
        index = event.statement.index
        if step in left_out:
            continue
        if event.kind == "loop":
            if index not in entered:
                entered.append(index)
                runs.setdefault(index, []).append(Run())
            del entered[entered.index(index) + 1 :]
            runs[index][-1].headers.append(step)
            if not event.branch:
                leave(index, step, is_broken=False)
        elif event.kind == "break" and side.loops.get(index) in entered:
            leave(side.loops[index], step, is_broken=True)
    return runs


def parted_rounds(
    candidate: Side, reference: Side, matched: dict[int, int]
) -> tuple[list[Difference], set[int], set[int]]:
    """Returns where loops part, and the steps of either that make no difference.

    Args:
      candidate: An execution of a function.
      reference: The corresponding one.
      matched: Indices of the reference's statements for the candidate's.
    """
    differences: list[Difference] = []
    left_out: set[int] = set()
    other_left_out: set[int] = set()
    if not (candidate.loops or reference.loops):
        return differences, left_out, other_left_out
    counted = _counted(candidate) | _counted(reference)
    runs, other_runs = runs_of(candidate, left_out), runs_of(reference, other_left_out)
    # What is outside comes first in the source.
    for index in sorted(matched):
        has_left_out = False
        pairs = zip(
            runs.get(index, []), other_runs.get(matched[index], []), strict=False
        )
        for ours, theirs in pairs:
            parting = _parting(candidate, reference, ours, theirs)
            if parting is None:
                continue
            states = _state(candidate, ours), _state(reference, theirs)
            if not _agree(*states, counted):
                differences.append(parting)
                continue
            has_left_out = True
            left_out |= _rounds_after(candidate, ours, len(theirs.headers))
            other_left_out |= _rounds_after(reference, theirs, len(ours.headers))
        if has_left_out:
            runs = runs_of(candidate, left_out)
            other_runs = runs_of(reference, other_left_out)
    return differences, left_out, other_left_out


def _parting(
    candidate: Side, reference: Side, ours: Run, theirs: Run
) -> Difference | None:
    for side, run in ((candidate, ours), (reference, theirs)):
        if side.trace.cut and run.end < 0:
            return None
    number, other_number = len(ours.headers), len(theirs.headers)
    if ours.is_broken and number < other_number:
        return Difference(step=ours.end, found="break", expected="loop")
    if theirs.is_broken and other_number < number:
        step = ours.headers[other_number]
        before = [one for one in candidate.activation.events if one < step][-1]
        if candidate.trace.events[before].kind in EMPTY_KINDS:
            step = before
        found = candidate.trace.events[step].kind
        return Difference(step=step, found=found, expected="break")
    return None


def _state(side: Side, run: Run) -> dict[str, str] | None:
    """Values of variables at the end of a loop, by the reference's names."""
    if run.end < 0:
        return None
    state: dict[str, str] = {}
    for step in side.activation.events:
        if step <= run.end:
            state |= _named_values(side, side.trace.events[step])
    return state


def _agree(
    ours: dict[str, str] | None, theirs: dict[str, str] | None, counted: Set[str]
) -> bool:
    if ours is None or theirs is None:
        return False
    common = (ours.keys() & theirs.keys()) - counted
    return all(ours[name] == theirs[name] for name in common)


def _counted(side: Side) -> set[str]:
    """Variables that `for` loops set."""
    return {
        name
        for step in side.activation.events
        if side.trace.events[step].statement.shape.startswith(("For(", "AsyncFor("))
        for name in _named_values(side, side.trace.events[step])
    }


def _named_values(side: Side, event: TraceEvent) -> dict[str, str]:
    return {
        common: folded(text)
        for name, text in event.values
        if not name.startswith("<") and (common := side.common_name(name)) is not None
    }


def _rounds_after(side: Side, run: Run, number: int) -> set[int]:
    """Steps of a loop from a round on, its end included."""
    if number >= len(run.headers) or run.end < 0:
        return set()
    first = run.headers[number]
    return {step for step in side.activation.events if first <= step <= run.end}
