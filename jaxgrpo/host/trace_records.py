"""What a traced program did, boundary by boundary: plain, frozen records."""

from dataclasses import dataclass
from typing import Literal

TraceCut = Literal["", "events", "bytes", "source", "broken", "not begun", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of a traced program: where a boundary can be."""

    index: int
    """In the order of the source."""
    line: int
    """1-based, as the source was handed in."""
    column: int
    """0-based character of the line. A compound statement is its header alone."""
    end_line: int
    end_column: int
    kind: str
    """assign, branch, loop, return, call ...; empty where nothing happens by itself."""
    scope: str
    """Functions and classes around it, dotted: `<module>`, `f`, `A.m`."""
    shape: str
    """Its syntax without names, constants and operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """A boundary: one execution of a statement, with what it did."""

    statement: Statement
    kind: str
    """The statement's, or `yield`, or `call`: arguments have been passed by it."""
    activation: int
    """Which execution of a function it belongs to: 0 for the first one traced. Of a
    `call`, the one that it began."""
    scope: str
    """The function of that activation, as in `Statement.scope`."""
    branch: bool | None = None
    """Outcome of a branch, loop or assert; None where there is none."""
    values: tuple[tuple[str, str], ...] = ()
    """(name, canonical value) of the variables that have changed since the activation's
    boundary before; also `<return>`, `<yield>`, `<raise>` (type), `<stdout>`, and
    `<unseen>` behind it: how many bytes it printed besides, and their checksum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a program did, boundary by boundary, in the order in which they were done.

    Written in the program's own process, which can forge it: data, and no ground for a
    reward by itself.
    """

    statements: tuple[Statement, ...] = ()
    events: tuple[TraceEvent, ...] = ()
    cut: TraceCut = ""
    """Why it is not the whole: the largest number of events or bytes was reached, the
    source could not be prepared, what the child wrote is broken, it never begun, or the
    program was stopped, crashed, or ended itself or its trace before its end."""
