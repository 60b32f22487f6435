"""The channel on which our processes talk to each other.

Messages are pickles with their length in front, over a socket pair between two of our
own processes. Nothing that a completion wrote is ever unpickled: it travels as text.
"""

import pickle
import select
import socket
import struct
from collections.abc import Iterator
from typing import Any

_LENGTH = struct.Struct("!Q")
_CHUNK_BYTES = 1 << 18


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
