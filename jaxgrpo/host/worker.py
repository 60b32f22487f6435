"""A scoring process: jobs in, scores out, until its parent goes away.

Started by the scorer as `python -m jaxgrpo.host.worker DESCRIPTOR`. It never imports
jax, answers jobs in their order, and leaves interruptions to its parent.
"""

import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from jaxgrpo.host.judge import SANDBOXED_KINDS, judge
from jaxgrpo.host.messages import Answer, Channel, Job, Ready, SandboxSettings, Setup
from jaxgrpo.host.records import Completion, Problem, ProblemKind, Score, Verdict
from jaxgrpo.host.rewards import Reward, load_rewards
from jaxgrpo.host.scoring import abstaining_score, infra_verdict, score_of

if TYPE_CHECKING:
    from jaxgrpo.host.sandbox import Sandbox

_ORPHAN_CHECK_S = 5.0
_ORPHAN_GRACE_S = 2.0


class LazySandbox:
    """A sandbox that is only built when the first program has to be run.

    Args:
      settings: How to build it.
    """

    def __init__(self, settings: SandboxSettings):
        self._settings = settings
        self._sandbox: Sandbox | None = None

    def for_kind(self, kind: ProblemKind) -> "Sandbox | None":
        """Returns the sandbox if problems of this kind need one, else None."""
        if kind not in SANDBOXED_KINDS:
            return None
        if self._sandbox is None:
            from jaxgrpo.host.sandbox import Sandbox

            self._sandbox = Sandbox(
                level=self._settings.level,
                minimum=self._settings.minimum_level,
                allow_unsafe=self._settings.allow_unsafe,
            )
        return self._sandbox

    def close(self) -> None:
        """Ends the sandbox if there is one."""
        if self._sandbox is not None:
            self._sandbox.close()


def scores_of_job(
    job: Job, rewards: Mapping[str, Reward], sandbox: LazySandbox
) -> tuple[Score, ...]:
    """Returns the scores of a job's completions, in their order.

    Equal texts are judged once. Whatever goes wrong with one completion becomes the
    reason why that one abstains.
    """
    known: dict[str, Verdict] = {}
    scores: list[Score] = []
    for completion, verdict in zip(job.completions, job.verdicts, strict=True):
        started_s = time.monotonic()
        verdict = verdict or known.get(completion.text)
        verdict = verdict or _verdict(job.problem, completion, sandbox)
        judge_s = time.monotonic() - started_s
        known[completion.text] = verdict
        score = _score(job.problem, completion, verdict, rewards)
        scores.append(replace(score, timings={"judge": judge_s, **score.timings}))
    return tuple(scores)


# The edge of the process: the only place where every exception is caught, and turned
# into a reason. A row that cannot be scored must not take its siblings down.


def _verdict(problem: Problem, completion: Completion, sandbox: LazySandbox) -> Verdict:
    try:
        return judge(problem, completion, sandbox.for_kind(problem.kind))
    except Exception as error:
        return infra_verdict(f"{type(error).__name__}: {error}")


def _score(
    problem: Problem,
    completion: Completion,
    verdict: Verdict,
    rewards: Mapping[str, Reward],
) -> Score:
    try:
        return score_of(problem, completion, verdict, rewards)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return abstaining_score(tuple(rewards), verdict, reason)


def serve(channel: Channel) -> None:
    """Answers jobs until the other end of the channel is gone.

    Args:
      channel: Carries the setup first, then jobs.
    """
    messages = deque(message for message, _ in channel.receive())
    while not messages and not channel.is_closed:
        channel.wait(_ORPHAN_CHECK_S)
        messages.extend(message for message, _ in channel.receive())
    if channel.is_closed:
        return
    setup: Setup = messages.popleft()
    rewards = load_rewards(setup.rewards)
    sandbox = LazySandbox(setup.sandbox)
    channel.send(Ready(at_s=time.monotonic()))
    try:
        while not channel.is_closed and os.getppid() == setup.parent_pid:
            if messages:
                channel.send(_answer(messages.popleft(), setup, rewards, sandbox))
            else:
                channel.wait(_ORPHAN_CHECK_S)
                channel.flush()
            messages.extend(message for message, _ in channel.receive())
    finally:
        sandbox.close()


def _answer(
    job: Job, setup: Setup, rewards: Mapping[str, Reward], sandbox: LazySandbox
) -> Answer:
    # The parent ends a worker that is late. If there is no parent any more, the alarm
    # does, even inside a long call of the C library.
    signal.setitimer(signal.ITIMER_REAL, setup.deadline_s + _ORPHAN_GRACE_S)
    scores = scores_of_job(job, rewards, sandbox)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return Answer(id=job.id, scores=scores, at_s=time.monotonic())


def main() -> None:
    """Runs a worker on the inherited descriptor that the first argument names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(
            f"worker got the arguments {sys.argv[1:]}, not one descriptor. "
            "Workers are started by jaxgrpo.host.scorer.Scorer."
        )
    descriptor = int(sys.argv[1])
    # What the worker starts must not hold its parent's end open.
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor))
    serve(channel)
    channel.close()


if __name__ == "__main__":
    main()
