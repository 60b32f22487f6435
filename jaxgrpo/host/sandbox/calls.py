"""The owner's side of mode `calls`: one call at a time, one plain value back each."""

import json
import math
import socket
import struct
import time
from collections.abc import Callable

from jaxgrpo.host.records import (
    Call,
    CallResult,
    ExceptionInfo,
    Execution,
    ExecutionStatus,
    Limits,
    Program,
)
from jaxgrpo.host.sandbox import plain_data
from jaxgrpo.host.sandbox.outcome import exception_of, text_of
from jaxgrpo.host.sandbox.owner import RunFiles

FRAME_HEADER = struct.Struct("<I")
READ_BYTES = 1 << 16
TIMEVAL = struct.Struct("@ll")
"""`struct timeval` of the C library."""
FRAME_OVERHEAD_BYTES = 4096
"""Beyond the value itself: the reply's other fields, an exception's message."""
MAX_ARGUMENT_BYTES = 64 * 2**20


class BrokenFrameError(ValueError):
    """The child sent something that is no reply."""


class ChannelEndedError(RuntimeError):
    """The child is gone, or the time is up."""


def encoded_calls(calls: tuple[Call, ...]) -> list[bytes]:
    """The calls as frames to send.

    Raises:
      ValueError: An argument is not plain data.
    """
    frames = []
    for index, call in enumerate(calls):
        try:
            frames.append(encoded_call(call))
        except plain_data.NotPlainDataError as error:
            raise ValueError(
                f"arguments of call {index} ({call.function}): {error}. "
                f"Use None, bool, numbers, str, bytes and containers of them."
            ) from None
    return frames


def encoded_call(call: Call) -> bytes:
    """A call as a frame to send.

    Raises:
      NotPlainDataError: An argument is not plain data.
    """
    tagger = plain_data.Tagger(MAX_ARGUMENT_BYTES)
    message = (
        call.function,
        call.is_drained,
        call.returns_arguments,
        tagger.tagged(list(call.arguments)),
        tagger.tagged(dict(call.keywords)),
    )
    frame = plain_data.ENCODER.encode(message).encode("ascii")
    if len(frame) > MAX_ARGUMENT_BYTES:
        raise plain_data.TooMuchDataError(f"more than {MAX_ARGUMENT_BYTES} bytes")
    return frame


