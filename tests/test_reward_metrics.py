"""What a step's log says of rewards, and when they stop a run."""

import math
from pathlib import Path

import numpy as np
import pytest

from jaxgrpo.evaluate import check_errors
from jaxgrpo.glossary import definition
from jaxgrpo.host.judge import infra_verdict
from jaxgrpo.host.records import Completion, Group, Problem, Score, Verdict
from jaxgrpo.host.rewards.histogram import NUM_BINS, Histogram, histogram_of
from jaxgrpo.metrics_log import MetricLog, read_histograms, read_metrics
from jaxgrpo.step_metrics import (
    failures_of,
    logged_metrics,
    reward_histograms,
    reward_metrics,
)

WRONG = Verdict(status="WA", error_class="wrong_value")


def score(value: float, **more: object) -> Score:
    return Score(rewards={"mine": value}, verdict=WRONG, **more)  # type: ignore[arg-type]


def group_of(*scores: Score) -> Group:
    completion = Completion(
        problem_id="p",
        token_ids=np.zeros(1, np.int32),
        text="",
        token_offsets=np.zeros((1, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(1, np.float32),
    )
    problem = Problem(id="p", kind="output", prompt="", reference="")
    completions = (completion,) * len(scores)
    return Group(problem=problem, prompts=(), completions=completions, scores=scores)


FAILED = score(math.nan, failures={"mine": "KeyError: 'x' (mine.py, line 3)"})
SHY = score(math.nan)


def test_failing_is_told_from_abstaining():
    metrics = reward_metrics([group_of(score(1.0), FAILED, SHY, SHY)], {"mine": 1.0})
    assert metrics["rewards/mine/abstained"] == 0.75
    assert metrics["rewards/mine/failed"] == 0.25
    assert failures_of([group_of(score(1.0), FAILED)]) == {
        "mine": ["KeyError: 'x' (mine.py, line 3)"]
    }


def test_time_of_a_reward_is_summed_over_rows():
    rows = [score(1.0, timings={"reward/mine": 0.25})] * 3
    metrics = reward_metrics([group_of(*rows)], {"mine": 1.0})
    assert metrics["timing_s/reward/mine"] == 0.75


def test_logged_numbers_are_averaged_over_the_rows_that_have_them():
    scores = [
        score(1.0, logged={"depth": 1.0, "a/b": 5.0}),
        score(1.0, logged={"depth": 4.0}),
        SHY,
    ]
    metrics = logged_metrics(scores)
    assert metrics == {"user/a/b": 5.0, "user/depth": 2.5}
    assert all(definition(name) for name in metrics)


def test_histogram_counts_what_did_not_abstain():
    values = [0.0, 0.04, 0.5, 1.0, 1.0]
    groups = [group_of(*map(score, values)), group_of(SHY)]
    (histogram,) = reward_histograms(groups, ["mine"]).values()
    counts, edges = np.histogram(values, bins=20, range=(0.0, 1.0))
    assert histogram == Histogram(
        edges=tuple(edges.tolist()), counts=tuple(counts.tolist())
    )
    assert reward_histograms([group_of(SHY)], ["mine"]) == {}


def test_histogram_of_equal_values_has_them_in_its_middle():
    histogram = histogram_of([2.0] * 7)
    assert histogram is not None
    assert (histogram.edges[0], histogram.edges[-1]) == (1.5, 2.5)
    assert histogram.counts[NUM_BINS // 2] == 7


def test_histograms_stand_beside_the_metrics_of_their_step(tmp_path: Path):
    first, second = histogram_of([0.0, 1.0]), histogram_of([0.25])
    assert first is not None and second is not None
    with MetricLog(tmp_path, wandb_mode="disabled", project="p", config={}) as log:
        log.write(1, {"reward": 0.5}, {"rewards/mine": first})
        log.write(2, {"reward": math.nan})
        log.write(3, {"reward": 0.25}, {"rewards/mine": second})
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 3]
    assert all("histograms" not in line for line in read_metrics(tmp_path))
    assert read_histograms(tmp_path) == {
        1: {"rewards/mine": first},
        3: {"rewards/mine": second},
    }


def test_reward_that_fails_too_often_stops_the_run_in_a_line():
    groups = [group_of(score(1.0), FAILED, FAILED, FAILED)]
    check_errors(groups, 0.75)
    with pytest.raises(RuntimeError) as caught:
        check_errors(groups, 0.5)
    assert str(caught.value) == (
        "rewards.mine failed on 3 of 4 completions, more than scorer.max_error_share "
        "0.5 allows: KeyError: 'x' (mine.py, line 3). Mend it, or raise the limit."
    )


def test_rewards_that_abstain_stop_nothing():
    check_errors([group_of(SHY, SHY)], 0.0)


def test_rows_that_could_not_be_judged_count_as_before():
    infra = Score(rewards={"mine": math.nan}, verdict=infra_verdict("no disk"))
    with pytest.raises(RuntimeError, match="100% of 2 rows could not be scored"):
        check_errors([group_of(infra, infra)], 0.5)
