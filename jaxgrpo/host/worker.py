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

from jaxgrpo.host.judge import (
    DEFAULT_SETTINGS,
    SANDBOXED_KINDS,
    JudgeSettings,
    infra_verdict,
    judge,
)
from jaxgrpo.host.messages import (
    Answer,
    Channel,
    Job,
    Ready,
    Refusal,
    SandboxSettings,
    Setup,
)
from jaxgrpo.host.records import Completion, Problem, ProblemKind, Score, Verdict
from jaxgrpo.host.rewards import Reward, load_rewards
from jaxgrpo.host.sandbox.levels import SandboxUnavailableError
from jaxgrpo.host.scoring import abstaining_score, score_of
from jaxgrpo.host.verdict_cache import VerdictCache

if TYPE_CHECKING:
    from jaxgrpo.host.sandbox import Sandbox

KNOWN_BYTES = 1 << 30
"""More than the verdicts of one job ever number, each counted as one byte."""
_ORPHAN_CHECK_S = 5.0
_ORPHAN_GRACE_S = 2.0


class LazySandbox:
    """A sandbox that is only built when the first program has to be run.

    Args:
      settings: How to build it.
      cpu: Processor core for its programs; None leaves it to the scheduler.
    """

    def __init__(self, settings: SandboxSettings, cpu: int | None = None):
        self._settings = settings
        self._cpu = cpu
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
                packages=self._settings.packages,
                cpu=self._cpu,
            )
        return self._sandbox

    @property
    def level(self) -> str:
        """The level attained; empty while there is no sandbox."""
        return "" if self._sandbox is None else self._sandbox.level.value

    def close(self) -> None:
        """Ends the sandbox if there is one."""
        if self._sandbox is not None:
            self._sandbox.close()


def scores_of_job(
    job: Job,
    rewards: Mapping[str, Reward],
    sandbox: LazySandbox,
    settings: JudgeSettings = DEFAULT_SETTINGS,
) -> tuple[Score, ...]:
    """Returns the scores of a job's completions, in their order.

    Equal programs are judged once. Whatever goes wrong with one completion becomes the
    reason why that one abstains.
    """
    known = VerdictCache(KNOWN_BYTES, settings.extraction)
    scores: list[Score] = []
    for completion, verdict in zip(job.completions, job.verdicts, strict=True):
        started_s = time.monotonic()
        subject = known.subject(job.problem, completion.text)
        verdict = verdict or known.get(subject)
        verdict = verdict or _verdict(job.problem, completion, sandbox, settings)
        judge_s = time.monotonic() - started_s
        known.put(subject, verdict, size=1)
        score = _score(job.problem, completion, verdict, rewards)
        scores.append(replace(score, timings={"judge": judge_s, **score.timings}))
    return tuple(scores)


# The edge of the process: the only place where every exception is caught, and turned
# into a reason. A row that cannot be scored must not take its siblings down.


def _verdict(
    problem: Problem,
    completion: Completion,
    sandbox: LazySandbox,
    settings: JudgeSettings,
) -> Verdict:
    try:
        return judge(problem, completion, sandbox.for_kind(problem.kind), settings)
    except SandboxUnavailableError:
        raise
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
    sandbox = LazySandbox(setup.sandbox, setup.cpu)
    channel.send(Ready(at_s=time.monotonic()))
    try:
        while not channel.is_closed and os.getppid() == setup.parent_pid:
            if messages:
                channel.send(_reply(messages.popleft(), setup, rewards, sandbox))
            else:
                channel.wait(_ORPHAN_CHECK_S)
                channel.flush()
            messages.extend(message for message, _ in channel.receive())
    finally:
        sandbox.close()


def _reply(
    job: Job, setup: Setup, rewards: Mapping[str, Reward], sandbox: LazySandbox
) -> Answer | Refusal:
    try:
        return _answer(job, setup, rewards, sandbox)
    except SandboxUnavailableError as error:
        return Refusal(reason=str(error), at_s=time.monotonic())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _answer(
    job: Job, setup: Setup, rewards: Mapping[str, Reward], sandbox: LazySandbox
) -> Answer:
    # The parent ends a worker that is late. If there is no parent any more, the alarm
    # does, even inside a long call of the C library.
    signal.setitimer(signal.ITIMER_REAL, setup.deadline_s + _ORPHAN_GRACE_S)
    settings = JudgeSettings(
        extraction=setup.extraction,
        limits=setup.sandbox.limits,
        stops_at_failure=setup.stops_at_failure,
    )
    scores = scores_of_job(job, rewards, sandbox, settings)
    return Answer(
        id=job.id, scores=scores, sandbox_level=sandbox.level, at_s=time.monotonic()
    )


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
