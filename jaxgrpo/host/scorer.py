"""A pool of worker processes that turns groups of completions into scores."""

import os
import select
import signal
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.credit.steps import StepSettings
from jaxgrpo.host.functions.messages import TrainerState
from jaxgrpo.host.functions.process import FunctionProcess
from jaxgrpo.host.functions.settings import FunctionSettings
from jaxgrpo.host.judge import (
    DEFAULT_SETTINGS,
    JudgeSettings,
    check_kind,
    infra_verdict,
)
from jaxgrpo.host.judge.extraction import checked_rule
from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.messages import Answer, Job, SandboxSettings, Setup
from jaxgrpo.host.quality import QualitySettings, check_graders
from jaxgrpo.host.records import Group, Score
from jaxgrpo.host.rewards import RewardSpec, check_installed, checked_specs
from jaxgrpo.host.sandbox.packages import find_packages
from jaxgrpo.host.scoring import abstaining_score
from jaxgrpo.host.verdict_cache import VerdictCache
from jaxgrpo.host.worker_process import WorkerProcess

MAX_WORKERS = 8
"""Workers that `num_workers=0` starts at most."""
MAX_ATTEMPTS = 2
"""Workers that may die over one job before it abstains."""
MAX_FAILED_STARTS = 3
"""Workers that may die in a row before they are ready."""
CACHE_BYTES = 256 * 2**20
"""Memory for verdicts already reached."""
_TICK_S = 0.05
_GRACE_S = 2.0


class ScoreFuture:
    """The scores of one submitted group, once they are there."""

    def __init__(self, scorer: "Scorer"):
        self._scorer = scorer
        self._scores: list[Score] | None = None

    def result(self) -> list[Score]:
        """Returns one score per completion, in the group's order; waits for them.

        Always returns: a group that cannot be scored within the deadline, or that
        workers die over, gets scores that abstain and say why.
        """
        if self._scores is None:
            self._scorer._wait_for(self)
        assert self._scores is not None
        return self._scores

    @property
    def is_done(self) -> bool:
        """Whether `result` would return at once."""
        return self._scores is not None


