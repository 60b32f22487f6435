"""From places in a program's source to characters of the text that it came from."""

import re
from collections.abc import Sequence

from jaxgrpo.host.records import ExceptionInfo, Span
from jaxgrpo.host.trace_records import Statement

LINE_END = re.compile(r"\r\n|\n|\r")


def line_starts(source: str, start: int = 0) -> tuple[int, ...]:
    r"""Returns the character at which each line of a program begins in its text.

    Lines end as Python ends them: at `\n`, `\r\n` and `\r`, not at form feeds and the
    like. For programs that stand in their text as they are; where lines were changed,
    as when an indented block is moved to the margin, whoever did it knows the starts.

    Args:
      source: The program.
      start: Character of the text at which it begins.

    Example:
      >>> line_starts("a\r\nb\x0cc\nd", start=10)
      (10, 13, 17)
    """
    ends = (match.end() for match in LINE_END.finditer(source))
    return (start, *(start + end for end in ends))


def statement_span(
    statement: Statement, starts: Sequence[int], label: str = ""
) -> Span:
    """Returns the characters of a statement; of a compound one, those of its header.

    Args:
      statement: Of a trace.
      starts: Character of the text at which each line of the program begins.
      label: Of the span; the statement's kind where it is empty.
    """
    return Span(
        start=starts[statement.line - 1] + statement.column,
        end=starts[statement.end_line - 1] + statement.end_column,
        label=label or statement.kind,
    )


def exception_span(
    exception: ExceptionInfo, starts: Sequence[int], end: int
) -> Span | None:
    """Returns what Python blames for an exception: for most, a whole line.

    Args:
      exception: Of the program.
      starts: Character of the text at which each line of the program begins.
      end: Character of the text at which the program ends.

    Returns:
      A span of at least one character, or None where no line is known.
    """
    if exception.line is None or not 0 < exception.line <= len(starts):
        return None
    bounds = (*starts, end)
    line_start, line_end = bounds[exception.line - 1], bounds[exception.line]
    first, final = line_start, line_end
    if exception.column is not None:
        first = min(line_start + exception.column, max(line_start, end - 1))
    if exception.end_line is not None and exception.end_column is not None:
        if 0 < exception.end_line <= len(starts):
            final = min(starts[exception.end_line - 1] + exception.end_column, end)
    if final <= first:
        final = first + 1
    return Span(start=first, end=final, label=exception.type_name)
