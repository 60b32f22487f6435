"""Adapters under the names that the library PEFT gives them.

That PEFT computes the same with them, tests/golden/check_exports.py shows.
"""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from jaxgrpo.device.model.lora import LoraSettings, initial_adapters
from jaxgrpo.weights.peft import save_adapter
from tests.weights.tiny import UNTIED, assert_same_bits

SETTINGS = LoraSettings(rank=3, alpha=6.0, targets=("q", "o", "down"))


@pytest.fixture(scope="module")
def adapters():
    draws = initial_adapters(UNTIED, SETTINGS, jax.random.key(0))
    return jax.tree.map(lambda leaf: np.asarray(leaf + 1.0), draws)


def test_names_and_shapes_are_those_of_peft(tmp_path: Path, adapters):
    """Of a model with 2 layers, 32 wide, 4 heads of 16, 64 in the MLP; rank 3."""
    save_adapter(tmp_path, adapters, UNTIED, SETTINGS)
    stored = load_file(tmp_path / "adapter_model.safetensors")
    shapes = {
        "self_attn.q_proj.lora_A.weight": (3, 32),
        "self_attn.q_proj.lora_B.weight": (64, 3),
        "self_attn.o_proj.lora_A.weight": (3, 64),
        "self_attn.o_proj.lora_B.weight": (32, 3),
        "mlp.down_proj.lora_A.weight": (3, 64),
        "mlp.down_proj.lora_B.weight": (32, 3),
    }
    assert {name: value.shape for name, value in stored.items()} == {
        f"base_model.model.model.layers.{layer}.{name}": shape
        for layer in (0, 1)
        for name, shape in shapes.items()
    }


def test_the_product_of_the_stored_matrices_is_ours(tmp_path: Path, adapters):
    save_adapter(tmp_path, adapters, UNTIED, SETTINGS)
    stored = load_file(tmp_path / "adapter_model.safetensors")
    stem = "base_model.model.model.layers.1.self_attn.o_proj.lora_"
    theirs = stored[f"{stem}B.weight"] @ stored[f"{stem}A.weight"]
    layers = adapters["layers"]
    ours = np.einsum("nhz,zd->nhd", layers["o_a_NHZ"][1], layers["o_b_ZD"][1])
    np.testing.assert_allclose(theirs, ours.reshape(64, 32).T, rtol=1e-6)


def test_the_configuration_is_that_of_the_adapters(tmp_path: Path, adapters):
    save_adapter(tmp_path, adapters, UNTIED, SETTINGS, base_name="qwen/base")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config == {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "qwen/base",
        "r": 3,
        "lora_alpha": 6.0,
        "lora_dropout": 0.0,
        "target_modules": ["q_proj", "o_proj", "down_proj"],
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }


def test_types_are_converted_and_bits_kept(tmp_path: Path, adapters):
    for dtype in ("float32", "bfloat16"):
        save_adapter(tmp_path, adapters, UNTIED, SETTINGS, dtype=dtype)
        stored = load_file(tmp_path / "adapter_model.safetensors")
        name = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"
        expected = adapters["layers"]["down_a_FZ"][0].T.astype(stored[name].dtype)
        assert str(stored[name].dtype) == dtype
        assert_same_bits(stored[name], expected)