class Scorer:
    """Scores groups of completions in worker processes.

    Build it before jax is started: workers are fresh processes, started with exec,
    never forks of a process that computes. Work is done inside `submit` and `result`
    and by the workers; there are no threads. Any thread may call.

    Args:
      num_workers: Worker processes; 0 takes one per CPU core, at most MAX_WORKERS.
      rewards: What to compute, in the order that scores keep; a name stands for the
        reward with its default settings. Those of a device are left to the device.
      deadline_s: Seconds that one group may take a worker; a group that takes longer
        abstains, and its worker is replaced.
      sandbox: How programs are confined and limited.
      extraction: Rule by which programs are found in texts.
      literal_extraction: Rule by which literals are found.
      markers: Between which the rule `markers` looks.
      stops_at_failure: Whether to leave out the tests after the first that did not
        pass.
      blame: How to find where completions went wrong, for groups that want rewards;
        None leaves it out.
      steps: How predicted steps are credited, likewise.
      quality: How passing completions are graded, likewise.
      num_steps: Of the run, for the user's functions; 0 where there is no run.

    Example:
      >>> with Scorer(num_workers=1, rewards=["exact"], deadline_s=60.0,
      ...             sandbox=SandboxSettings()) as scorer:
      ...     scorer.counters()["groups"]
      0
    """

    def __init__(
        self,
        *,
        num_workers: int,
        rewards: Sequence[str | RewardSpec],
        deadline_s: float,
        sandbox: SandboxSettings,
        extraction: str = DEFAULT_SETTINGS.extraction,
        literal_extraction: str = DEFAULT_SETTINGS.literal_extraction,
        markers: Markers = DEFAULT_SETTINGS.markers,
        stops_at_failure: bool = DEFAULT_SETTINGS.stops_at_failure,
        blame: BlameSettings | None = None,
        steps: StepSettings | None = None,
        quality: QualitySettings | None = None,
        num_steps: int = 0,
    ):
        if num_workers < 0:
            raise ValueError(f"num_workers is {num_workers}. Set it to 0 or more.")
        if not deadline_s > 0:
            raise ValueError(f"deadline_s is {deadline_s}. Set it to more than 0.")
        find_packages(sandbox.packages)  # Raises for what is not installed.
        specs = tuple(s for s in checked_specs(rewards) if s.scope != "device")
        _check_rewards(specs)
        _check_blame(blame)
        check_graders(quality)
        self._setup = Setup(
            rewards=specs,
            deadline_s=deadline_s,
            sandbox=sandbox,
            extraction=checked_rule(extraction),
            literal_extraction=checked_rule(literal_extraction),
            markers=markers,
            stops_at_failure=stops_at_failure,
            blame=blame,
            steps=steps,
            quality=quality,
            parent_pid=os.getpid(),
        )
        # Guards everything below; notified when jobs are done or a pump ends.
        self._changed = threading.Condition(threading.Lock())
        self._is_pumping = False
        self._num_steps = num_steps
        self._outputs: dict[str, str] = {}
        self._told: set[str] = set()
        self._failure = ""
        self._queue: deque[Job] = deque()
        self._futures: dict[int, ScoreFuture] = {}
        self._num_deaths: Counter[int] = Counter()
        self._num_failed_starts = 0
        self._cache = VerdictCache(
            CACHE_BYTES,
            JudgeSettings(
                extraction=extraction,
                literal_extraction=literal_extraction,
                markers=markers,
            ),
        )
        names = ("groups", "rows", "infra", "restarts", "cache_hits")
        self._counters: dict[str, int] = dict.fromkeys(names, 0)
        self._verdicts: Counter[str] = Counter()
        self._sandbox_level = ""
        self._cores = usable_cores()
        self._workers: list[WorkerProcess] = []
        try:
            for index in range(num_workers or min(len(self._cores), MAX_WORKERS)):
                self._workers.append(self._started(index))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        with self._changed:
            return tuple(worker.pid for worker in self._workers)

    def counters(self) -> dict[str, int]:
        """Returns totals since the start.

        groups and rows submitted; rows with an INFRA verdict (`infra`); workers that
        were replaced (`restarts`); rows whose verdict was known without asking the
        judge (`cache_hits`); rows by their verdict (`verdict/OK` ...).
        """
        with self._changed:
            by_verdict = sorted(self._verdicts.items())
            return self._counters | {f"verdict/{name}": n for name, n in by_verdict}

    def metrics(self) -> dict[str, float]:
        """Returns how scoring goes, under the names of the metric log.

        The sandbox's level is that of the worker that answered last (on one machine
        they are all alike), and left out before the first program.
        """
        with self._changed:
            counters, level = self._counters, self._sandbox_level
            metrics = {
                "perf/cache_hit_rate": counters["cache_hits"]
                / max(1, counters["rows"]),
                "perf/scorer_restarts": float(counters["restarts"]),
            }
            return metrics | ({f"perf/sandbox_level/{level}": 1.0} if level else {})

    def take_outputs(self) -> dict[str, str]:
        """Returns the beginnings of what the user's functions wrote, by reward.

        Each reward is told of once.
        """
        with self._changed:
            new = {n: text for n, text in self._outputs.items() if n not in self._told}
            self._told |= new.keys()
            return new

    def submit(
        self, group: Group, *, step: int = 0, wants_rewards: bool = True
    ) -> ScoreFuture:
        """Hands a group to the workers and returns at once.

        Args:
          group: Its problem must be of a kind that has a judge.
          step: Steps made before the one that it is of.
          wants_rewards: Whether scores are to have rewards, not only verdicts.
        """
        check_kind(group.problem)
        with self._changed:
            self._raise_failure()
            future = ScoreFuture(self)
            job = self._job(group, step, wants_rewards)
            self._futures[job.id] = future
            self._queue.append(job)
            self._take_answers()
            self._dispatch()
        return future

    def close(self) -> None:
        """Ends all workers, also busy ones. Open futures raise from then on."""
        with self._changed:
            self._failure = self._failure or "the scorer is closed"
            workers, self._workers = self._workers, []
            self._changed.notify_all()
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.end(_GRACE_S)

    def _wait_for(self, future: ScoreFuture) -> None:
        with self._changed:
            while not future.is_done:
                self._raise_failure()
                if self._is_pumping:
                    self._changed.wait()
                else:
                    self._pump()

    def _raise_failure(self) -> None:
        if self._failure:
            raise RuntimeError(f"{self._failure}. Start a new scorer.")

    def _pump(self) -> None:
        """Waits for news of any worker, without the lock, and deals with it."""
        poll = select.poll()
        for worker in self._workers:
            poll.register(*worker.poll_request)
        self._is_pumping = True
        self._changed.release()
        try:
            poll.poll(_TICK_S * 1e3)
        finally:
            self._changed.acquire()
            self._is_pumping = False
            self._changed.notify_all()
        self._take_answers()
        self._dispatch()

    # From here on, every method is called with the lock held.

    def _job(self, group: Group, step: int, wants_rewards: bool) -> Job:
        subjects = [
            self._cache.subject(group.problem, completion)
            for completion in group.completions
        ]
        verdicts = tuple(map(self._cache.get, subjects))
        unjudged = {
            subject.key
            for subject, verdict in zip(subjects, verdicts, strict=True)
            if verdict is None
        }
        job_id = self._counters["groups"]
        self._counters["groups"] += 1
        self._counters["rows"] += len(verdicts)
        self._counters["cache_hits"] += len(verdicts) - len(unjudged)
        return Job(
            id=job_id,
            problem=group.problem,
            completions=group.completions,
            verdicts=verdicts,
            wants_rewards=wants_rewards,
            trainer_state=TrainerState(global_step=step, max_steps=self._num_steps),
        )

    def _dispatch(self) -> None:
        while self._queue:
            # A worker that is still loading only gets jobs if all are.
            ready = [worker for worker in self._workers if worker.is_ready]
            takers = [worker for worker in ready or self._workers if worker.takes_jobs]
            if not takers:
                break
            min(takers, key=lambda worker: len(worker.jobs)).give(self._queue.popleft())

    def _take_answers(self) -> None:
        for index, worker in enumerate(self._workers):
            for job, answer, size in worker.answers():
                self._num_failed_starts = 0
                self._outputs |= {**answer.outputs, **self._outputs}
                self._sandbox_level = answer.sandbox_level or self._sandbox_level
                self._remember(job, answer, size)
                self._finish(job, list(answer.scores))
            if worker.refusal:
                self._failure = worker.refusal
                self._changed.notify_all()
            elif worker.is_gone or worker.is_late:
                self._replace(index)

    def _remember(self, job: Job, answer: Answer, size: int) -> None:
        share = size // max(1, len(answer.scores))
        for completion, score in zip(job.completions, answer.scores, strict=True):
            assert score.verdict is not None
            subject = self._cache.subject(job.problem, completion)
            self._cache.put(subject, score.verdict, share)

    def _finish(self, job: Job, scores: list[Score]) -> None:
        assert len(scores) == len(job.completions)
        statuses = [score.verdict.status for score in scores if score.verdict]
        self._verdicts.update(statuses)
        self._counters["infra"] += statuses.count("INFRA")
        self._num_deaths.pop(job.id, None)
        self._futures.pop(job.id)._scores = scores
        self._changed.notify_all()

    def _abstain(self, job: Job, reason: str) -> None:
        names = [spec.name for spec in self._setup.rewards]
        score = abstaining_score(names, infra_verdict(reason), reason)
        self._finish(job, [score] * len(job.completions))

    def _replace(self, index: int) -> None:
        """Ends a worker that is dead or late, and starts another in its place."""
        worker = self._workers[index]
        was_late = worker.is_late
        status = worker.end()
        self._counters["restarts"] += 1
        if not worker.is_ready:
            self._note_failed_start(status)
        elif worker.jobs:
            self._blame(worker.jobs[0], was_late or status == -signal.SIGALRM, status)
        # The jobs behind the first one had not been begun.
        unfinished = [job for job in worker.jobs if job.id in self._futures]
        self._queue.extendleft(reversed(unfinished))
        try:
            self._workers[index] = self._started(index)
        except OSError as error:
            self._failure = f"a scoring worker could not be started: {error}"

    def _started(self, index: int) -> WorkerProcess:
        """A worker whose programs stay on a core of their own, as far as there are."""
        core = self._cores[-1 - index % len(self._cores)]
        return WorkerProcess(replace(self._setup, cpu=core))

    def _note_failed_start(self, status: int) -> None:
        self._num_failed_starts += 1
        if self._num_failed_starts >= MAX_FAILED_STARTS:
            self._failure = (
                f"{self._num_failed_starts} scoring workers in a row ended before they "
                f"were ready, the last with exit status {status}; see their messages"
            )

    def _blame(self, job: Job, is_late: bool, status: int) -> None:
        """Lets a job abstain that a worker was late or died with for good."""
        self._num_deaths[job.id] += 1
        if is_late:
            self._abstain(job, f"no scores within {self._setup.deadline_s:g} s")
        elif self._num_deaths[job.id] >= MAX_ATTEMPTS:
            self._abstain(
                job, f"{MAX_ATTEMPTS} workers died, the last with exit status {status}"
            )


def _check_rewards(specs: Sequence[RewardSpec]) -> None:
    """Tries what every worker will need, so that a mistake is told before the run."""
    for spec in specs:
        try:
            if spec.scope == "process":
                FunctionProcess(spec.settings).check()
            else:
                check_installed(spec)
        except ValueError as error:
            raise ValueError(f"rewards.{spec.name}: {error}") from None


def _check_blame(blame: BlameSettings | None) -> None:
    """Likewise for the user's functions that credit depends on."""
    if blame is None:
        return
    for field in ("extractor", "localizer"):
        name = getattr(blame, field)
        try:
            if name:
                FunctionProcess(FunctionSettings(function=name)).check()
        except ValueError as error:
            raise ValueError(f"credit.{field}: {error}") from None


def usable_cores() -> list[int]:
    """Returns the numbers of the processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
