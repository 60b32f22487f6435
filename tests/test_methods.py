"""Methods in the loop: a run that is interrupted goes on as if it had not been.

Each case is a small run, over eight devices, that is made whole, put back to its second
step, and made again from there. In this process, so that all share their programs.
"""

from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config
from jaxgrpo.glossary import definition
from jaxgrpo.rollout_table import read_rollouts
from tests.resumed_runs import check_equal, lines, whole_and_resumed

RUN = """
[run]
num_steps = 4
[model]
checkpoint = "builtin:output_prediction_base"
[data]
cache_dir = "{cache}"
num_train = 20
num_validation = 8
num_test = 12
build_workers = 1
[prompt]
max_prompt_tokens = 80
[sampling]
problems_per_step = 8
group_size = 4
max_new_tokens = 12
[scorer]
num_workers = 1
[rewards.exact]
[optimizer]
learning_rate = 1e-3
[evaluation]
num_problems = 8
samples_per_problem = 4
pass_at = [1]
batch_problems = 8
[checkpoint]
every_steps = 2
keep = 9
[log]
wandb = "disabled"
console = "quiet"
"""

CASES: dict[str, list[str]] = {
    "groups": ["replay.method=groups", "replay.max_staleness=3"],
    "samples": [
        "replay.method=samples", "replay.min_stored=4", "replay.max_stored=4",
        "replay.num_replays=2", "replay.factor=0.5", "dynamic_sampling.max_tries=1",
        "truncation_mask.probability=0.5", "truncation_mask.repeat_tokens=2",
    ],
    "mixed": [
        "replay.method=samples", "replay.min_stored=4", "replay.max_stored=4",
        "replay.num_replays=4", "replay.normalization=mixed",
    ],
    "curriculum": [
        "curriculum.tag=difficulty", 'curriculum.order=["trivial","easy","medium"]',
        "curriculum.min_groups=4", "curriculum.open_at=0.0", "curriculum.floor=0.5",
    ],
    "temperature": [
        "temperature.then=[1.5,2.0]", "temperature.target=1.0", "temperature.window=2",
        "temperature.min_stage_steps=1", "temperature.slope=0.0",
        "temperature.calibration_problems=2",
    ],
}  # fmt: skip
"""Overrides of each case, by name."""


@pytest.fixture(scope="module")
def config_of(tmp_path_factory: Any, session_cache: Path) -> Any:
    path = tmp_path_factory.mktemp("methods") / "run.toml"
    path.write_text(RUN.format(cache=session_cache))
    return lambda overrides: load_config(path, overrides)


@pytest.fixture(scope="module", params=CASES)
def runs(
    request: Any, config_of: Any, tmp_path_factory: Any
) -> tuple[Config, Path, Path]:
    """A whole run, and one that was put back to its second step and made again."""
    config = config_of(CASES[request.param])
    folder = tmp_path_factory.mktemp(request.param)
    return config, *whole_and_resumed(config, folder, 4)


def test_an_interrupted_run_goes_on_bit_for_bit(runs):
    _, whole, again = runs
    check_equal(
        whole, again, "token_ids", "sampler_logprobs", "trainer_logprobs",
        "advantage", "policy_step", "problem_id",
    )  # fmt: skip


def test_every_metric_of_a_method_is_defined(runs):
    _, whole, _ = runs
    names = {name for line in lines(whole) for name in line} - {"step", "histograms"}
    assert [name for name in sorted(names) if definition(name) is None] == []


def test_stored_completions_are_learned_from(runs):
    config, whole, _ = runs
    if config.replay.method == "none":
        pytest.skip("nothing is replayed in this case")
    rows = read_rollouts(whole).to_pylist()
    stored = [row for row in rows if row["policy_step"] < row["step"] - 1]
    assert stored
    assert any(row["advantage"] for row in stored)


def test_a_run_changes_its_temperature_by_the_diversity(config_of, runs):
    config, whole, _ = runs
    seen = [line["sampling/temperature"] for line in lines(whole)]
    if config.temperature.then:
        assert seen[0] == 1.0 and seen == sorted(seen) and seen[-1] > 1.0
    else:
        assert set(seen) == {1.0}
