"""Credit by execution in whole runs: what they leave, and that they can be repeated."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgrpo.config_loading import load_config
from jaxgrpo.glossary import definition
from jaxgrpo.rollout_table import read_rollouts
from tests.resumed_runs import check_equal, whole_and_resumed

RUN = """
[run]
num_steps = 2
[model]
checkpoint = "builtin:mini_programs_base"
[data]
dataset = "mini_programs"
cache_dir = "{cache}"
num_train = 64
num_validation = 8
num_test = 16
[prompt]
max_prompt_tokens = 128
[sampling]
problems_per_step = 8
group_size = 4
max_new_tokens = 56
[scorer]
extraction = "raw"
num_workers = 1
[rewards.tests]
[objective]
preset = "grpo"
[credit]
method = "egca"
localization = "random"
prompt_constraints = true
[evaluation]
num_problems = 8
samples_per_problem = 2
pass_at = [1]
batch_problems = 8
[checkpoint]
every_steps = 1
keep = 9
[log]
wandb = "disabled"
console = "quiet"
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any, session_cache: Path) -> tuple[Path, Path]:
    """A whole run, and one that was put back to its first step and made again."""
    folder = tmp_path_factory.mktemp("credit")
    path = folder / "run.toml"
    path.write_text(RUN.format(cache=session_cache))
    config = load_config(path, [])
    return whole_and_resumed(config, folder, 2)


def lines(run: Path) -> list[dict[str, float]]:
    return [
        json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()
    ]


@pytest.mark.slow
def test_a_run_shows_where_its_completions_went_wrong(runs):
    whole, _ = runs
    rows = read_rollouts(whole).to_pylist()
    blames = [json.loads(row["extra"])["blame"] for row in rows]
    assert {"correct", "logic"} <= {blame["mode"] for blame in blames}
    focused = [row for row in rows if len(set(row["credit"])) > 1]
    assert focused
    for row in rows:
        length = len(row["token_ids"])
        assert np.sum(row["credit"]) == pytest.approx(length, rel=1e-5)
        assert "Keep to this:\n- Define the function f with" in row["prompt"]
    for row in focused:
        (span,) = [span for span in row["spans"] if span["label"] == "blame"]
        credited = np.flatnonzero(row["credit"])
        offsets = np.array(row["offsets"])[credited]
        assert row["advantage"] <= 0
        assert offsets[0][0] <= span["start"] < offsets[0][1]
        assert offsets[-1][0] < span["end"] <= offsets[-1][1]


@pytest.mark.slow
def test_metrics_of_a_run_are_defined_and_sum_up(runs):
    whole, _ = runs
    for line in lines(whole):
        names = [name for name in line if name.startswith("credit/")]
        assert {"credit/focused_share", "credit/spared_share"} <= set(names)
        assert all(definition(name) for name in names)
        shares = [line[name] for name in names if name.startswith("credit/mode/")]
        assert sum(shares) == pytest.approx(1.0)
        assert line["timing_s/blame"] > 0


@pytest.mark.slow
def test_evaluations_are_asked_without_constraints(runs):
    whole, _ = runs
    generations = next((whole / "evaluations").rglob("*.parquet"))
    import pyarrow.parquet as pq

    prompts = pq.ParquetFile(generations).read(["prompt"]).to_pylist()
    assert prompts and not any("Keep to this" in row["prompt"] for row in prompts)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_bit_for_bit(runs):
    check_equal(*runs, "token_ids", "trainer_logprobs", "advantage", "credit", "spans")
