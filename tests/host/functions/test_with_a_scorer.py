"""User functions behind a scorer: in its workers, and in what it tells."""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Group
from jaxgrpo.host.rewards import RewardSpec
from jaxgrpo.host.rewards.function import Settings
from jaxgrpo.host.scorer import Scorer

MINE = """
import os, signal

def staged(completions, trainer_state, **kwargs):
    print("hello")
    return [trainer_state.global_step / trainer_state.max_steps] * len(completions)

def kills_its_parent(completions, **kwargs):
    if "6" in completions:
        os.kill(os.getppid(), signal.SIGKILL)
    return [1.0] * len(completions)

def counts_itself(completions, log_metric, **kwargs):
    log_metric("pid", os.getpid())
    return [1.0] * len(completions)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("functions") / "mine.py"
    path.write_text(MINE)
    return path


def scorer_of(file: Path, *names: str) -> Scorer:
    specs = [
        RewardSpec(
            name=name, kind="function", settings=Settings(function=f"{file}:{name}")
        )
        for name in names
    ]
    return Scorer(
        num_workers=1, rewards=["exact", *specs], deadline_s=60.0,
        sandbox=SandboxSettings(), num_steps=8,
    )  # fmt: skip


@pytest.fixture(scope="module")
def scorer(file: Path) -> Iterator[Scorer]:
    with scorer_of(file, "staged", "counts_itself") as scorer:
        yield scorer


def test_rewards_are_in_the_order_of_the_configuration(
    scorer: Scorer, make_group: Callable[..., Group]
):
    scores = scorer.submit(make_group("5", "5", "6"), step=2).result()
    assert [list(score.rewards.values()) for score in scores] == [
        [1.0, 0.25, 1.0],
        [0.0, 0.25, 1.0],
    ]


def test_verdicts_can_be_had_without_rewards(
    scorer: Scorer, make_group: Callable[..., Group]
):
    (score,) = scorer.submit(make_group("5", "5"), wants_rewards=False).result()
    assert score.rewards == {}
    assert score.verdict is not None and score.verdict.is_correct


def test_process_serves_group_after_group(
    scorer: Scorer, make_group: Callable[..., Group]
):
    pids = {
        scorer.submit(make_group("5", text)).result()[0].logged["pid"]
        for text in ("5", "6", "7")
    }
    assert len(pids) == 1
    assert pids.isdisjoint({os.getpid(), *scorer.worker_pids})


def test_what_a_function_writes_is_told_once(
    scorer: Scorer, make_group: Callable[..., Group]
):
    scorer.submit(make_group("5", "5")).result()
    assert scorer.take_outputs() == {"staged": "hello"}
    scorer.submit(make_group("5", "5")).result()
    assert scorer.take_outputs() == {}


def test_worker_that_a_function_takes_down_is_replaced(
    file: Path, make_group: Callable[..., Group]
):
    with scorer_of(file, "kills_its_parent") as scorer:
        (lost,) = scorer.submit(make_group("5", "6")).result()
        (score,) = scorer.submit(make_group("5", "5")).result()
    assert math.isnan(lost.rewards["exact"]) and "workers died" in lost.abstain_reason
    assert score.rewards == {"exact": 1.0, "kills_its_parent": 1.0}


def test_function_that_cannot_be_had_is_told_before_any_worker_starts(file: Path):
    message = r"rewards\.stagd: .* has no 'stagd'\. Did you mean staged\?"
    with pytest.raises(ValueError, match=message):
        scorer_of(file, "stagd")
