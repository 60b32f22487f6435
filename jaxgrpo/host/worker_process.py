"""The scorer's handle on one worker process."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque

from jaxgrpo.host.channel import Channel
from jaxgrpo.host.child_environment import child_environment
from jaxgrpo.host.messages import Answer, Job, Ready, Refusal, Setup

START_S = 60.0
"""Seconds that a worker may take to load."""
JOBS_AHEAD = 8
"""Jobs that a worker is given at a time: it goes on while nobody looks after it."""
_WAIT_S = 0.002


class WorkerProcess:
    """A worker and the jobs it has been given. Started at once, loads in its own time.

    Args:
      setup: What the worker is told first.
    """

    def __init__(self, setup: Setup):
        self.is_ready = False
        """True once the worker takes jobs."""
        self.refusal = ""
        """Why the worker runs no programs; empty while it does."""
        self.jobs: deque[Job] = deque()
        """Given and not answered yet; the worker is at the first of them."""
        self._busy_since_s = time.monotonic()
        self._deadline_s = setup.deadline_s
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours)
        with theirs:
            try:
                self._process = _started(theirs.fileno())
            except OSError:
                self._channel.close()
                raise
        self._channel.send(setup)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether the worker has closed its end: it is dead or dying."""
        return self._channel.is_closed

    @property
    def takes_jobs(self) -> bool:
        """Whether the worker is to be given another job now."""
        is_open = not (self._channel.has_unsent or self._channel.is_closed)
        return is_open and len(self.jobs) < JOBS_AHEAD

    @property
    def is_late(self) -> bool:
        """Whether the worker has been at one thing for longer than it may."""
        busy_s = time.monotonic() - self._busy_since_s
        if not self.is_ready:
            return busy_s > START_S
        return bool(self.jobs) and busy_s > self._deadline_s

    @property
    def poll_request(self) -> tuple[int, int]:
        """Descriptor and events to poll for."""
        return self._channel.fileno(), self._channel.poll_events

    def give(self, job: Job) -> None:
        """Sends a job, or as much of it as the worker takes for now."""
        if self.is_ready and not self.jobs:
            self._busy_since_s = time.monotonic()
        self.jobs.append(job)
        self._channel.send(job)

    def answers(self) -> list[tuple[Job, Answer, int]]:
        """Returns jobs answered since the last call, with the answers' sizes in bytes.

        Also goes on sending what the worker did not take before.
        """
        if self._channel.has_unsent and len(self.jobs) == 1:
            # It cannot have begun a job that we have not sent in full.
            self._busy_since_s = time.monotonic()
        self._channel.flush()
        answered: list[tuple[Job, Answer, int]] = []
        for message, size in self._channel.receive():
            # The worker's clock reading: ours would charge the time that the answer
            # waited for us to the next job.
            self._busy_since_s = message.at_s
            if isinstance(message, Ready):
                self.is_ready = True
                continue
            if isinstance(message, Refusal):
                self.refusal = message.reason
                break
            job = self.jobs.popleft()
            assert isinstance(message, Answer) and message.id == job.id
            answered.append((job, message, size))
        return answered

    def hang_up(self) -> None:
        """Closes the connection; an idle worker then ends by itself."""
        self._channel.close()

    def end(self, grace_s: float = 0.0) -> int:
        """Ends the worker and what it started, and returns its exit status.

        Args:
          grace_s: Seconds that it gets to end by itself.
        """
        self.hang_up()
        if self._process.returncode is not None:
            return self._process.returncode
        until_s = time.monotonic() + grace_s
        while time.monotonic() < until_s and not self._has_exited():
            time.sleep(_WAIT_S)
        # While the worker is not reaped, no other group can have got its number.
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self._process.wait()

    def _has_exited(self) -> bool:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.pid, options) is not None
        except ChildProcessError:
            return True


def _started(descriptor: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "jaxgrpo.host.worker", str(descriptor)],
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        env=child_environment(),
        # A group of its own: a terminal's Ctrl-C does not reach it, and what it has
        # started can be ended with it.
        process_group=0,
    )
