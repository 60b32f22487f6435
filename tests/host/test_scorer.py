import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Group, Score
from jaxgrpo.host.scorer import MAX_WORKERS, Scorer
from tests.host.sandbox.processes import (
    becomes_true,
    descendants_of,
    num_descriptors,
)
from tests.host.sandbox.processes import is_alive as is_running

REPOSITORY = Path(__file__).parents[2]
MakeGroup = Callable[..., Group]


def scorer_of(
    num_workers: int = 1,
    deadline_s: float = 60.0,
    rewards: tuple[str, ...] = ("exact",),
) -> Scorer:
    return Scorer(
        num_workers=num_workers,
        rewards=rewards,
        deadline_s=deadline_s,
        sandbox=SandboxSettings(),
    )


@pytest.fixture(scope="module")
def scorer() -> Iterator[Scorer]:
    """One worker that all tests may use which do it no harm."""
    with scorer_of() as scorer:
        yield scorer


def classes(scores: list[Score]) -> list[str]:
    return [score.error_class for score in scores]


def is_alive(pid: int) -> bool:
    """Whether a process or any other member of its group is left."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def has_ended_within(seconds: float, *pids: int) -> bool:
    until_s = time.monotonic() + seconds
    while any(is_alive(pid) for pid in pids) and time.monotonic() < until_s:
        time.sleep(0.02)
    return not any(is_alive(pid) for pid in pids)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# Scores.


def test_scores_are_aligned_with_completions(scorer: Scorer, make_group: MakeGroup):
    scores = scorer.submit(make_group("5", "6", "5", " 5", "five")).result()
    assert classes(scores) == ["wrong_value", "exact", "wrong_repr", "not_one_literal"]
    assert [score.rewards["exact"] for score in scores] == [0.0, 1.0, 0.0, 0.0]


def test_result_can_be_asked_for_twice(scorer: Scorer, make_group: MakeGroup):
    future = scorer.submit(make_group("5", "5"))
    assert future.result() is future.result()
    assert future.is_done


def test_group_without_completions_has_no_scores(scorer: Scorer, make_group: MakeGroup):
    assert scorer.submit(make_group("5")).result() == []


def test_every_result_belongs_to_its_group_under_load(make_group: MakeGroup):
    generator = random.Random(0)
    sizes = [generator.choice([0, 1, 8, 30]) for _ in range(60)]
    groups = [
        make_group("0", *[str(i % 2) * (i + 1) for i in range(size)], problem_id=str(n))
        for n, size in enumerate(sizes)
    ]
    with scorer_of(num_workers=2, rewards=("similarity", "exact")) as scorer:
        futures = [scorer.submit(group) for group in groups]
        order = generator.sample(range(len(groups)), len(groups))
        results = {n: futures[n].result() for n in order}
    for n, group in enumerate(groups):
        assert [s.extracted for s in results[n]] == [c.text for c in group.completions]
        assert all(list(s.rewards) == ["similarity", "exact"] for s in results[n])
        assert classes(results[n])[:1] == ["exact"][: sizes[n]]


def test_any_thread_may_submit_and_wait(make_group: MakeGroup):
    failures: list[object] = []

    def work(name: str) -> None:
        for n in range(20):
            group = make_group(str(n), str(n), "x", problem_id=f"{name}-{n}")
            if classes(scorer.submit(group).result()) != ["exact", "not_one_literal"]:
                failures.append((name, n))

    with scorer_of(num_workers=2) as scorer:
        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert scorer.counters()["rows"] == 4 * 20 * 2
    assert not failures


def test_megabytes_go_through(scorer: Scorer, make_group: MakeGroup):
    groups = [
        make_group("5", *[str(n) * 50_000] * 8, problem_id=str(n)) for n in range(6)
    ]
    futures = [scorer.submit(group) for group in groups]
    for future in futures:
        assert classes(future.result()) == ["not_one_literal"] * 8


# The cache.


def test_repeated_texts_are_judged_once(scorer: Scorer, make_group: MakeGroup):
    group = make_group("5", "5", "6", "5", "5", problem_id="repeated")
    before = scorer.counters()["cache_hits"]
    first = scorer.submit(group).result()
    assert scorer.counters()["cache_hits"] == before + 2
    second = scorer.submit(group).result()
    assert scorer.counters()["cache_hits"] == before + 2 + 4
    untimed = [[replace(s, timings={}) for s in scores] for scores in (first, second)]
    assert untimed[0] == untimed[1]


def test_verdict_of_another_problem_is_not_used(scorer: Scorer, make_group: MakeGroup):
    assert classes(scorer.submit(make_group("5", "5")).result()) == ["exact"]
    other = make_group("6", "5", problem_id="q")
    assert classes(scorer.submit(other).result()) == ["wrong_value"]


def test_same_program_in_other_words_is_judged_once(
    programs_scorer: Scorer, make_program_group: MakeGroup
):
    group = make_program_group("print(2 * int(input()))")
    (completion,) = group.completions
    reworded = replace(completion, text="Thus.\n" + completion.text)
    group = replace(group, completions=(completion, reworded, completion))
    before = programs_scorer.counters()["cache_hits"]
    scores = programs_scorer.submit(group).result()
    assert [score.verdict and score.verdict.status for score in scores] == ["OK"] * 3
    assert programs_scorer.counters()["cache_hits"] == before + 2


# Programs.


@pytest.fixture(scope="module")
def programs_scorer() -> Iterator[Scorer]:
    """One worker with a sandbox."""
    with scorer_of() as scorer:
        yield scorer


def test_programs_are_run_and_counted_by_verdict(
    programs_scorer: Scorer, make_program_group: MakeGroup
):
    group = make_program_group("print(input())", "1 / 0", "x =", problem_id="counted")
    before = programs_scorer.counters()
    scores = programs_scorer.submit(group).result()
    assert [score.verdict and score.verdict.status for score in scores] == [
        "WA",
        "RE",
        "CE",
    ]
    after = programs_scorer.counters()
    for status in ("WA", "RE", "CE"):
        name = f"verdict/{status}"
        assert after[name] == before.get(name, 0) + 1


def test_metrics_tell_level_hits_and_restarts(
    programs_scorer: Scorer, make_program_group: MakeGroup
):
    group = make_program_group("print(42)", problem_id="metrics")
    for _ in range(2):
        programs_scorer.submit(group).result()
    metrics = programs_scorer.metrics()
    counters = programs_scorer.counters()
    rate = counters["cache_hits"] / counters["rows"]
    assert metrics["perf/cache_hit_rate"] == rate > 0
    assert metrics["perf/scorer_restarts"] == 0
    levels = [name for name in metrics if name.startswith("perf/sandbox_level/")]
    assert [metrics[name] for name in levels] == [1.0]
    assert levels[0][-1] in "AB"


def test_no_level_is_told_before_the_first_program(
    make_group: MakeGroup,
):
    with scorer_of() as scorer:
        scorer.submit(make_group("5", "5")).result()
        names = {"perf/cache_hit_rate", "perf/scorer_restarts"}
        assert set(scorer.metrics()) == names


@pytest.mark.parametrize(
    "num_runs", [300, pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_runs_leave_no_process_descriptor_or_file(
    num_runs: int,
    make_program_group: MakeGroup,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kinds = [
        "print(2 * int(input()))  # {n}",
        "raise ValueError({n})",
        "x = {n} =",
        "import os\nos._exit({n} % 3)",
        "import sys\nsys.stdout.write('{n}' * 5000)",
    ]

    def groups(first: int, last: int) -> Iterator[Group]:
        for start in range(first, last, 10):
            sources = [kinds[n % 5].format(n=n) for n in range(start, start + 10)]
            yield make_program_group(*sources, problem_id=str(start))

    def score(first: int, last: int) -> None:
        futures = [scorer.submit(group) for group in groups(first, last)]
        scores = [score for future in futures for score in future.result()]
        assert not [
            s for s in scores if s.verdict is None or s.verdict.status == "INFRA"
        ]

    with scorer_of(num_workers=2) as scorer:
        score(0, 100)
        pids = [os.getpid(), *sorted(descendants_of(os.getpid()))]
        descriptors = [num_descriptors(pid) for pid in pids]
        memory = [resident_bytes(pid) for pid in pids[1:]]
        score(100, num_runs + 100)
        assert [os.getpid(), *sorted(descendants_of(os.getpid()))] == pids
        assert [num_descriptors(pid) for pid in pids] == descriptors
        assert os.listdir(tmp_path) == []
        for before, pid in zip(memory, pids[1:], strict=True):
            assert resident_bytes(pid) < before + 16 * 2**20
        assert scorer.counters()["restarts"] == 0


def resident_bytes(pid: int) -> int:
    """Memory of a process that is its own, without files it shares."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("RssAnon")]
    return int(line.split()[1]) * 1024


