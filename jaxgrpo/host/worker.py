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
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jaxgrpo.host.channel import Channel
from jaxgrpo.host.credit.blame import Blaming, blaming
from jaxgrpo.host.credit.group_blame import blames_of, is_tied, with_blame
from jaxgrpo.host.credit.steps import StepSettings, step_rewards, with_steps
from jaxgrpo.host.judge import (
    DEFAULT_SETTINGS,
    SANDBOXED_KINDS,
    JudgeSettings,
    infra_verdict,
    judge,
)
from jaxgrpo.host.messages import (
    Answer,
    Job,
    Ready,
    Refusal,
    SandboxSettings,
    Setup,
)
from jaxgrpo.host.quality import QualitySettings, graded
from jaxgrpo.host.records import (
    Completion,
    Execution,
    Problem,
    ProblemKind,
    Program,
    Score,
    Verdict,
)
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.sandbox.levels import SandboxUnavailableError
from jaxgrpo.host.scoring import Earned, scores_of
from jaxgrpo.host.stored_tests import with_tests
from jaxgrpo.host.verdict_cache import VerdictCache
from jaxgrpo.host.worker_rewards import WorkerRewards

if TYPE_CHECKING:
    from jaxgrpo.host.sandbox import Sandbox

Earn = Callable[[Judged], Mapping[str, Earned]]
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

    def runner(self, kind: ProblemKind) -> Callable[[Program], Execution] | None:
        """Returns what runs programs for problems of this kind, None if nothing does.

        The sandbox is built when it is first called.
        """
        if kind not in SANDBOXED_KINDS:
            return None

        def run(program: Program) -> Execution:
            sandbox = self.for_kind(kind)
            assert sandbox is not None
            return sandbox.run(program)

        return run

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
    earn: Earn,
    sandbox: LazySandbox,
    settings: JudgeSettings = DEFAULT_SETTINGS,
    how: Blaming | None = None,
    steps: StepSettings | None = None,
    quality: QualitySettings | None = None,
) -> tuple[Score, ...]:
    """Returns the scores of a job's completions, in their order.

    Equal programs are judged once. Whatever goes wrong with one completion becomes the
    reason why that one abstains.

    Args:
      job: One group.
      earn: Gives what each reward gives a group, by name.
      sandbox: For programs.
      settings: Of the judge.
      how: Blame is found, for jobs that want rewards; None where nobody asks for it.
      steps: How predicted steps are credited, likewise.
      quality: How passing completions are graded, likewise.
    """
    job = replace(job, problem=_with_tests(job.problem))
    known = VerdictCache(KNOWN_BYTES, settings)
    verdicts: list[Verdict] = []
    judge_s: list[float] = []
    for completion, verdict in zip(job.completions, job.verdicts, strict=True):
        started_s = time.monotonic()
        subject = known.subject(job.problem, completion)
        verdict = verdict or known.get(subject)
        verdict = verdict or _verdict(job.problem, completion, sandbox, settings)
        known.put(subject, verdict, size=1)
        verdicts.append(verdict)
        judge_s.append(time.monotonic() - started_s)
    judged = Judged(
        problem=job.problem,
        completions=job.completions,
        verdicts=tuple(verdicts),
        run=sandbox.runner(job.problem.kind),
        limits=settings.limits,
    )
    by_name = earn(judged) if job.wants_rewards else {}
    scores = tuple(
        replace(score, timings={"judge": seconds, **score.timings})
        for score, seconds in zip(scores_of(judged, by_name), judge_s, strict=True)
    )
    if not job.wants_rewards:
        return scores
    if how is not None:
        blames = blames_of(judged, settings, how, is_tied=is_tied(scores))
        scores = tuple(map(with_blame, scores, blames))
    if steps is not None:
        scores = tuple(map(with_steps, scores, step_rewards(judged, steps)))
    if quality is not None:
        scores = graded(judged, scores, quality)
    return scores


# The edge of the process: the only place where every exception is caught, and turned
# into a reason. A row that cannot be scored must not take its siblings down.


def _with_tests(problem: Problem) -> Problem:
    try:
        return with_tests(problem)
    except Exception:
        return problem  # The judge meets the same error, and it becomes a reason.


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
    rewards = WorkerRewards(setup.rewards)
    sandbox = LazySandbox(setup.sandbox, setup.cpu)
    how = None if setup.blame is None else blaming(setup.blame)
    channel.send(Ready(at_s=time.monotonic()))
    try:
        while not channel.is_closed and os.getppid() == setup.parent_pid:
            if messages:
                job = messages.popleft()
                channel.send(_reply(job, setup, rewards, sandbox, how))
            else:
                channel.wait(_ORPHAN_CHECK_S)
                channel.flush()
            messages.extend(message for message, _ in channel.receive())
    finally:
        rewards.close()
        sandbox.close()


def _reply(
    job: Job,
    setup: Setup,
    rewards: WorkerRewards,
    sandbox: LazySandbox,
    how: Blaming | None,
) -> Answer | Refusal:
    try:
        return _answer(job, setup, rewards, sandbox, how)
    except SandboxUnavailableError as error:
        return Refusal(reason=str(error), at_s=time.monotonic())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _answer(
    job: Job,
    setup: Setup,
    rewards: WorkerRewards,
    sandbox: LazySandbox,
    how: Blaming | None,
) -> Answer:
    # The parent ends a worker that is late. If there is no parent any more, the alarm
    # does, even inside a long call of the C library.
    signal.setitimer(signal.ITIMER_REAL, setup.deadline_s + _ORPHAN_GRACE_S)
    settings = JudgeSettings(
        extraction=setup.extraction,
        literal_extraction=setup.literal_extraction,
        markers=setup.markers,
        limits=setup.sandbox.limits,
        stops_at_failure=setup.stops_at_failure,
    )
    earn = partial(rewards.earned, state=job.trainer_state)
    scores = scores_of_job(
        job, earn, sandbox, settings, how, setup.steps, setup.quality
    )
    return Answer(
        id=job.id,
        scores=scores,
        sandbox_level=sandbox.level,
        outputs=rewards.take_outputs(),
        at_s=time.monotonic(),
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
