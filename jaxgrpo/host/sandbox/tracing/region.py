"""The memory in which a trace is written while it grows.

Shared with the owner, so that it is there whatever becomes of the program. Lines of
JSON after a header; the header is written last, so that no line is half there.
"""

import json
import mmap
import struct
from collections.abc import Iterator

HEADER = struct.Struct("<II")
"""Bytes used, and why the trace ended early (an index of CUTS)."""
CUTS = ("", "bytes", "source")
"""It did not; there was no more room; the program could not be made ready."""


class Region:
    """Writes lines until there is no room.

    Args:
      memory: Of any size, at first all zero.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._end = HEADER.size
        self._cut = 0

    def write(self, line: object) -> bool:
        """Adds a line of plain data; False where it or one before it did not fit."""
        if self._cut:
            return False
        text = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
        end = self._end + len(text)
        if end > len(self._memory):
            self.cut("bytes")
            return False
        self._memory[self._end : end] = text
        self._end = end
        self._write_header()
        return True

    def cut(self, reason: str) -> None:
        """Notes why there will be no more."""
        self._cut = CUTS.index(reason)
        self._write_header()

    def _write_header(self) -> None:
        HEADER.pack_into(self._memory, 0, self._end, self._cut)


def lines_in(content: bytes) -> tuple[Iterator[bytes], str]:
    """The lines of a region, and why there are no more. Nothing in them is trusted.

    Args:
      content: The whole region.
    """
    end, cut = HEADER.unpack_from(content)
    if not (HEADER.size <= end <= len(content) and cut < len(CUTS)):
        return iter(()), ""
    return iter(content[HEADER.size : end].split(b"\n")[:-1]), CUTS[cut]