def test_package_that_is_not_installed_is_refused_at_once():
    settings = SandboxSettings(packages=("no_such_package",))
    with pytest.raises(ValueError, match="'no_such_package' is not installed"):
        Scorer(num_workers=1, rewards=["exact"], deadline_s=60.0, sandbox=settings)


REFUSED_SCRIPT = """
import sys
sys.path.insert(0, {repository!r})
from tests.host.sandbox.restricted import deny_calls
from tests.host.conftest import program_group_of
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.scorer import Scorer

deny_calls(["unshare"])
settings = SandboxSettings(level="A", minimum_level="A")
with Scorer(
    num_workers=1, rewards=["exact"], deadline_s=60.0, sandbox=settings
) as scorer:
    try:
        scorer.submit(program_group_of("print(1)")).result()
    except RuntimeError as error:
        print(error)
"""


def test_sandbox_below_the_minimum_is_an_error_that_says_what_is_missing():
    script = REFUSED_SCRIPT.format(repository=str(REPOSITORY))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert "level A: unshare: Operation not permitted" in done.stdout, done.stderr
    assert "user.max_user_namespaces" in done.stdout


# Misfortune.


def test_groups_survive_the_death_of_their_worker(make_group: MakeGroup):
    with scorer_of() as scorer:
        scorer.submit(make_group("0", "0")).result()
        (pid,) = scorer.worker_pids
        os.kill(pid, signal.SIGSTOP)
        groups = [make_group(str(n), "7", problem_id=str(n)) for n in range(20)]
        futures = [scorer.submit(group) for group in groups]
        os.kill(pid, signal.SIGKILL)
        for n, future in enumerate(futures):
            assert classes(future.result()) == ["exact" if n == 7 else "wrong_value"]
        assert scorer.counters()["restarts"] == 1
        assert scorer.counters()["infra"] == 0
        # The next one dies with nothing to do.
        os.kill(scorer.worker_pids[0], signal.SIGKILL)
        assert classes(scorer.submit(make_group("5", "6")).result()) == ["wrong_value"]
        assert scorer.counters()["restarts"] == 2


