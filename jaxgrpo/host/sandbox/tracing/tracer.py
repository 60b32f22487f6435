"""Runs parts of a program under a recorder."""

import mmap
import os
import sys
import zlib
from types import CodeType

from .hooks import hook_for
from .recorder import Recorder, codes_of
from .region import Region
from .statements import Numbered, numbered

MAX_PRINTED_CHARACTERS = 4096
"""Of what one statement prints; of more, only these are written down, with a mark."""
CHECKED_BYTES = 1 << 16
"""At the end of what is left out, of which the mark has a checksum."""
RECURSION_LIMIT = 5000
"""While the program is read: an expression may nest deeper than calls do."""


class Tracer:
    """Compiles a program so that it can be traced, and traces it on demand.

    Args:
      source: Of a program that has been compiled before.
      memory: Where traces are written, all zero.
      max_events: Largest number of boundaries of each trace.
    """

    def __init__(self, source: bytes, memory: mmap.mmap, max_events: int) -> None:
        self._region = Region(memory)
        self._source = source
        self._max_events = max_events
        self._numbered: Numbered | None = None
        self._recorder: Recorder | None = None
        self._hook = None
        self._printed = Printed()

    def prepared(self, plain: CodeType) -> CodeType:
        """The program to run: traceable, or the plain one where that is not to be had.

        Args:
          plain: The program as compiled from its source.
        """
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
        try:
            found = numbered(self._source)
            program = compile(found.tree, plain.co_filename, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError):
            self._region.cut("source")
            return plain
        finally:
            sys.setrecursionlimit(limit)
        table = [
            (number, *one.place, one.kind, one.scope, one.shape)
            for number, one in found.statements.items()
        ]
        if not self._region.write(table):
            return plain
        self._numbered = found
        self._recorder = Recorder(
            found, self._region, self._max_events, self._printed.text
        )
        self._hook = hook_for(self._recorder, codes_of(program, found))
        return program

    def line_of(self, line: int) -> int | None:
        """The line of the source for a line that Python tells."""
        return line if self._numbered is None else self._numbered.line_of(line)

    def start(self) -> None:
        """Begins a trace of what is called from now on."""
        if self._hook is None or self._recorder is None:
            return
        self._printed.text()
        if self._region.write("begin"):
            self._recorder.begin()
            self._hook.start()

    def stop(self) -> None:
        """Ends the trace, which is whole if the program has come to its end."""
        if self._hook is None or self._recorder is None:
            return
        self._hook.stop()
        if self._recorder.is_done:
            self._region.write("end")


class Printed:
    """Reads what the program has printed, out of the file that takes it."""

    def __init__(self) -> None:
        self._stream = sys.stdout
        self._end = 0

    def text(self) -> tuple[str, str]:
        """What was printed since this was asked last, and a mark of what is too much.

        The mark is empty where nothing is left out.
        """
        try:
            self._stream.flush()
        except Exception:
            return "", ""  # Closed, or full: the program itself will be told.
        start, self._end = self._end, os.lseek(1, 0, os.SEEK_CUR)
        if self._end <= start:
            return "", ""
        size = min(self._end - start, 4 * MAX_PRINTED_CHARACTERS)
        text = os.pread(1, size, start).decode("utf-8", "replace")
        shown = text[:MAX_PRINTED_CHARACTERS]
        if len(shown) == len(text) and start + size == self._end:
            return shown, ""
        num_left = max(0, self._end - start - len(shown.encode()))
        checked = min(num_left, CHECKED_BYTES)
        checksum = zlib.crc32(os.pread(1, checked, self._end - checked))
        return shown, f"{num_left} bytes, checksum {checksum:08x}"