class Exchange:
    """The owner's end of a child's channel: sends a frame, waits for the answer."""

    def __init__(
        self, channel: socket.socket, files: RunFiles, limits: Limits, grace_s: float
    ) -> None:
        self.channel = channel
        self.files = files
        self.limits = limits
        self.deadline = time.monotonic() + limits.wall_s + grace_s
        self.results: list[CallResult] = []
        self.is_loaded = False
        """Whether the program's top level ran to its end."""
        self.is_broken = False
        """Whether the child broke the protocol."""
        self.has_ended = False
        """Whether the child went away, or the time was up, before its turn ended."""
        self._num_shown_bytes = 0
        self._inbox = b""
        # The kernel's own time-outs: Python's would ask for each message twice, whether
        # it is there and then for itself.
        timeout = TIMEVAL.pack(math.ceil(limits.wall_s + grace_s), 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            channel.setsockopt(socket.SOL_SOCKET, option, timeout)

    def run(self, script: "Callable[[Exchange], object]") -> None:
        """Waits until the child is loaded, then follows a script.

        Returns when the script does, the child ends or it breaks the rules.
        """
        try:
            self.load()
            script(self)
        except BrokenFrameError:
            self.is_broken = True
        except ChannelEndedError:
            return

    def load(self) -> None:
        """Waits until the child says that it is ready for the first frame."""
        if self.receive() != {}:
            raise BrokenFrameError("the child spoke before its turn")
        self.is_loaded = True
        self._num_shown_bytes = self.files.size("stdout")

    def make_calls(self, frames: list[bytes]) -> None:
        """Makes calls one after the other.

        The child is at the next call while the last one's answer is looked at.
        """
        for index, frame in enumerate(frames):
            if index == 0:
                self.send(frame)
            answer = self._receive_bytes(extra_bytes=len(frame))
            sizes = self._file_sizes()
            if index + 1 < len(frames):
                self.send(frames[index + 1])
            self._keep_result(answer, sizes)

    def call(self, frame: bytes) -> CallResult:
        """Makes one call and keeps its result.

        Args:
          frame: From `encoded_call`.
        """
        self.send(frame)
        # Arguments that come back are about as large as they were sent.
        answer = self._receive_bytes(extra_bytes=len(frame))
        return self._keep_result(answer, self._file_sizes())

    def _file_sizes(self) -> tuple[int, int]:
        """Bytes printed so far, on standard output and on standard error."""
        return self.files.size("stdout"), self.files.size("stderr")

    def _keep_result(self, answer: bytes, sizes: tuple[int, int]) -> CallResult:
        reply = decoded(answer)
        status, value, exception, arguments = "OK", None, None, None
        if "error" in reply:
            status, exception = error_of(reply["error"])
        else:
            value = plain_value(reply, "value")
        if "arguments" in reply:
            arguments = plain_value(reply, "arguments")
            if not isinstance(arguments, list):
                raise BrokenFrameError("arguments that are no list")
        stdout = self._stdout_until(sizes[0])
        if max(sizes) > self.limits.output_bytes:
            status, value = "OLE", None
        result = CallResult(
            status=status,
            value=value,
            exception=exception,
            stdout=stdout,
            cpu_s=min(seconds(reply.get("cpu_s")), self.limits.cpu_s),
            arguments=None if arguments is None else tuple(arguments),
        )
        self.results.append(result)
        return result

    def _stdout_until(self, end: int) -> str:
        """What the child has printed since this was asked last."""
        shown_end = min(end, self.limits.output_bytes)
        text = text_of(self.files.content("stdout", self._num_shown_bytes, shown_end))
        self._num_shown_bytes = end
        return text

    def receive(self) -> dict:
        """The next message of the child."""
        return decoded(self._receive_bytes())

    def _receive_bytes(self, extra_bytes: int = 0) -> bytes:
        """The next message as it comes.

        Args:
          extra_bytes: Size that is allowed beyond that of a value.
        """
        content = self._inbox
        while len(content) < FRAME_HEADER.size:
            content += self._read()
        (size,) = FRAME_HEADER.unpack_from(content)
        if size > self.limits.output_bytes + FRAME_OVERHEAD_BYTES + extra_bytes:
            raise BrokenFrameError(f"a frame of {size} bytes")
        end = FRAME_HEADER.size + size
        if len(content) < end:
            pieces, missing = [content], end - len(content)
            while missing > 0:
                pieces.append(self._read())
                missing -= len(pieces[-1])
            content = b"".join(pieces)
        self._inbox = content[end:]
        return content[FRAME_HEADER.size : end]

    def _read(self) -> bytes:
        """Some bytes of the channel, at least one."""
        try:
            piece = self.channel.recv(READ_BYTES)
        except OSError as error:
            raise self._end(str(error)) from None
        if not piece:
            raise self._end("the child closed its channel")
        if time.monotonic() > self.deadline:
            raise self._end("the time is up")
        return piece

    def send(self, frame: bytes) -> None:
        """Sends one message."""
        try:
            self.channel.sendall(FRAME_HEADER.pack(len(frame)) + frame)
        except OSError as error:
            raise self._end(str(error)) from None

    def _end(self, reason: str) -> ChannelEndedError:
        self.has_ended = True
        return ChannelEndedError(reason)


def decoded(message: bytes) -> dict:
    """A message of the child; its content is still to be checked."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        raise BrokenFrameError("not JSON") from None
    if not isinstance(found, dict):
        raise BrokenFrameError("not an object")
    return found


def plain_value(reply: dict, name: str) -> object:
    """A value that came with a message, rebuilt as plain data."""
    try:
        return plain_data.untagged(reply[name])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BrokenFrameError(f"not a value: {error}") from None


def error_of(found: object) -> tuple[ExecutionStatus, ExceptionInfo | None]:
    """Status and exception of a call that gave no value.

    Raises:
      BrokenFrameError: It is nothing that a child of ours would say.
    """
    if not isinstance(found, dict):
        raise BrokenFrameError("an error that is no object")
    if found.get("is_memory") is True:
        return "MLE", exception_of(found)
    if found.get("is_output") is True:
        return "OLE", exception_of(found)
    exception = exception_of(found)
    if exception is None:
        raise BrokenFrameError("an error without a type")
    return "RE", exception


def seconds(value: object) -> float:
    """A time the child tells; 0 where it is none."""
    if isinstance(value, float) and math.isfinite(value) and value >= 0:
        return value
    return 0.0


def with_results(
    execution: Execution, program: Program, exchange: Exchange
) -> Execution:
    """The execution with one result per call.

    Where the child ended before all calls were made, the one it was at and those
    after it carry the execution's status.
    """
    results = tuple(exchange.results)
    missing = len(program.calls) - len(results)
    status, reason = execution.status, execution.reason
    is_through = not (exchange.has_ended or exchange.is_broken)
    if is_through and status != "INFRA":
        status, reason = "OK", ""
    elif status == "OK":
        status, reason = "RE", "ended before all calls were made"
    lost = CallResult(status=status, exception=execution.exception)
    return Execution(
        status=status,
        results=results + (lost,) * missing,
        is_loaded=exchange.is_loaded,
        num_answered=len(results),
        stdout=execution.stdout,
        stderr=execution.stderr,
        cpu_s=execution.cpu_s,
        wall_s=execution.wall_s,
        peak_bytes=execution.peak_bytes,
        exception=execution.exception if status != "OK" else None,
        reason=reason,
    )