def test_group_that_two_workers_die_over_abstains(
    make_group: MakeGroup, endless_group: Group
):
    with scorer_of(rewards=("similarity",)) as scorer:

        def kill_whoever_works() -> None:
            for _ in range(2):
                while not any(it.is_ready and it.jobs for it in scorer._workers):
                    time.sleep(0.01)
                (pid,) = scorer.worker_pids
                os.kill(pid, signal.SIGKILL)
                while scorer.worker_pids == (pid,):
                    time.sleep(0.01)

        future = scorer.submit(endless_group)
        after = scorer.submit(make_group("5", "5"))
        killer = threading.Thread(target=kill_whoever_works)
        killer.start()
        scores = future.result()
        killer.join()
        assert classes(scores) == ["infra"] * len(endless_group.completions)
        assert all(math.isnan(score.rewards["similarity"]) for score in scores)
        reason = "2 workers died, the last with exit status -9"
        assert scores[0].abstain_reason == reason
        assert classes(after.result()) == ["exact"]
        assert scorer.counters()["infra"] == len(scores)


def test_group_that_takes_too_long_abstains(
    make_group: MakeGroup, endless_group: Group
):
    with scorer_of(rewards=("similarity",), deadline_s=2.0) as scorer:
        before = scorer.submit(make_group("5", "5"))
        late = scorer.submit(endless_group)
        after = scorer.submit(make_group("6", "6", problem_id="q"))
        assert classes(after.result()) == ["exact"]
        assert classes(before.result()) == ["exact"]
        scores = late.result()
        assert classes(scores) == ["infra"] * len(endless_group.completions)
        assert scores[0].verdict is not None
        assert scores[0].verdict.status == "INFRA"
        assert scores[0].abstain_reason == "no scores within 2 s"
        assert scorer.counters()["restarts"] == 1


def test_stopped_worker_is_replaced_at_the_deadline(make_group: MakeGroup):
    with scorer_of(deadline_s=1.5) as scorer:
        scorer.submit(make_group("5", "5")).result()
        futures = [scorer.submit(make_group("5", str(n))) for n in range(3)]
        time.sleep(2.0)  # answered in time, and only heard of now
        assert [classes(future.result()) for future in futures] == [["wrong_value"]] * 3
        (pid,) = scorer.worker_pids
        os.kill(pid, signal.SIGSTOP)
        assert classes(scorer.submit(make_group("5", "6")).result()) == ["infra"]
        assert not is_alive(pid)
        assert classes(scorer.submit(make_group("5", "6")).result()) == ["wrong_value"]


