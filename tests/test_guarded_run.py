"""A run that pays itself for being sure, and the guard that ends it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgrpo.metrics_log import read_metrics

CONFIG = """
[run]
num_steps = 9

[model]
preset = "qwen3-tiny"
tokenizer = "builtin:output_prediction_tokenizer"

[data]
cache_dir = "{cache}"
num_train = 10
num_validation = 8
num_test = 12
build_workers = 1

[prompt]
max_prompt_tokens = 60

[sampling]
problems_per_step = 4
group_size = 4
max_new_tokens = 8

[scorer]
num_workers = 1

[rewards.entropy]
weight = 1.0

[guard]
window_steps = 1
min_entropy_ratio = 0.97
max_falling = 0

[optimizer]
learning_rate = 1e-1

[evaluation]
num_problems = 4
samples_per_problem = 2
pass_at = [1]
batch_problems = 4

[log]
wandb = "disabled"
console = "plain"
"""


@pytest.mark.slow
def test_run_that_collapses_ends_whole(tmp_path: Path):
    path, run = tmp_path / "collapse.toml", tmp_path / "run"
    path.write_text(CONFIG.format(cache=tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, "-m", "jaxgrpo.cli", "train", str(path), "--run", str(run)],
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((run / "summary.json").read_text())
    num_steps = summary["num_steps"]
    assert 1 < num_steps < 9
    assert "below guard.min_entropy_ratio 0.97" in summary["stopped_because"]
    assert f"stopped after step {num_steps}: " in done.stdout + done.stderr
    lines = read_metrics(run)
    assert [line["guard/entropy_ratio"] < 0.97 for line in lines] == [
        *[False] * (num_steps - 1),
        True,
    ]
    assert (run / "checkpoints" / str(num_steps)).is_dir()
    assert (run / "export").is_dir() and "after" in summary
