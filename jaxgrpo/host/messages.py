"""What the scorer and its workers say to each other, and the channel they say it on.

Messages are pickles with their length in front, over a socket pair between two of our
own processes. Nothing that a completion wrote is ever unpickled: it travels as text.
"""

import pickle
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxgrpo.host.records import Completion, Limits, Problem, Score, Verdict

_LENGTH = struct.Struct("!Q")
_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """How workers confine and limit the programs they run."""

    level: str = "auto"
    """`auto` for the best available, or A, B, C, D."""
    minimum_level: str = "B"
    """Refuse to run programs below this level."""
    allow_unsafe: bool = False
    """Permits level D, which stops accidents but no attack."""
    cpu_s: float = 2.0
    """CPU seconds per program."""
    wall_s: float = 10.0
    """Wall-clock seconds per program."""
    memory_bytes: int = 512 * 2**20
    """Bytes of address space per program."""
    output_bytes: int = 2**20
    """Bytes of standard output per program."""
    packages: tuple[str, ...] = ("numpy",)
    """Installed packages that programs may import, loaded before any of them runs."""

    @property
    def limits(self) -> Limits:
        """The limits as programs carry them."""
        return Limits(
            cpu_s=self.cpu_s,
            wall_s=self.wall_s,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first message to a worker."""

    rewards: tuple[str, ...]
    """Names, in config order."""
    deadline_s: float
    """Seconds that one job may take."""
    sandbox: SandboxSettings
    parent_pid: int
    """The worker ends when this is no longer its parent."""
    extraction: str = "last_block"
    """Rule by which programs are found in texts."""
    stops_at_failure: bool = False
    """Whether tests are left out after the first that did not pass."""
    cpu: int | None = None
    """Processor core for the worker's programs; None leaves it to the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first message from a worker: it is loaded and takes jobs."""

    at_s: float
    """Reading of the machine's monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One group to score."""

    id: int
    problem: Problem
    completions: tuple[Completion, ...]
    verdicts: tuple[Verdict | None, ...]
    """Aligned with `completions`; None where the judge is to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The scores of one job."""

    id: int
    scores: tuple[Score, ...]
    sandbox_level: str = ""
    """Level of the worker's sandbox; empty while it has none."""
    at_s: float
    """Reading of the machine's monotonic clock when the job ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A worker will run no program: no permitted sandbox can be had here."""

    reason: str
    """What is missing, and how to get it."""
    at_s: float
    """Reading of the machine's monotonic clock."""


class Channel:
    """One end of a socket pair that carries whole messages and never blocks.

    What the socket does not take at once is kept and sent by later calls, so that two
    ends which both send cannot wait for each other.

    Args:
      end: A connected stream socket; the channel owns it from now on.
    """

    def __init__(self, end: socket.socket):
        self._socket = end
        self._socket.setblocking(False)
        self._outbox = bytearray()
        self._inbox = bytearray()
        self.is_closed = False
        """True once the other end is gone, or `close` was called."""

    def fileno(self) -> int:
        """Returns the socket's descriptor, or -1 after `close`."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` has something left to send."""
        return bool(self._outbox)

    @property
    def poll_events(self) -> int:
        """What to poll the descriptor for."""
        return select.POLLIN | (select.POLLOUT if self._outbox else 0)

    def send(self, message: object) -> None:
        """Sends a message, as far as the socket takes it; see `flush`."""
        payload = pickle.dumps(message, protocol=5)
        self._outbox += _LENGTH.pack(len(payload))
        self._outbox += payload
        self.flush()

    def flush(self) -> None:
        """Sends more of what is left of earlier messages."""
        sent = 0
        try:
            while sent < len(self._outbox):
                with memoryview(self._outbox) as view:
                    sent += self._socket.send(view[sent : sent + _CHUNK_BYTES])
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True
        del self._outbox[:sent]

    def receive(self) -> list[tuple[Any, int]]:
        """Returns the messages that have arrived, each with its size in bytes."""
        try:
            while chunk := self._socket.recv(_CHUNK_BYTES):
                self._inbox += chunk
            self.is_closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True
        return list(self._whole_messages())

    def _whole_messages(self) -> Iterator[tuple[Any, int]]:
        position = 0
        while len(self._inbox) - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._inbox, position)
            start = position + _LENGTH.size
            if len(self._inbox) < start + size:
                break
            yield pickle.loads(self._inbox[start : start + size]), size
            position = start + size
        del self._inbox[:position]

    def wait(self, timeout_s: float) -> None:
        """Returns when there is something to receive or send, or at the time-out."""
        poll = select.poll()
        poll.register(self._socket, self.poll_events)
        poll.poll(timeout_s * 1e3)

    def close(self) -> None:
        """Closes the socket; the other end sees it."""
        self.is_closed = True
        self._socket.close()
