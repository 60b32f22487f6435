"""Checkpoints as they are written, and that nothing is lost on the way."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.lora import (
    Adapted,
    FrozenBase,
    LoraSettings,
    initial_adapters,
    merge_lora,
)
from jaxgrpo.weights import (
    checkpoint_folder,
    load_architecture,
    load_params,
    save_checkpoint,
)
from tests.weights.tiny import (
    ARCHITECTURES,
    QWEN2,
    UNTIED,
    assert_same_bits,
    random_params,
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_a_round_trip_keeps_every_bit(
    tmp_path: Path, architecture: Architecture, dtype: str
):
    params = jax.tree.map(
        lambda leaf: leaf.astype(jnp.dtype(dtype)), random_params(architecture)
    )
    save_checkpoint(tmp_path, params, architecture, dtype=dtype)
    assert load_architecture(tmp_path) == architecture
    assert_same_bits(load_params(tmp_path, architecture, dtype=dtype), params)


def test_every_family_has_its_names_and_shapes(tmp_path: Path):
    """Those of Qwen2ForCausalLM, with 2 layers of 32, 4 and 2 heads of 8, 64 wide."""
    save_checkpoint(tmp_path, random_params(QWEN2), QWEN2)
    stored = load_file(tmp_path / "model.safetensors")
    layer = {
        "input_layernorm.weight": (32,),
        "self_attn.q_proj.weight": (32, 32),
        "self_attn.q_proj.bias": (32,),
        "self_attn.k_proj.weight": (16, 32),
        "self_attn.k_proj.bias": (16,),
        "self_attn.v_proj.weight": (16, 32),
        "self_attn.v_proj.bias": (16,),
        "self_attn.o_proj.weight": (32, 32),
        "post_attention_layernorm.weight": (32,),
        "mlp.gate_proj.weight": (64, 32),
        "mlp.up_proj.weight": (64, 32),
        "mlp.down_proj.weight": (32, 64),
    }
    assert {name: value.shape for name, value in stored.items()} == {
        "model.embed_tokens.weight": (40, 32),
        "model.norm.weight": (32,),
        "lm_head.weight": (40, 32),
        **{f"model.layers.{i}.{name}": layer[name] for i in (0, 1) for name in layer},
    }


@pytest.mark.parametrize("axes", [(2, 2, 2), (1, 4, 2)])
def test_what_lies_on_a_mesh_is_gathered(
    tmp_path: Path, params: Any, axes: tuple[int, int, int]
):
    placed = jax.device_put(params, param_shardings(UNTIED, make_mesh(*axes)))
    save_checkpoint(tmp_path, placed, UNTIED, max_shard_bytes=100_000)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert_same_bits(load_params(tmp_path, UNTIED), params)


def test_conversion_rounds_alike_on_device_and_host(tmp_path: Path, params: Any):
    for name, tree in (("host", params), ("device", jax.device_put(params))):
        save_checkpoint(tmp_path / name, tree, UNTIED, dtype="bfloat16")
    host, device = (
        (tmp_path / name / "model.safetensors").read_bytes()
        for name in ("host", "device")
    )
    assert host == device


@pytest.mark.parametrize("targets", [("q", "o", "down"), ("v",)])
def test_adapters_are_merged(tmp_path: Path, params: Any, targets: tuple[str, ...]):
    settings = LoraSettings(rank=4, alpha=6.0, targets=targets)
    adapters = jax.tree.map(
        lambda leaf: leaf + 0.1, initial_adapters(UNTIED, settings, jax.random.key(0))
    )
    base = FrozenBase(jax.device_put(params), jnp.float32(settings.scale))
    save_checkpoint(tmp_path, Adapted(adapters, base), UNTIED)
    merged = merge_lora(base.params, adapters, base.scale)
    jax.tree.map(
        # Layers one by one or together: the products may differ in the last bit.
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7),
        load_params(tmp_path, UNTIED),
        merged,
    )
    assert np.abs(merged["layers"]["v_DKH"] - params["layers"]["v_DKH"]).max() > (
        0.01 if "v" in targets else -1.0
    )


def test_the_files_around_the_weights_are_written(tmp_path: Path, params: Any):
    source = checkpoint_folder("builtin:output_prediction_base")
    save_checkpoint(
        tmp_path,
        params,
        UNTIED,
        dtype="bfloat16",
        eos_ids=(3, 5),
        tokenizer_folder=source,
    )
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["torch_dtype"] == "bfloat16"
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert generation == {"eos_token_id": [3, 5]}
    copied = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
    for name in copied:
        assert (tmp_path / name).read_bytes() == (source / name).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", *copied
    }  # fmt: skip


def test_a_smaller_checkpoint_replaces_a_larger_one(tmp_path: Path, params: Any):
    save_checkpoint(tmp_path, params, UNTIED, max_shard_bytes=50_000)
    save_checkpoint(tmp_path, params, UNTIED)
    assert [path.name for path in tmp_path.glob("model*")] == ["model.safetensors"]
    assert_same_bits(load_params(tmp_path, UNTIED), params)
