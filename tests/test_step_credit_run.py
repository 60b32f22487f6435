"""Credit by steps in whole runs: what they leave, and that they can be repeated.

The problems are those of a file with recorded steps, which the shipped base now and
then answers: its answer is the last step, and the step before it is missing.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgrpo.config_data import DataConfig
from jaxgrpo.config_loading import load_config
from jaxgrpo.glossary import definition
from jaxgrpo.problems.datasets import load_problems
from jaxgrpo.rollout_table import read_rollouts
from tests.resumed_runs import check_equal, lines, whole_and_resumed

SIZES: dict[str, Any] = {"num_train": 300, "num_validation": 16, "num_test": 40}
RUN = """
[run]
num_steps = 2
[model]
checkpoint = "builtin:output_prediction_base"
[data]
dataset = "file"
path = "{path}"
cache_dir = "{cache}"
[prompt]
max_prompt_tokens = 80
[sampling]
problems_per_step = 8
group_size = 4
max_new_tokens = 20
temperature = 0.7
[scorer]
num_workers = 1
[rewards.exact]
[rewards.steps]
weight = 0.0
[objective]
preset = "grpo"
[credit]
method = "bilevel"
step_dropout = 0.4
[truncation_mask]
probability = 0.5
condition = "any"
repeat_tokens = 2
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


def write_problems(folder: Path, session_cache: Path) -> None:
    """Files of a data set of one's own, with short answers."""
    folder.mkdir()
    data = DataConfig(cache_dir=str(session_cache), build_workers=1, **SIZES)
    for split in ("train", "validation", "test"):
        problems = sorted(
            load_problems(data, split), key=lambda p: (len(p.reference), p.id)
        )
        rows = [
            {
                "id": problem.id,
                "kind": "trace",
                "prompt": problem.prompt,
                "reference": problem.reference,
                "steps": [["y", "1"], ["result", problem.reference]],
            }
            for problem in problems[:32]
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(text)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any, session_cache: Path) -> tuple[Path, Path]:
    """A whole run, and one that was put back to its first step and made again."""
    folder = tmp_path_factory.mktemp("steps")
    path = folder / "run.toml"
    write_problems(folder / "data", session_cache)
    path.write_text(RUN.format(path=folder / "data", cache=session_cache))
    config = load_config(path, [])
    return whole_and_resumed(config, folder, 2)


def rewards_of(rows: list[dict[str, Any]]) -> np.ndarray:
    """What the steps of a group earned; NaN where their credit is left out."""
    return np.array([json.loads(row["extra"])["step_rewards"] for row in rows], float)


@pytest.mark.slow
def test_each_token_has_the_advantage_of_its_step(runs):
    whole, _ = runs
    rows = read_rollouts(whole).to_pylist()
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["step"], row["group_id"]), []).append(row)
    num_checked = 0
    for members in groups.values():
        rewards_GA = rewards_of(members)
        is_kept_A = ~np.isnan(rewards_GA[0])
        assert (np.isnan(rewards_GA) == ~is_kept_A).all() and is_kept_A[-1]
        last_G = rewards_GA[:, -1]
        spread = last_G.std(ddof=1)
        inter_G = (last_G - last_G.mean()) / (spread + 1e-4) if spread else 0 * last_G
        for row, last, inter in zip(members, last_G, inter_G, strict=True):
            found = np.array(row["token_advantages"])
            factors = np.array(row["credit"])
            assert len(found) == len(row["token_ids"])
            expected = factors[-1] * (inter + 0.3 * last)
            assert found[-1] == pytest.approx(expected, abs=1e-5)
            assert row["reward/exact"] == last
            spans = [span for span in row["spans"] if span["label"] == "step"]
            assert len(spans) <= is_kept_A.sum()
            if spans:
                assert spans[-1]["end"] == len(row["completion"])
            num_checked += bool(found.any())
    assert num_checked


@pytest.mark.slow
def test_metrics_of_a_run_are_defined(runs):
    whole, _ = runs
    for line in lines(whole):
        names = {name for name in line if name.startswith("credit/")}
        assert names == {
            *("credit/steps", "credit/step_accuracy", "credit/steps_missing"),
            *("credit/steps_left_out", "credit/without_steps", "credit/intra_share"),
        }
        assert all(definition(name) for name in names)
        assert line["credit/without_steps"] == 0.0
        assert np.isfinite(line["loss"]) and line["grad_norm"] > 0


@pytest.mark.slow
def test_an_interrupted_run_goes_on_bit_for_bit(runs):
    check_equal(*runs, "token_ids", "advantage", "credit", "token_advantages", "spans")
