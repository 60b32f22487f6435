"""From what a traced child wrote to traces. Nothing the child wrote is trusted.

Whoever ran there could also write there, so a trace is data about a program, never
evidence for it: rewards must not rest on it alone.
"""

import json
from dataclasses import replace

from jaxgrpo.host.sandbox.tracing.region import lines_in
from jaxgrpo.host.trace_records import Statement, Trace, TraceCut, TraceEvent

CUTS: dict[str, TraceCut] = {"": "", "bytes": "bytes", "source": "source"}
"""Reasons that the child itself can tell for its memory as a whole."""
MAX_NAME_CHARACTERS = 200
MAX_PLACE = 1 << 31
KINDS = frozenset(
    "assign assert branch break call continue definition delete except expression "
    "import loop match pass raise return with yield".split()
)
"""Of statements and of events; see `tracing/statements.py`."""


class NotATraceError(ValueError):
    """A line that no recorder writes."""


def traces_of(content: bytes, num_traces: int) -> tuple[Trace, ...]:
    """The traces in a child's memory, as many as there should be.

    What comes after the first line that no recorder writes is left out. A trace that
    was never begun is an empty one, cut for the reason for which the last one was.

    Args:
      content: Of the memory, whatever is in it.
      num_traces: One per call.
    """
    lines, reason = lines_in(content)
    cut = CUTS[reason]
    reading = _Reading()
    try:
        for line in lines:
            reading.take(json.loads(line))
    except (ValueError, TypeError, KeyError, RecursionError):
        cut = "broken"
    found = reading.traces[:num_traces]
    missing = Trace(statements=reading.statements, cut=cut or "not begun")
    if found and cut and found[-1].cut in ("", "stopped"):
        found[-1] = replace(found[-1], cut=cut)
    return (*found, *[missing] * (num_traces - len(found)))


class _Reading:
    """Takes lines in their order."""

    def __init__(self) -> None:
        self.statements: tuple[Statement, ...] = ()
        self._by_number: dict[int, Statement] = {}
        self._scopes: dict[int, str] = {}
        self._finished: list[Trace] = []
        self._events: list[TraceEvent] = []
        self._cut: TraceCut = ""
        self._has_begun = self._has_ended = False

    @property
    def traces(self) -> list[Trace]:
        """Those taken so far, the one at hand included."""
        if not self._has_begun:
            return []
        cut: TraceCut = self._cut or ("" if self._has_ended else "stopped")
        last = Trace(statements=self.statements, events=tuple(self._events), cut=cut)
        return [*self._finished, last]

    def take(self, line: object) -> None:
        """Takes one line: the statements, a trace's beginning or end, or an event."""
        if line == "begin":
            self._finished = self.traces
            self._events, self._cut = [], ""
            self._has_begun, self._has_ended = True, False
        elif line == "end":
            self._has_ended = True
        elif line == "cut":
            self._cut = "events"
        elif not isinstance(line, list):
            raise NotATraceError("not a list")
        elif not self._by_number:
            self._take_statements(line)
        elif len(line) == 2:
            self._scopes[_number(line[0])] = _name(line[1])
        else:
            self._events.append(self._event(*line))

    def _take_statements(self, rows: list) -> None:
        numbers = [_number(row[0]) for row in rows]
        statements = [_statement(index, *row[1:]) for index, row in enumerate(rows)]
        self._by_number = dict(zip(numbers, statements, strict=True))
        self.statements = tuple(statements)

    def _event(
        self, number: int, kind: str, activation: int, branch: object, values: list
    ) -> TraceEvent:
        statement = self._by_number[_number(number)]
        kind = kind or statement.kind
        if kind not in KINDS or not (branch is None or isinstance(branch, bool)):
            raise NotATraceError("not an event")
        return TraceEvent(
            statement=statement,
            kind=kind,
            activation=_number(activation),
            scope=self._scopes[activation],
            branch=branch,
            values=tuple((_name(name), _text(text)) for name, text in values),
        )


def _statement(index: int, *row: object) -> Statement:
    line, column, end_line, end_column, kind, scope, shape = row
    if kind != "" and kind not in KINDS:
        raise NotATraceError("not a kind of statement")
    place = [_number(part) for part in (line, column, end_line, end_column)]
    if place[0] < 1 or (place[0], place[1]) > (place[2], place[3]):
        raise NotATraceError("not a place")
    return Statement(
        index=index,
        line=place[0],
        column=place[1],
        end_line=place[2],
        end_column=place[3],
        kind=_text(kind),
        scope=_text(scope),
        shape=_text(shape),
    )


def _number(found: object) -> int:
    if type(found) is not int or not 0 <= found < MAX_PLACE:
        raise NotATraceError("not a number")
    return found


def _name(found: object) -> str:
    if not isinstance(found, str) or not 0 < len(found) <= MAX_NAME_CHARACTERS:
        raise NotATraceError("not a name")
    return found


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise NotATraceError("not a text")
    return found
