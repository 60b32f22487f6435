"""What the owner and its zygote say to each other: one request, one reply per program.

Both sides load this file: standard library only. Fixed fields of numbers, because a
decoder of anything richer touches memory that the next child would have to copy.
"""

import struct
from typing import NamedTuple

MESSAGE_BYTES = 1 << 16
KILL = b"\0"
"""Sent instead of a request: end the program that runs. No request begins like it."""
MODES = ("", "main", "calls", "tests", "trace")
KILLERS = ("", "cpu", "wall", "threads", "owner")
"""Who ended a program before its time: nobody, a limit, or the owner."""
FILES: tuple[str, ...] = ("program", "stdin", "stdout", "stderr", "report", "trace")
"""Files that come with a request in this order; the last in mode `trace` only. Behind
them may come a channel."""
PROGRAM, STDIN, STDOUT, STDERR, REPORT, TRACE = range(6)
_REQUEST = struct.Struct("<BBddQQQQQQ")
_REPLY = struct.Struct("<BBiddQ")
MAX_LIMIT = (1 << 62) - 1
"""The kernel takes no larger number for a limit."""


class Request(NamedTuple):
    """One program to run."""

    mode: str
    watches_clock: bool
    """Whether the zygote watches the processor clock of the child."""
    cpu_s: float
    wall_s: float
    cpu_limit_s: int
    """The kernel's own limit, in whole seconds."""
    memory_bytes: int
    file_bytes: int
    """Largest size to which a file can grow."""
    value_bytes: int
    """Largest message of the child."""
    trace_bytes: int = 0
    """Size of the file for the trace; 0 where there is none."""
    trace_events: int = 0

    def packed(self) -> bytes:
        """The request as it is sent."""
        return _REQUEST.pack(
            MODES.index(self.mode),
            self.watches_clock,
            self.cpu_s,
            self.wall_s,
            min(self.cpu_limit_s, MAX_LIMIT),
            min(self.memory_bytes, MAX_LIMIT),
            min(self.file_bytes, MAX_LIMIT),
            min(self.value_bytes, MAX_LIMIT),
            self.trace_bytes,
            self.trace_events,
        )


def unpacked_request(message: bytes) -> Request:
    """The request that was packed."""
    mode, watches_clock, *numbers = _REQUEST.unpack(message)
    return Request(MODES[mode], bool(watches_clock), *numbers)


class Reply(NamedTuple):
    """How a program ended, as the kernel tells it."""

    killer: str = ""
    """One of `KILLERS`."""
    was_started: bool = False
    """Whether the child came as far as to run the program."""
    wait_status: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    max_rss: int = 0
    """In the system's own unit."""
    error: str = ""
    """Why no child was made; empty where one was."""

    def packed(self) -> bytes:
        """The reply as it is sent."""
        head = _REPLY.pack(
            KILLERS.index(self.killer),
            self.was_started,
            self.wait_status,
            self.cpu_s,
            self.wall_s,
            self.max_rss,
        )
        return head + self.error.encode()


def unpacked_reply(message: bytes) -> Reply:
    """The reply that was packed."""
    killer, was_started, status, cpu_s, wall_s, max_rss = _REPLY.unpack_from(message)
    error = message[_REPLY.size :].decode()
    return Reply(
        KILLERS[killer], bool(was_started), status, cpu_s, wall_s, max_rss, error
    )
