"""A reward model from hand-made answers: trained, interrupted, ranked, as a reward."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxgrpo.cli import app
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.host.records import Problem
from jaxgrpo.metrics_log import read_metrics
from jaxgrpo.preferences.harvest import RewardTraining
from jaxgrpo.rank import rank
from jaxgrpo.reward_model import load_reward_model, row_width
from jaxgrpo.train_reward import held_out, train_reward
from jaxgrpo.weights import checkpoint_folder, save_checkpoint
from tests.preferences.evaluated import write_evaluation

NAMES = [f"p{number}" for number in range(48)]
TEXTS = {name: ["True", "False", "True", "None", "(", "False"] for name in NAMES}
QUIET: dict[str, Any] = {"console": "quiet"}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("policy")
    tiny = PRESETS["qwen3-tiny"]
    save_checkpoint(
        folder,
        initial_params(tiny, jax.random.key(0)),
        tiny,
        tokenizer_folder=checkpoint_folder("builtin:output_prediction_tokenizer"),
    )
    return str(folder)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, session_cache: Path) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "evaluation"
    return write_evaluation(folder, TEXTS, session_cache)


@pytest.fixture(scope="module")
def settings(policy: str, kept: Path) -> RewardTraining:
    return RewardTraining(
        sources=(str(kept),),
        model=policy,
        held_out=0.25,
        epochs=6.0,
        batch_pairs=8,
        learning_rate=2e-2,
        evaluate_every=16,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, settings: RewardTraining) -> Path:
    folder = tmp_path_factory.mktemp("run") / "reward"
    train_reward(settings, folder, **QUIET)
    return folder


def test_what_is_easy_is_learned_and_told(run: Path):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["held_out"]["auc_within"] == 1.0
    assert summary["held_out"]["accuracy"] == 1.0
    assert summary["held_out"]["loss"] < 0.3
    # True against False and None, for each problem to learn from.
    assert summary["num_pairs"] == 2 * summary["num_problems"]
    lines = read_metrics(run)
    assert lines[0]["loss"] == pytest.approx(math.log(2.0), abs=1e-6)
    assert [line["step"] for line in lines] == list(range(1, summary["num_steps"] + 1))
    assert lines[15]["eval/auc"] > 0.5
    assert (run / "curves.png").stat().st_size > 10_000


def test_the_finished_run_is_not_trained_again(run: Path, settings: RewardTraining):
    before = (run / "metrics.jsonl").read_bytes()
    assert train_reward(settings, run, **QUIET)["num_steps"] > 0
    assert (run / "metrics.jsonl").read_bytes() == before
    with pytest.raises(ValueError, match="seed"):
        train_reward(replace(settings, seed=1), run, **QUIET)


def test_an_interrupted_run_ends_in_the_same_bits(
    run: Path, settings: RewardTraining, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stopped_the_second_time(*given: Any) -> dict[str, float]:
        measured.append(held_out(*given))
        if len(measured) == 2:
            raise KeyboardInterrupt
        return measured[-1]

    measured: list[dict[str, float]] = []
    with monkeypatch.context() as patched:
        patched.setattr("jaxgrpo.train_reward.held_out", stopped_the_second_time)
        with pytest.raises(KeyboardInterrupt):
            train_reward(settings, tmp_path, **QUIET)
    assert not (tmp_path / "summary.json").exists()
    train_reward(settings, tmp_path, **QUIET)
    assert json.loads((tmp_path / "summary.json").read_text())["resumed_from"] == 16
    one, other = (
        (folder / "export" / "model.safetensors").read_bytes()
        for folder in (run, tmp_path)
    )
    assert one == other


# Use


def problem(name: str) -> Problem:
    return Problem(id=name, kind="output", prompt=f"Is {name} so?", reference="")


def test_scores_do_not_depend_on_what_else_is_scored(run: Path):
    model = load_reward_model(str(run))
    asked = [(problem(n), a) for n in ("x", "a longer name") for a in ("True", "False")]
    asked.append((problem("x"), "1 +"))
    together, is_cut = model.scores(asked)
    assert together[0] > together[1] and together[2] > together[3]
    assert together[4] == -math.inf and not is_cut.any()
    for place, one in enumerate(asked):
        alone, _ = model.scores([one])
        np.testing.assert_allclose(alone[0], together[place], rtol=1e-5)


def test_a_long_answer_is_cut_at_its_end_and_counted(run: Path):
    model = load_reward_model(str(run))
    limit = model.reader.shown.max_tokens
    long = "[" + ", ".join(["1"] * limit) + "]"
    token_ids, is_cut = model.reader.read(problem("x"), long)
    assert is_cut and len(token_ids) == limit
    other, _ = model.reader.read(problem("x"), long[:-1] + ", 2]")
    np.testing.assert_array_equal(token_ids, other)
    assert row_width(limit) >= limit


def test_ranking_leaves_out_what_was_trained_on(run: Path, kept: Path, tmp_path: Path):
    out = tmp_path / "rank.json"
    result = rank(str(run), kept, out=out, resamples=100, console="quiet")
    trained = json.loads((run / "trained_problems.json").read_text())
    assert result["num_problems"] == len(NAMES) - len(trained)
    assert result["num_trained_problems"] == len(trained)
    assert result["auc_within"]["value"] == result["auc"] == 1.0
    # Two of six are right: a pick by the model is right whenever any of k is.
    assert result["random"]["value"] == pytest.approx(1 / 3)
    assert result["best@4"]["value"] == pytest.approx(1 - 1 / 15)
    assert result["gain@4"]["value"] == pytest.approx(1 - 1 / 15 - 1 / 3)
    assert result["best@2"]["value"] == result["pass@2"]["value"]
    assert json.loads(out.read_text())["num_completions"] == result["num_completions"]


# What is refused


def complaint(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2, done.output
    (line,) = [t for t in done.output.splitlines() if not t.startswith("Preparing")]
    return line


def test_folder_without_completions_is_named(tmp_path: Path, policy: str):
    line = complaint(
        "train-reward", str(tmp_path), str(tmp_path / "o"), "--model", policy
    )
    assert f"{tmp_path} is neither a run with rollouts nor an evaluation" in line


def test_one_sided_answers_are_refused(
    tmp_path: Path, session_cache: Path, policy: str
):
    texts = {name: ["True", "True"] for name in NAMES[:4]}
    kept = write_evaluation(tmp_path / "e", texts, session_cache)
    line = complaint("train-reward", str(kept), str(tmp_path / "o"), "--model", policy)
    assert "no pair of a right and a wrong answer" in line


def test_a_policy_cannot_rank(policy: str, kept: Path):
    assert "is no reward model" in complaint("rank", policy, str(kept))


def test_a_batch_that_devices_cannot_share_is_refused(
    settings: RewardTraining, tmp_path: Path
):
    with pytest.raises(ValueError, match="--batch-pairs 12 does not divide"):
        train_reward(replace(settings, batch_pairs=12), tmp_path, **QUIET)


def test_a_tokenizer_with_too_many_tokens_is_refused(run: Path, tmp_path: Path):
    shutil.copytree(run / "export", tmp_path / "model")
    path = tmp_path / "model" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    more = {f"token {number}": number for number in range(1_000)}
    tokenizer["model"]["vocab"] = more | tokenizer["model"]["vocab"]
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(ValueError, match="has .* tokens, its embedding .* rows"):
        load_reward_model(str(tmp_path / "model"))


def test_a_model_without_a_chat_template_is_refused(run: Path, tmp_path: Path):
    shutil.copytree(run / "export", tmp_path / "model")
    for path in (tmp_path / "model").glob("chat_template*"):
        path.unlink()
    with pytest.raises(ValueError, match="has no chat template, in which"):
        load_reward_model(str(tmp_path / "model"))
