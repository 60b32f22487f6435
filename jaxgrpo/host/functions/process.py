"""A worker's handle on the process of one user's function."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from jaxgrpo.host.channel import Channel
from jaxgrpo.host.child_environment import child_environment
from jaxgrpo.host.functions.arguments import calls_of
from jaxgrpo.host.functions.child import START_S
from jaxgrpo.host.functions.messages import (
    Call,
    Calls,
    Load,
    Loaded,
    Refused,
    Returned,
    TrainerState,
)
from jaxgrpo.host.functions.outcomes import failed_outcome
from jaxgrpo.host.functions.settings import FunctionSettings
from jaxgrpo.host.records import Completion, Problem

KEPT_OUTPUT_BYTES = 4000
"""Of what a function writes to its standard streams: the beginning, to be shown."""
LONGEST_LINE = 160
"""Characters of a line of it."""
_LATE_START_S = 1.0
_TICK_S = 0.1


class FunctionProcess:
    """Calls a user's function in a process of its own, started when first needed.

    A call that takes too long, or that its process dies over, gives nothing, and the
    next one finds a fresh process. Call `begin`, then `returned`.

    Args:
      settings: Which function, and how it is called.
    """

    def __init__(self, settings: FunctionSettings):
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._loaded: Loaded | None = None
        self._pending: dict[int, Call] = {}
        self._returned: dict[int, Returned] = {}
        self._state = TrainerState()
        self._since_s = 0.0
        self._output = bytearray()
        self._is_output_told = False

    def begin(
        self, problem: Problem, completions: Sequence[Completion], state: TrainerState
    ) -> None:
        """Hands over what is to be scored, and does not wait.

        Args:
          problem: Of the completions.
          completions: Rows to score; there may be none.
          state: What the function may know of the run.

        Raises:
          ValueError: A column has the name of another argument.
        """
        calls = calls_of(problem, completions, self._settings)
        self._pending = {call.id: call for call in calls}
        self._returned = {}
        self._state = state
        if calls:
            self._hand_over()

    def returned(self) -> list[Returned]:
        """Returns what each call gave, in their order; waits for it."""
        # While others were waited for, what it sent may not have fitted in the socket.
        self._since_s = max(self._since_s, self._now_or_never())
        while self._pending:
            self._wait_for_news()
        return [self._returned[number] for number in sorted(self._returned)]

    def check(self) -> None:
        """Loads the function, and ends the process again.

        Raises:
          ValueError: There is no such function, or it does not load; in one line.
        """
        with self:
            self._start()
            while self._loaded is None:
                reason = self._take_news()
                if not reason and self._is_late():
                    reason = self._late_reason()
                if reason:
                    raise ValueError(reason)
                self._poll()

    def __enter__(self) -> "FunctionProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take_output(self) -> str:
        """Returns the beginning of what the function has written, the first time."""
        if self._is_output_told or not self._output:
            return ""
        self._is_output_told = True
        lines = self._output.decode("utf-8", "replace").strip().splitlines()
        return "\n".join(line[:LONGEST_LINE] for line in lines)

    def close(self) -> None:
        """Ends the process and what it has started, if there is one."""
        if self._process is None:
            return
        assert self._channel is not None and self._process.stdout is not None
        self._take_output()
        self._channel.close()
        try:  # Not reaped yet: no other group can have got its number.
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._process.stdout.close()
        self._process = self._channel = self._loaded = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        with theirs:
            self._process = _started(theirs.fileno())
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._since_s = time.monotonic()
        self._channel.send(Load(settings=self._settings))

    def _hand_over(self) -> None:
        """Sends the calls that are left, to a fresh process where there is none."""
        if self._process is None:
            self._start()
        assert self._channel is not None
        calls = tuple(self._pending.values())
        self._channel.send(Calls(calls=calls, trainer_state=self._state))
        self._since_s = time.monotonic()

    def _wait_for_news(self) -> None:
        reason = self._take_news()
        if reason:
            self._give_up(reason, self._current())
        elif self._pending and self._is_late():
            self._give_up(self._late_reason(), self._current())
        elif self._pending:
            self._poll()

    def _take_news(self) -> str:
        """Takes what the process has sent; returns why nothing more will come."""
        assert self._channel is not None and self._process is not None
        self._take_output()
        self._channel.flush()
        for message, _ in self._channel.receive():
            if isinstance(message, Refused):
                return message.reason
            self._since_s = max(self._since_s, message.at_s)
            if isinstance(message, Loaded):
                self._loaded = message
            elif self._pending.pop(message.id, None):
                self._returned[message.id] = message
        if self._channel.is_closed and (self._pending or self._loaded is None):
            status = self._process.wait()
            how = f"signal {-status}" if status < 0 else f"exit status {status}"
            return f"its process ended with {how}"
        return ""

    def _current(self) -> list[Call]:
        """The calls that are being made: all of an async function, else the first."""
        calls = list(self._pending.values())
        if self._loaded is None or self._loaded.is_async:
            return calls
        return calls[:1]

    def _give_up(self, reason: str, calls: Sequence[Call]) -> None:
        """Ends the process over some calls, and hands the rest to another."""
        self.close()
        for call in calls:
            outcome = failed_outcome(reason, call.num_rows)
            self._pending.pop(call.id)
            self._returned[call.id] = Returned(
                id=call.id,
                values=outcome.values,
                failures=outcome.failures,
                seconds=time.monotonic() - self._since_s,
            )
        if self._pending:
            self._hand_over()

    def _limit_s(self) -> float:
        return START_S if self._loaded is None else self._settings.timeout_s

    def _is_late(self) -> bool:
        return time.monotonic() - self._since_s > self._limit_s()

    def _late_reason(self) -> str:
        if self._loaded is None:
            return f"it did not load within {START_S:g} s"
        return f"no answer within {self._settings.timeout_s:g} s"

    def _now_or_never(self) -> float:
        return time.monotonic() - self._limit_s() + _LATE_START_S

    def _poll(self) -> None:
        assert self._channel is not None and self._process is not None
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._channel.fileno(), self._channel.poll_events)
        poll.register(self._process.stdout.fileno(), select.POLLIN)
        poll.poll(_TICK_S * 1e3)

    def _take_output(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        try:
            while chunk := os.read(descriptor, 1 << 16):
                room = KEPT_OUTPUT_BYTES - len(self._output)
                self._output += chunk[: max(room, 0)]
        except BlockingIOError:
            pass


def _started(descriptor: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            *(sys.executable, "-u", "-m", "jaxgrpo.host.functions.child"),
            str(descriptor),
        ],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # The accelerator is the trainer's, whatever the user's file imports.
        env=child_environment() | {"JAX_PLATFORMS": "cpu"},
        # A group of its own: what the function starts ends with it.
        process_group=0,
    )
