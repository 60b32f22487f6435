"""Reward models as checkpoints: names of transformers, and every bit kept."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.reward_model import SCORE, backbone_of, reward_params
from jaxgrpo.weights import load_architecture, save_checkpoint
from jaxgrpo.weights.reward_model import (
    RewardInput,
    load_reward_architecture,
    load_reward_input,
    load_reward_params,
    reward_model_folder,
    save_reward_model,
)
from tests.weights.tiny import ARCHITECTURES, TIED, assert_same_bits, random_params

SHOWN = RewardInput(max_tokens=99, template="Solve: {prompt}")


def model_of(architecture: Architecture) -> Any:
    params = reward_params(random_params(architecture))
    drawn = np.random.default_rng(1).standard_normal(params[SCORE].shape)
    return params | {SCORE: jnp.asarray(drawn, jnp.float32)}


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_a_round_trip_keeps_every_bit(tmp_path: Path, architecture: Architecture):
    params = model_of(architecture)
    save_reward_model(tmp_path, params, architecture, SHOWN)
    assert reward_model_folder(str(tmp_path)) == tmp_path
    found = load_reward_architecture(tmp_path)
    assert found == backbone_of(architecture)
    assert_same_bits(load_reward_params(tmp_path, found), params)
    assert load_reward_input(tmp_path) == SHOWN


def test_names_and_shapes_are_those_of_transformers(tmp_path: Path):
    """Of Qwen3ForSequenceClassification: 2 layers of 32, 4 and 2 heads of 16."""
    save_reward_model(tmp_path, model_of(TIED), TIED, SHOWN, pad_id=3)
    stored = load_file(tmp_path / "model.safetensors")
    layer = {
        "input_layernorm.weight": (32,),
        "self_attn.q_proj.weight": (64, 32),
        "self_attn.k_proj.weight": (32, 32),
        "self_attn.v_proj.weight": (32, 32),
        "self_attn.o_proj.weight": (32, 64),
        "self_attn.q_norm.weight": (16,),
        "self_attn.k_norm.weight": (16,),
        "post_attention_layernorm.weight": (32,),
        "mlp.gate_proj.weight": (TIED.mlp_width, 32),
        "mlp.up_proj.weight": (TIED.mlp_width, 32),
        "mlp.down_proj.weight": (32, TIED.mlp_width),
    }
    expected = {
        f"model.layers.{index}.{name}": shape
        for index in range(2)
        for name, shape in layer.items()
    }
    expected |= {
        "model.embed_tokens.weight": (40, 32),
        "model.norm.weight": (32,),
        "score.weight": (1, 32),
    }
    assert {name: tensor.shape for name, tensor in stored.items()} == expected
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForSequenceClassification"]
    assert config["id2label"] == {"0": "LABEL_0"}
    assert config["pad_token_id"] == 3


def test_the_model_of_a_run_is_found_below_it(tmp_path: Path):
    save_reward_model(tmp_path / "export", model_of(TIED), TIED, SHOWN)
    assert reward_model_folder(str(tmp_path)) == tmp_path / "export"


def test_what_nobody_has_said_is_the_published_default(tmp_path: Path):
    assert load_reward_input(tmp_path) == RewardInput(max_tokens=4096)
    (tmp_path / "reward_model.json").write_text('{"max_tokens": "many"}')
    with pytest.raises(ValueError, match="expected are max_tokens"):
        load_reward_input(tmp_path)


def test_a_policy_is_no_reward_model_and_the_other_way_round(tmp_path: Path):
    save_checkpoint(tmp_path / "policy", random_params(TIED), TIED)
    with pytest.raises(ValueError, match="no reward model.*train-reward"):
        reward_model_folder(str(tmp_path / "policy"))
    save_reward_model(tmp_path / "reward", model_of(TIED), TIED, SHOWN)
    with pytest.raises(ValueError, match="is a reward model, which writes no text"):
        load_architecture(tmp_path / "reward")
    with pytest.raises(ValueError, match=r"neither it nor its folder 'export'"):
        reward_model_folder(str(tmp_path))


@pytest.mark.parametrize("labels", [{}, {"0": "good", "1": "bad"}])
def test_a_classifier_of_several_labels_is_refused(tmp_path: Path, labels: Any):
    save_reward_model(tmp_path, model_of(TIED), TIED, SHOWN)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id2label": labels}))
    with pytest.raises(ValueError, match="has 2 labels, a reward model has one"):
        load_reward_architecture(tmp_path)


def test_a_model_without_its_head_is_refused(tmp_path: Path):
    save_checkpoint(tmp_path, random_params(TIED), TIED)
    with pytest.raises(ValueError, match=r"'score.weight' is missing"):
        load_reward_params(tmp_path, TIED)
