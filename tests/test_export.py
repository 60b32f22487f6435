"""`jaxgrpo export`: a run's weights as a folder, from the command line."""

import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from jaxgrpo.assembly import (
    base_checksum,
    build_optimizer,
    initial_state,
    run_mesh,
)
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.cli import app
from jaxgrpo.config_loading import load_config
from jaxgrpo.device.model.lora import plain_weights, policy_weights, without_base
from jaxgrpo.policy import initial_weights, load_policy
from jaxgrpo.weights import load_architecture, load_params

CONFIG = """
[model]
preset = "qwen3-tiny"
tokenizer = "builtin:output_prediction_tokenizer"
[rewards.exact]
"""
LORA = """
[lora]
rank = 2
alpha = 4.0
targets = ["q", "down"]
"""


def make_run(folder: Path, config_text: str) -> dict[int, Any]:
    """A run with checkpoints of steps 2 and 4; returns the weights of each."""
    folder.mkdir()
    (folder / "config.toml").write_text(config_text)
    config = load_config(folder / "config.toml", [])
    policy = load_policy(config.model, config.prompt)
    optimizer = build_optimizer(config.optimizer, num_updates=4)
    weights = initial_weights(policy, config, run_mesh(config))
    state = initial_state(weights, optimizer, policy, config)
    saved = {}
    with Checkpointer(folder / "checkpoints", every_steps=2, keep=2) as checkpointer:
        for step in (2, 4):
            params = jax.tree.map(lambda leaf, n=step: leaf + 0.01 * n, state.params)
            stepped = state._replace(params=params)
            loop = {"base_checksum": base_checksum(state.base_params)}
            checkpointer.save(step, without_base(stepped), loop)
            saved[step] = jax.device_get(policy_weights(stepped))
    return saved


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    folder = tmp_path_factory.mktemp("runs") / "full"
    return folder, make_run(folder, CONFIG)


@pytest.fixture(scope="module")
def lora_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    folder = tmp_path_factory.mktemp("runs") / "lora"
    return folder, make_run(folder, CONFIG + LORA)


def export(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


@pytest.mark.parametrize(("options", "step"), [([], 4), (["--step", "2"], 2)])
def test_a_checkpoint_of_a_run_is_written_bit_for_bit(
    run: Any, tmp_path: Path, options: list[str], step: int
):
    folder, saved = run
    done = export(folder, tmp_path / "out", *options)
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'out'}" in done.stdout
    architecture = load_architecture(tmp_path / "out")
    found = load_params(tmp_path / "out", architecture)
    jax.tree.map(np.testing.assert_array_equal, found, saved[step])
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"tokenizer.json", "chat_template.jinja", "model.safetensors"} <= names


def test_what_was_exported_can_be_exported_again(run: Any, tmp_path: Path):
    folder, _ = run
    assert export(folder, tmp_path / "one").exit_code == 0
    assert export(tmp_path / "one", tmp_path / "two").exit_code == 0
    one, two = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")
    )
    assert one == two


def test_type_and_size_of_the_files_can_be_chosen(run: Any, tmp_path: Path):
    folder, _ = run
    out = tmp_path / "out"
    options = ["--dtype", "bfloat16", "--max-shard-size", "20KB"]
    assert export(folder, out, *options).exit_code == 0
    files = list(out.glob("model-*.safetensors"))
    assert len(files) > 1
    assert {str(v.dtype) for file in files for v in load_file(file).values()} == {
        "bfloat16"
    }


def test_adapters_are_merged_unless_asked_for(lora_run: Any, tmp_path: Path):
    folder, saved = lora_run
    done = export(folder, tmp_path / "out")
    assert done.exit_code == 0, done.output
    found = load_params(tmp_path / "out", load_architecture(tmp_path / "out"))
    merged = plain_weights(jax.device_put(saved[4]))
    base = saved[4].base.params
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7),
        found,
        dict(merged),
    )
    difference = np.abs(found["layers"]["q_DNH"] - base["layers"]["q_DNH"])
    assert difference.max() > 1e-4


def test_adapters_alone_are_a_folder_for_peft(lora_run: Any, tmp_path: Path):
    folder, saved = lora_run
    done = export(folder, tmp_path / "out", "--lora", "adapter", "--step", "2")
    assert done.exit_code == 0, done.output
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (2, 4.0)
    assert config["target_modules"] == ["q_proj", "down_proj"]
    stored = load_file(tmp_path / "out" / "adapter_model.safetensors")
    assert len(stored) == 8
    name = "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"
    expected = saved[2].adapters["layers"]["down_a_FZ"][1].T
    np.testing.assert_array_equal(stored[name], expected)


def test_full_weights_have_no_adapters_to_write(run: Any, tmp_path: Path):
    folder, _ = run
    done = export(folder, tmp_path / "out", "--lora", "adapter")
    assert done.exit_code == 2
    assert re.search("has no adapters: lora.rank is 0. Leave out --lora", done.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--step", "3"], r"no checkpoint of step 3 .*: steps there are \[2, 4\]"),
        (["--max-shard-size", "large"], "'large' is no size of a file"),
    ],
)
def test_what_cannot_be_written_is_refused(
    run: Any, tmp_path: Path, options: list[str], message: str
):
    folder, _ = run
    done = export(folder, tmp_path / "out", *options)
    assert done.exit_code == 2
    assert re.search(message, done.stderr)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_has_no_steps(tmp_path: Path):
    done = export("builtin:output_prediction_base", tmp_path / "out", "--step", "2")
    assert done.exit_code == 2
    assert re.search("step 2 of builtin:.*, which is no run folder", done.stderr)


def test_a_folder_that_holds_something_is_left_alone(run: Any, tmp_path: Path):
    folder, _ = run
    (tmp_path / "thesis.txt").write_text("precious")
    done = export(folder, tmp_path)
    assert done.exit_code == 2
    assert re.search("is not an empty folder", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
