"""Which boundary of a program's trace is blamed."""

import random
from dataclasses import replace

from jaxgrpo.host.credit.settings import EARLIEST
from jaxgrpo.host.trace import any_boundary, divergences, result_boundary
from jaxgrpo.host.trace_records import Trace, TraceEvent


def blamed_divergence(
    candidate: Trace, reference: Trace, num_lines: int, localization: str
) -> tuple[TraceEvent | None, bool]:
    """Returns the boundary to blame, and whether the programs differ there.

    Where they do not differ at any boundary, it is the one that gave the result.

    Args:
      candidate: Of a program that fails.
      reference: On the same input.
      num_lines: Of the program: tests may stand behind it.
      localization: `earliest` or `last`.
    """
    found = [
        divergence.event
        for divergence in divergences(candidate, reference)
        if is_inside(divergence.event, num_lines)
    ]
    if found:
        return (found[0] if localization == EARLIEST else found[-1]), True
    return result_boundary(_own(candidate, num_lines)), False


def random_boundary(
    candidate: Trace, num_lines: int, generator: random.Random
) -> TraceEvent | None:
    """Returns any boundary of the program's own; None where there is none.

    Args:
      candidate: Of a program that fails.
      num_lines: Of the program.
      generator: Draws.
    """
    return any_boundary(_own(candidate, num_lines), generator)


def is_inside(event: TraceEvent, num_lines: int) -> bool:
    """Returns whether a boundary is the program's own.

    Args:
      event: Of a trace.
      num_lines: Of the program.
    """
    return 0 < event.statement.line <= event.statement.end_line <= num_lines


def _own(trace: Trace, num_lines: int) -> Trace:
    events = tuple(event for event in trace.events if is_inside(event, num_lines))
    return replace(trace, events=events)