def test_workers_that_cannot_start_are_an_error(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with scorer_of() as scorer, pytest.raises(RuntimeError, match="exit status 1"):
        scorer.submit(make_group("5", "5")).result()


# The end.


def test_closing_leaves_no_process_and_no_descriptor(
    make_group: MakeGroup, endless_group: Group
):
    scorer_of().close()
    num_descriptors = open_descriptors()
    pids: set[int] = set()
    with scorer_of(num_workers=2, rewards=("similarity",), deadline_s=0.5) as scorer:
        futures = [scorer.submit(make_group("5", "5"))]
        for _ in range(2):
            futures.append(scorer.submit(endless_group))
            pids.update(scorer.worker_pids)
        for future in futures:
            future.result()
        pids.update(scorer.worker_pids)
        scorer.submit(endless_group)
    assert len(pids) >= 3
    assert not any(is_alive(pid) for pid in pids)
    assert open_descriptors() == num_descriptors


def test_closed_scorer_says_so(make_group: MakeGroup, endless_group: Group):
    scorer = scorer_of(rewards=("similarity",))
    done = scorer.submit(make_group("5", "5"))
    done.result()
    future = scorer.submit(endless_group)
    scorer.close()
    scorer.close()
    with pytest.raises(RuntimeError, match="closed"):
        future.result()
    with pytest.raises(RuntimeError, match="closed"):
        scorer.submit(endless_group)
    assert classes(done.result()) == ["exact"]


BUSY_SCRIPT = """
import os, sys
import numpy as np
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Completion, Group, Problem
from jaxgrpo.host.scorer import Scorer

completion = Completion(
    problem_id="p", token_ids=np.zeros(1, np.int32), text="ab" * 220,
    token_offsets=np.zeros((1, 2), np.int32), finish_reason="eos",
    sampler_logprobs=np.zeros(1, np.float32),
)
problem = Problem(id="p", kind="output", prompt="", reference="a" * 440)
group = Group(problem=problem, prompts=(), completions=(completion,) * 1000)
with Scorer(
    num_workers=2, rewards=["similarity"], deadline_s=2.0, sandbox=SandboxSettings()
) as scorer:
    scorer.submit(Group(problem=problem, prompts=(), completions=())).result()
    future = scorer.submit(group)
    print(*scorer.worker_pids, flush=True)
    future.result()
    sys.exit("the group was not endless")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_parent(number: signal.Signals):
    parent = subprocess.Popen(
        [sys.executable, "-c", BUSY_SCRIPT],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        # As a terminal does: to all processes of the foreground group.
        os.killpg(parent.pid, number)
        _, errors = parent.communicate(timeout=30.0)
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert has_ended_within(15.0, *pids)


SLEEPING_SCRIPT = """
import sys
sys.path.insert(0, {repository!r})
from tests.host.conftest import program_group_of
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.scorer import Scorer

settings = SandboxSettings(cpu_s=50.0, wall_s=60.0)
source = "import signal, time\\nsignal.signal(15, signal.SIG_IGN)\\ntime.sleep(60)"
with Scorer(
    num_workers=1, rewards=["exact"], deadline_s=5.0, sandbox=settings
) as scorer:
    scorer.submit(program_group_of("print(1)")).result()
    future = scorer.submit(program_group_of(source))
    print("ready", flush=True)
    future.result()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_program_outlives_the_scorer(number: signal.Signals):
    # Killed, it cannot tell its workers; they end at their deadline, 5 seconds.
    script = SLEEPING_SCRIPT.format(repository=str(REPOSITORY))
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        # Worker, zygote (two processes at level A) and program.
        assert becomes_true(lambda: len(descendants_of(parent.pid)) >= 3)
        time.sleep(0.2)
        started = descendants_of(parent.pid)
        os.killpg(parent.pid, number)
        _, errors = parent.communicate(timeout=30.0)
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
    assert becomes_true(lambda: not any(map(is_running, started)))


# Refusals.


def test_kind_without_a_judge_is_refused_at_once(scorer: Scorer, make_group: MakeGroup):
    group = make_group("5", "5")
    group = replace(group, problem=replace(group.problem, kind="essay"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'essay'"):
        scorer.submit(group)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": -1}, "num_workers is -1"),
        ({"deadline_s": 0.0}, "deadline_s is 0.0"),
        ({"deadline_s": math.nan}, "deadline_s is nan"),
        ({"rewards": ("exakt",)}, "Did you mean 'exact'"),
        ({"rewards": ("exact", "exact")}, "more than once"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        scorer_of(**arguments)


def test_zero_workers_means_one_per_core():
    with scorer_of(num_workers=0) as scorer:
        assert len(scorer.worker_pids) == min(len(os.sched_getaffinity(0)), MAX_WORKERS)
