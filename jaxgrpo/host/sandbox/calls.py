"""The owner's side of mode `calls`: one call at a time, one plain value back each."""

import json
import math
import socket
import struct
import time

from jaxgrpo.host.records import (
    Call,
    CallResult,
    Execution,
    ExecutionStatus,
    Limits,
    Program,
)
from jaxgrpo.host.sandbox import plain_data
from jaxgrpo.host.sandbox.outcome import exception_of, overflowed_file, text_of
from jaxgrpo.host.sandbox.owner import RunFiles

FRAME_HEADER = struct.Struct("<I")
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
            arguments = plain_data.to_bytes(list(call.arguments), MAX_ARGUMENT_BYTES)
        except plain_data.NotPlainDataError as error:
            raise ValueError(
                f"arguments of call {index} ({call.function}): {error}. "
                f"Use None, bool, numbers, str, bytes and containers of them."
            ) from None
        name = json.dumps(call.function)
        text = f'{{"function": {name}, "arguments": {arguments.decode()}}}'
        frames.append(text.encode())
    return frames


class Exchange:
    """Sends the calls of one program over its channel and collects the results."""

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

    def run(self, frames: list[bytes]) -> None:
        """Makes the calls until all are made, the child ends or breaks the rules."""
        try:
            if self._receive() != {}:
                raise BrokenFrameError("the child spoke before its turn")
            self.is_loaded = True
            shown = self.files.size("stdout")
            for frame in frames:
                self._send(frame)
                reply = self._receive()
                end = self.files.size("stdout")
                self.results.append(self._result(reply, shown, end))
                shown = end
        except BrokenFrameError:
            self.is_broken = True
        except ChannelEndedError:
            return

    def _result(self, reply: dict, start: int, end: int) -> CallResult:
        end = min(end, self.limits.output_bytes)
        status, value, exception = "OK", None, None
        if "error" in reply:
            found = reply["error"] if isinstance(reply["error"], dict) else {}
            status, exception = status_of_error(found), exception_of(found)
        else:
            value = self._value(reply)
        if overflowed_file(self.limits, self.files):
            status, value = "OLE", None
        return CallResult(
            status=status,
            value=value,
            exception=exception,
            stdout=text_of(self.files.content("stdout", start, end)),
            cpu_s=seconds(reply.get("cpu_s")),
        )

    def _value(self, reply: dict) -> object:
        try:
            return plain_data.untagged(reply["value"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BrokenFrameError(f"not a value: {error}") from None

    def _receive(self) -> dict:
        (size,) = FRAME_HEADER.unpack(self._read(FRAME_HEADER.size))
        if size > self.limits.output_bytes + FRAME_OVERHEAD_BYTES:
            raise BrokenFrameError(f"a frame of {size} bytes")
        try:
            reply = json.loads(self._read(size))
        except (ValueError, RecursionError):
            raise BrokenFrameError("not JSON") from None
        if not isinstance(reply, dict):
            raise BrokenFrameError("not an object")
        return reply

    def _read(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            self._set_timeout()
            try:
                piece = self.channel.recv(size - len(content))
            except OSError as error:
                raise ChannelEndedError(str(error)) from None
            if not piece:
                raise ChannelEndedError("the child closed its channel")
            content += piece
        return content

    def _send(self, frame: bytes) -> None:
        self._set_timeout()
        try:
            self.channel.sendall(FRAME_HEADER.pack(len(frame)) + frame)
        except OSError as error:
            raise ChannelEndedError(str(error)) from None

    def _set_timeout(self) -> None:
        self.channel.settimeout(max(0.001, self.deadline - time.monotonic()))


def status_of_error(found: dict) -> ExecutionStatus:
    """Status of a call that gave no value."""
    if found.get("is_memory") is True:
        return "MLE"
    return "OLE" if found.get("is_output") is True else "RE"


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
    if exchange.is_loaded and missing == 0 and status != "INFRA":
        status, reason = "OK", ""
    elif status == "OK":
        status, reason = "RE", "ended before all calls were made"
    lost = CallResult(status=status, exception=execution.exception)
    return Execution(
        status=status,
        results=results + (lost,) * missing,
        stdout=execution.stdout,
        stderr=execution.stderr,
        cpu_s=execution.cpu_s,
        wall_s=execution.wall_s,
        peak_bytes=execution.peak_bytes,
        exception=execution.exception if status != "OK" else None,
        reason=reason,
    )
