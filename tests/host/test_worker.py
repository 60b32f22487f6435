import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jaxgrpo.host.channel import Channel
from jaxgrpo.host.functions.messages import TrainerState
from jaxgrpo.host.messages import Answer, Job, Ready, SandboxSettings, Setup
from jaxgrpo.host.records import Completion, Group, Problem, Program, Verdict
from jaxgrpo.host.rewards import reward_spec
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.scoring import Earned, earned
from jaxgrpo.host.worker import LazySandbox, scores_of_job
from jaxgrpo.host.worker_rewards import WorkerRewards

UNSAFE = SandboxSettings(minimum_level="D", allow_unsafe=True)


def exact(judged: Judged) -> dict[str, Earned]:
    return WorkerRewards([reward_spec("exact")]).earned(judged, TrainerState())


def job_of(group: Group, job_id: int = 0) -> Job:
    return Job(
        id=job_id,
        problem=group.problem,
        completions=group.completions,
        verdicts=(None,) * len(group.completions),
    )


# What a worker does with a job.


def test_scores_are_in_the_order_of_completions(make_group: Callable[..., Group]):
    job = job_of(make_group("5", "6", "5", " 5", "five"))
    scores = scores_of_job(job, exact, LazySandbox(UNSAFE))
    classes = ["wrong_value", "exact", "wrong_repr", "not_one_literal"]
    assert [score.error_class for score in scores] == classes
    assert [score.rewards["exact"] for score in scores] == [0.0, 1.0, 0.0, 0.0]
    assert all({"judge", "reward/exact"} == set(score.timings) for score in scores)


def test_known_verdict_is_not_asked_for_again(make_group: Callable[..., Group]):
    group = make_group("5", "6", "6")
    known = Verdict(status="OK", error_class="exact")
    job = Job(
        id=0,
        problem=group.problem,
        completions=group.completions,
        verdicts=(known, None),
    )
    scores = scores_of_job(job, exact, LazySandbox(UNSAFE))
    assert [score.verdict for score in scores] == [known, known]


def test_failing_judge_is_an_infrastructure_error(
    make_completion: Callable[..., Completion],
):
    problem = Problem(id="p", kind="call", prompt="", reference="")
    group = Group(problem=problem, prompts=(), completions=(make_completion("x"),))
    sandbox = LazySandbox(SandboxSettings(level="no such level"))
    (score,) = scores_of_job(job_of(group), exact, sandbox)
    assert score.verdict is not None
    assert score.verdict.status == "INFRA"
    assert score.abstain_reason.startswith("ValueError: sandbox level 'no such level'")


def test_failing_reward_leaves_the_others_alone(make_group: Callable[..., Group]):
    def picky(judged: Judged) -> list[float]:
        return [1.0 / (c.text != "6") for c in judged.completions]

    job = job_of(make_group("5", "5", "6", "7"))
    scores = scores_of_job(
        job,
        lambda judged: exact(judged) | {"picky": earned(picky, judged)},
        LazySandbox(UNSAFE),
    )
    reasons = ["picky: ZeroDivisionError: float division by zero"] * 3
    assert [score.abstain_reason for score in scores] == reasons
    assert [score.rewards["exact"] for score in scores] == [1.0, 0.0, 0.0]
    assert scores[1].error_class == "wrong_value"


def test_sandbox_is_built_for_programs_only():
    sandbox = LazySandbox(UNSAFE)
    assert sandbox.for_kind("output") is None
    try:
        built = sandbox.for_kind("stdin")
        assert built is not None
        assert built is sandbox.for_kind("call")
        assert built.run(Program(source="print(6 * 7)")).stdout == "42\n"
    finally:
        sandbox.close()


def test_programs_find_numpy_loaded():
    source = "import sys\nprint('numpy' in sys.modules)\nimport numpy"
    sandbox = LazySandbox(UNSAFE)
    try:
        built = sandbox.for_kind("stdin")
        assert built is not None
        assert built.run(Program(source=source)).stdout == "True\n"
    finally:
        sandbox.close()


