"""Where a syntax error stands, in characters of the program.

Loaded by the zygote: standard library only. Python counts columns in several ways. The
parser counts characters of `error.text` if it was given text, bytes if it was given
bytes (before 3.13). With a string over several lines this text begins lines before the
error's own. In 3.11 an error within an f-string has another text altogether. What is
found after parsing, such as a `return` outside a function, is placed in bytes of UTF-8.
"""

import ast
import re
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r")
_STRING_START = re.compile(r"""[A-Za-z]{0,2}['"]""")
_BLANKS = " \t\f"
"""Other white space is an error of its own."""
_NO_FILE = "<program>"
"""Python takes the line that it shows from a file of this name, if there is one."""


class Place(NamedTuple):
    """As in `records.ExceptionInfo`: lines from 1, columns from 0, in characters."""

    line: int | None
    end_line: int | None = None
    column: int | None = None
    """None for the line's beginning."""
    end_column: int | None = None
    """None for the line's end."""


def syntax_place(error: SyntaxError, source: str) -> Place:
    r"""Returns what to blame for a syntax error.

    Where Python points at no character that is there, as at the end of a line or of the
    program, that is the last line with something in it; where it points at the quote
    that begins a string, the rest of its line.

    Args:
      error: From compiling the program, in whatever form.
      source: The program as text.

    Example:
      >>> try:
      ...     compile("s = 'é' + ; t".encode(), "solution.py", "exec")
      ... except SyntaxError as error:
      ...     syntax_place(error, "s = 'é' + ; t")
      Place(line=1, end_line=1, column=10, end_column=11)
    """
    lines = _LINE_END.split(source)
    if error.lineno is None or not 0 < error.lineno <= len(lines):
        return Place(error.lineno)
    found, is_parsed = _found_in_text(source)
    if found is None or (found.lineno, found.msg) != (error.lineno, error.msg):
        # It depends on the encoding, which text does not have.
        return _whole_line(lines, error.lineno)
    return _place(found, lines, error.lineno, is_parsed=is_parsed)


def _place(
    error: SyntaxError, lines: list[str], line: int, *, is_parsed: bool
) -> Place:
    text = None if is_parsed else error.text or ""
    shown = lines[line - 1]
    if not error.offset or (text is not None and shown not in text.split("\n")):
        return _whole_line(lines, line)
    column = _column(error.offset, text, shown)
    end_line, end_offset = error.end_lineno or line, error.end_offset or 0
    if line < end_line <= len(lines):
        # The parser cuts ends off that are farther right than its text is long.
        is_cut = end_offset < 1 or (text is not None and end_offset > len(text))
        last = lines[end_line - 1]
        end_column = len(last) if is_cut else _column(end_offset, text, last)
        return Place(line, end_line, column, end_column)
    end_column = _column(end_offset, text, shown) if end_offset > 0 else None
    if end_column is not None and end_column <= column:
        starts_string = _STRING_START.match(shown, column)
        end_column = None if starts_string else column + 1
    if not shown[column:end_column].strip(_BLANKS):
        return _whole_line(lines, line)
    return Place(line, line, column, end_column)


def _found_in_text(source: str) -> tuple[SyntaxError | None, bool]:
    """The error from compiling text, and whether it comes after parsing."""
    is_parsed = False
    try:
        compile(source, _NO_FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        is_parsed = True
        compile(source, _NO_FILE, "exec", dont_inherit=True)
    except SyntaxError as error:
        return error, is_parsed
    except (ValueError, RecursionError, MemoryError):
        pass
    return None, is_parsed


def _column(offset: int, text: str | None, line: str) -> int:
    """The character of a line that an offset means; `text` as told, None for bytes."""
    num_bytes = offset - 1
    if text is not None:
        # Of the character there, the last byte: Python rounds up.
        num_bytes = len(text[:offset].ljust(offset).encode()) - 1
    return len(line.encode()[:num_bytes].decode(errors="ignore"))


def _whole_line(lines: list[str], line: int) -> Place:
    while line > 1 and not lines[line - 1].strip(_BLANKS):
        line -= 1
    return Place(line, line)
