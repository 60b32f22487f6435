"""Checkpoints in Hugging Face layout: what is read, written and refused."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jaxgrpo.device.model.architecture import (
    PRESETS,
    Architecture,
    architecture_from_config,
    config_from_architecture,
)
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.weights import (
    checkpoint_folder,
    load_architecture,
    load_params,
    save_checkpoint,
)

TIED = PRESETS["qwen3-tiny"]._replace(vocab_size=40)
UNTIED = TIED._replace(is_tied=False, rope_theta=1e6)
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def params() -> Any:
    """Parameters of UNTIED; those of TIED without the head."""
    return jax.tree.map(np.asarray, initial_params(UNTIED, jax.random.key(0)))


@pytest.fixture
def folder(tmp_path: Path, params: Any) -> Path:
    """An untied checkpoint."""
    save_checkpoint(tmp_path, params, UNTIED, eos_ids=(3, 5))
    return tmp_path


def edit_config(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_tensors(folder: Path, **tensors: np.ndarray | None) -> None:
    stored = load_file(folder / WEIGHTS) | tensors
    kept = {name: value for name, value in stored.items() if value is not None}
    save_file(kept, folder / WEIGHTS)


def assert_trees_equal(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("architecture", [TIED, UNTIED], ids=["tied", "untied"])
def test_round_trip_loses_only_what_the_dtype_cannot_hold(
    tmp_path: Path, params: Any, architecture: Architecture, dtype: str
) -> None:
    if architecture.is_tied:
        params = {name: value for name, value in params.items() if name != "head_VD"}
    save_checkpoint(tmp_path, params, architecture, dtype=dtype)
    assert load_architecture(tmp_path) == architecture
    expected = jax.tree.map(lambda x: x.astype(dtype).astype(np.float32), params)
    assert_trees_equal(load_params(tmp_path, architecture), expected)


def test_every_parameter_is_loaded_as_float32(folder: Path) -> None:
    leaves = jax.tree.leaves(load_params(folder, UNTIED))
    assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float32)}


def test_end_of_sequence_ids_are_written(folder: Path) -> None:
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation == {"eos_token_id": [3, 5]}


def shard(folder: Path) -> list[str]:
    """Splits the weights over two files with an index; returns the files' names."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    weight_map = {name: files[i % 2] for i, name in enumerate(tensors)}
    for file in files:
        part = {name: tensors[name] for name in tensors if weight_map[name] == file}
        save_file(part, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return files


def test_sharded_files_are_joined_by_their_index(folder: Path, params: Any) -> None:
    shard(folder)
    assert_trees_equal(load_params(folder, UNTIED), params)


def test_files_that_the_index_does_not_name_are_left_alone(
    folder: Path, params: Any
) -> None:
    shard(folder)
    save_file({"lora_A": np.ones(3, np.float32)}, folder / "adapter.safetensors")
    assert_trees_equal(load_params(folder, UNTIED), params)


def test_a_missing_shard_is_named(folder: Path) -> None:
    files = shard(folder)
    (folder / files[1]).unlink()
    with pytest.raises(ValueError, match=files[1]):
        load_params(folder, UNTIED)


def test_a_tensor_in_two_files_is_refused(folder: Path) -> None:
    norm = {"model.norm.weight": np.ones(UNTIED.width, np.float32)}
    save_file(norm, folder / "copy.safetensors")
    with pytest.raises(ValueError, match=r"'model\.norm\.weight' twice"):
        load_params(folder, UNTIED)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    edit_tensors(folder, **{"model.layers.1.mlp.up_proj.weight": None})
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.up_proj.*missing"):
        load_params(folder, UNTIED)


def test_a_left_over_tensor_is_named(folder: Path) -> None:
    bias = np.ones(4, np.float32)
    edit_tensors(folder, **{"model.layers.0.self_attn.q_proj.bias": bias})
    with pytest.raises(ValueError, match=r"does not know.*q_proj\.bias"):
        load_params(folder, UNTIED)


def test_a_layer_too_many_is_left_over(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"does not know.*model\.layers\.1\."):
        load_params(folder, UNTIED._replace(num_layers=1))


def test_a_transposed_tensor_is_refused(folder: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    transposed = np.ascontiguousarray(load_file(folder / WEIGHTS)[name].T)
    edit_tensors(folder, **{name: transposed})
    with pytest.raises(ValueError, match=r"up_proj.*\(32, 64\).*\(64, 32\)"):
        load_params(folder, UNTIED)


def test_a_stored_copy_of_a_tied_head_is_accepted(folder: Path, params: Any) -> None:
    edit_tensors(folder, **{"lm_head.weight": params["embedding_VD"]})
    loaded = load_params(folder, TIED)
    assert "head_VD" not in loaded
    np.testing.assert_array_equal(loaded["embedding_VD"], params["embedding_VD"])


def test_a_tied_head_that_is_no_copy_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"lm_head\.weight is not the embedding"):
        load_params(folder, TIED)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("use_sliding_window", True),
        ("layer_types", ["full_attention", "sliding_attention"]),
        ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}),
        ("rope_scaling", {"type": "linear", "factor": 2.0}),
        ("rope_parameters", {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}),
        ("rope_parameters", {"rope_theta": 1e6, "partial_rotary_factor": 0.5}),
        ("attention_bias", True),
        ("attention_dropout", 0.1),
        ("quantization_config", {"quant_method": "fp8"}),
        ("hidden_act", "gelu"),
        ("model_type", "qwen2"),
        ("mlp_bias", True),
    ],
)
def test_what_the_decoder_does_not_implement_is_refused_by_name(
    folder: Path, field: str, value: Any
) -> None:
    edit_config(folder, **{field: value})
    with pytest.raises(ValueError, match=f"config.json has .*{field}"):
        load_architecture(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        # As Qwen3's own files state them.
        ("sliding_window", None),
        ("rope_scaling", None),
        ("layer_types", ["full_attention", "full_attention"]),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 1e6}),
        ("attention_dropout", 0.0),
        ("max_window_layers", 28),
    ],
)
def test_a_field_that_changes_nothing_is_accepted(
    folder: Path, field: str, value: Any
) -> None:
    edit_config(folder, **{field: value})
    assert load_architecture(folder) == UNTIED


@pytest.mark.parametrize("field", ["head_dim", "num_key_value_heads", "rms_norm_eps"])
def test_a_missing_field_is_named_and_not_guessed(field: str) -> None:
    config = config_from_architecture(UNTIED)
    del config[field]
    with pytest.raises(ValueError, match=f"no {field}"):
        architecture_from_config(config)


def test_two_rope_bases_are_refused(folder: Path) -> None:
    edit_config(folder, rope_parameters={"rope_type": "default", "rope_theta": 1e4})
    with pytest.raises(ValueError, match=r"rope_theta as \[10000.0, 1000000.0\]"):
        load_architecture(folder)


def test_heads_that_key_heads_do_not_divide_are_refused(folder: Path) -> None:
    edit_config(folder, num_key_value_heads=3)
    with pytest.raises(ValueError, match="num_attention_heads 4.* 3 does not divide"):
        load_architecture(folder)


def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no config.json"):
        load_architecture(tmp_path)
    with pytest.raises(ValueError, match=r"no \*\.safetensors"):
        load_params(tmp_path, TIED)


def test_an_unknown_checkpoint_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder"):
        checkpoint_folder(str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="Built in are"):
        checkpoint_folder("builtin:absent")