def test_programs_stay_on_the_core_they_are_given():
    core = max(os.sched_getaffinity(0))
    sandbox = LazySandbox(UNSAFE, cpu=core)
    try:
        built = sandbox.for_kind("stdin")
        assert built is not None
        source = "import os\nprint(os.sched_getaffinity(0))"
        assert built.run(Program(source=source)).stdout == f"{{{core}}}\n"
    finally:
        sandbox.close()


def test_core_that_is_not_there_is_no_obstacle():
    sandbox = LazySandbox(UNSAFE, cpu=1 << 20)
    try:
        built = sandbox.for_kind("stdin")
        assert built is not None
        assert built.run(Program(source="print(1)")).status == "OK"
    finally:
        sandbox.close()


def test_level_is_told_once_there_is_a_sandbox():
    sandbox = LazySandbox(UNSAFE)
    try:
        assert sandbox.level == ""
        built = sandbox.for_kind("stdin")
        assert built is not None
        assert sandbox.level == built.level.value
    finally:
        sandbox.close()


# The process.


def processor_seconds(pid: int) -> float:
    """User time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


class Started:
    """A worker process and our end of its channel."""

    def __init__(self, deadline_s: float):
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jaxgrpo.host.worker", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                cwd=Path(__file__).parents[2],
            )
        self.channel = Channel(ours)
        setup = Setup(
            rewards=tuple(map(reward_spec, ("exact", "similarity"))),
            deadline_s=deadline_s,
            sandbox=SandboxSettings(),
            parent_pid=os.getpid(),
        )
        self.channel.send(setup)
        assert isinstance(self.next_message(), Ready)
        self.start_cpu_s = processor_seconds(self.process.pid)

    def next_message(self) -> object:
        while not (messages := self.channel.receive()):
            assert not self.channel.is_closed
            self.channel.wait(1.0)
        ((message, _),) = messages
        return message


@pytest.fixture
def start_worker() -> Iterator[Callable[[float], Started]]:
    started: list[Started] = []

    def start(deadline_s: float) -> Started:
        started.append(Started(deadline_s))
        return started[-1]

    yield start
    for worker in started:
        worker.channel.close()
        worker.process.kill()
        worker.process.wait()


def test_worker_answers_until_its_parent_hangs_up(
    start_worker: Callable[[float], Started], make_group: Callable[..., Group]
):
    worker = start_worker(60.0)
    for job_id in range(3):
        worker.channel.send(job_of(make_group("5", "5"), job_id))
        answer = worker.next_message()
        assert isinstance(answer, Answer)
        assert answer.id == job_id
        assert answer.scores[0].rewards == {"exact": 1.0, "similarity": 1.0}
    worker.channel.close()
    assert worker.process.wait(30.0) == 0


def test_worker_ignores_interruptions(
    start_worker: Callable[[float], Started], make_group: Callable[..., Group]
):
    worker = start_worker(60.0)
    worker.process.send_signal(signal.SIGINT)
    worker.channel.send(job_of(make_group("5", "5")))
    assert isinstance(worker.next_message(), Answer)


def test_worker_loads_no_jax(start_worker: Callable[[float], Started]):
    maps = Path(f"/proc/{start_worker(60.0).process.pid}/maps").read_text()
    assert "numpy" in maps
    assert "jaxlib" not in maps


def test_busy_worker_without_a_parent_ends_at_its_deadline(
    start_worker: Callable[[float], Started], endless_group: Group
):
    worker = start_worker(0.1)
    worker.channel.send(job_of(endless_group))
    # On a crowded machine the alarm may come before the worker has got that far.
    while processor_seconds(worker.process.pid) < worker.start_cpu_s + 0.1:
        if worker.process.poll() is not None:
            break
        time.sleep(0.02)
    worker.channel.close()
    assert worker.process.wait(60.0) == -signal.SIGALRM


def test_worker_started_by_hand_says_who_starts_it():
    done = subprocess.run(
        [sys.executable, "-m", "jaxgrpo.host.worker"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "jaxgrpo.host.scorer.Scorer" in done.stderr
