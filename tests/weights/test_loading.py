"""Checkpoints into arrays: what is read, where it lies, what is refused."""

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.device.model.architecture import Architecture, config_from_architecture
from jaxgrpo.weights import load_params, loading, save_checkpoint
from jaxgrpo.weights.loading import read_params
from jaxgrpo.weights.names import decoder_entries
from jaxgrpo.weights.reading import TensorReader
from tests.weights.tiny import (
    QWEN2,
    TIED,
    UNTIED,
    assert_same_bits,
    random_params,
)

WEIGHTS = "model.safetensors"
HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path: Path, params: Any) -> Path:
    """An untied checkpoint."""
    save_checkpoint(tmp_path, params, UNTIED)
    return tmp_path


def edit_tensors(folder: Path, **tensors: np.ndarray | None) -> None:
    stored = load_file(folder / WEIGHTS) | tensors
    kept = {name: value for name, value in stored.items() if value is not None}
    save_file(kept, folder / WEIGHTS)


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


# What is read


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stored", ["float32", "bfloat16", "float16"])
def test_numbers_become_the_type_that_is_asked_for(
    tmp_path: Path, params: Any, stored: str, dtype: str
):
    save_checkpoint(tmp_path, params, UNTIED, dtype=stored)
    expected = jax.tree.map(lambda x: jnp.asarray(x, stored).astype(dtype), params)
    assert_same_bits(load_params(tmp_path, UNTIED, dtype=dtype), expected)


def test_sharded_files_are_joined_by_their_index(folder: Path, params: Any):
    shard(folder)
    assert_same_bits(load_params(folder, UNTIED), params)


def test_files_that_the_index_does_not_name_are_left_alone(folder: Path, params: Any):
    shard(folder)
    save_file({"lora_A": np.ones(3, np.float32)}, folder / "adapter.safetensors")
    assert_same_bits(load_params(folder, UNTIED), params)


def test_a_stored_copy_of_a_tied_head_is_accepted(folder: Path, params: Any):
    edit_tensors(folder, **{"lm_head.weight": params["embedding_VD"]})
    loaded = load_params(folder, TIED)
    assert "head_VD" not in loaded
    np.testing.assert_array_equal(loaded["embedding_VD"], params["embedding_VD"])


# Where it lies


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every matrix takes several pieces; the last is shorter than the others."""
    monkeypatch.setattr(loading, "PIECE_BYTES", 3_000)


def load_on(
    axes: tuple[int, int, int], folder: Path, architecture: Architecture
) -> Any:
    """Weights over a mesh, and the reader that they came through."""
    shardings = param_shardings(architecture, make_mesh(*axes))
    reader = TensorReader(folder)
    return read_params(reader, architecture, shardings, "float32"), shardings, reader


@pytest.mark.parametrize("axes", [(8, 1, 1), (2, 2, 2), (1, 4, 2)])
def test_weights_are_born_on_the_mesh_and_read_once(
    folder: Path, params: Any, axes: tuple[int, int, int]
):
    loaded, shardings, reader = load_on(axes, folder, UNTIED)
    for leaf, sharding in zip(*map(jax.tree.leaves, (loaded, shardings)), strict=True):
        assert leaf.sharding == sharding
    assert_same_bits(loaded, params)
    # Replicas share what was read.
    assert reader.num_bytes == sum(leaf.nbytes for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("axes", [(1, 4, 2), (8, 1, 1)])
def test_pieces_make_up_the_same_arrays(
    tmp_path: Path, small_pieces: None, axes: tuple[int, int, int]
):
    params = random_params(QWEN2)
    save_checkpoint(tmp_path, params, QWEN2)
    loaded, shardings, reader = load_on(axes, tmp_path, QWEN2)
    for leaf, sharding in zip(*map(jax.tree.leaves, (loaded, shardings)), strict=True):
        assert leaf.sharding == sharding
    assert_same_bits(loaded, params)
    assert reader.num_bytes == sum(leaf.nbytes for leaf in jax.tree.leaves(params))


def test_pieces_fill_a_single_device_too(folder: Path, params: Any, small_pieces: None):
    loaded = load_params(folder, UNTIED)
    assert_same_bits(loaded, params)
    assert {len(leaf.devices()) for leaf in jax.tree.leaves(loaded)} == {1}


@pytest.mark.slow
def test_a_process_reads_the_bytes_of_its_own_devices(folder: Path, params: Any):
    """Two processes with two devices each, weights split in four along D."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, HERE / "load_in_two.py", address, str(number), folder],
            env={**os.environ, "JAX_NUM_CPU_DEVICES": "2"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    printed = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    norms = sum(
        leaf.nbytes
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        if "scale" in jax.tree_util.keystr(path)
    )
    # Norms are whole on every device; half of all else belongs to each process.
    lines = [line for text in printed for line in text.splitlines()]
    numbers = [line for line in lines if line.startswith("bytes")]
    assert numbers == [f"bytes {(whole - norms) // 2 + norms}"] * 2
    assert_same_bits(load_params(folder / "again", UNTIED), params)


BIG = UNTIED._replace(
    vocab_size=65_536,
    width=2048,
    num_layers=24,
    num_heads=16,
    num_kv_heads=8,
    head_width=128,
    mlp_width=10_240,
)


def write_holes(folder: Path, architecture: Architecture, num_files: int) -> int:
    """Writes a bfloat16 checkpoint whose numbers are holes in its files, that is, 0."""
    names = [
        (name, entry.stored_shape)
        for entry in decoder_entries(architecture)
        for name in entry.names
    ]
    weight_map, total = {}, 0
    for number in range(num_files):
        header, end = {}, 0
        for name, shape in names[number::num_files]:
            start, end = end, end + 2 * math.prod(shape)
            header[name] = {
                "dtype": "BF16", "shape": shape, "data_offsets": [start, end]
            }  # fmt: skip
            weight_map[name] = f"model-{number}.safetensors"
        text = json.dumps(header).encode()
        with (folder / f"model-{number}.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + end)
        total += end
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = config_from_architecture(architecture)
    (folder / "config.json").write_text(json.dumps(config))
    return total


@pytest.mark.slow
def test_loading_takes_little_memory_beside_the_result(tmp_path: Path):
    """Eight files of half a gigabyte; all that the process needs is counted."""
    num_bytes = write_holes(tmp_path, BIG, num_files=8)
    assert num_bytes > 4 * 10**9
    settings = {"XLA_FLAGS": "", "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    done = subprocess.run(
        [sys.executable, HERE / "peak_memory.py", tmp_path],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    arrays, peak = map(int, done.stdout.split())
    assert arrays >= num_bytes
    assert peak - arrays < 2**30


# Refusals


def test_a_missing_shard_is_named(folder: Path):
    files = shard(folder)
    (folder / files[1]).unlink()
    with pytest.raises(ValueError, match=files[1]):
        load_params(folder, UNTIED)


def test_a_file_that_is_cut_off_is_named(folder: Path):
    file = folder / WEIGHTS
    with file.open("r+b") as opened:
        opened.truncate(file.stat().st_size - 1)
    with pytest.raises(ValueError, match=r"model\.safetensors' is damaged or cut off"):
        load_params(folder, UNTIED)


def test_an_index_that_is_no_json_is_named(folder: Path):
    shard(folder)
    (folder / "model.safetensors.index.json").write_text("{")
    with pytest.raises(ValueError, match=r"model\.safetensors\.index\.json is no JSON"):
        load_params(folder, UNTIED)


def test_a_tensor_in_two_files_is_refused(folder: Path):
    norm = {"model.norm.weight": np.ones(UNTIED.width, np.float32)}
    save_file(norm, folder / "copy.safetensors")
    with pytest.raises(ValueError, match=r"'model\.norm\.weight' twice"):
        load_params(folder, UNTIED)


def test_a_missing_tensor_is_named(folder: Path):
    edit_tensors(folder, **{"model.layers.1.mlp.up_proj.weight": None})
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.up_proj.*missing"):
        load_params(folder, UNTIED)


def test_a_left_over_tensor_is_named(folder: Path):
    bias = np.ones(4, np.float32)
    edit_tensors(folder, **{"model.layers.0.self_attn.q_proj.bias": bias})
    with pytest.raises(ValueError, match=r"does not know.*q_proj\.bias"):
        load_params(folder, UNTIED)


def test_a_layer_too_many_is_left_over(folder: Path):
    with pytest.raises(ValueError, match=r"does not know.*model\.layers\.1\."):
        load_params(folder, UNTIED._replace(num_layers=1))


def test_a_transposed_tensor_is_refused(folder: Path):
    name = "model.layers.0.mlp.up_proj.weight"
    transposed = np.ascontiguousarray(load_file(folder / WEIGHTS)[name].T)
    edit_tensors(folder, **{name: transposed})
    with pytest.raises(ValueError, match=r"up_proj.*\(32, 64\).*\(64, 32\)"):
        load_params(folder, UNTIED)


def test_quantised_numbers_are_refused(folder: Path):
    name = "model.layers.0.mlp.up_proj.weight"
    edit_tensors(folder, **{name: np.ones((64, 32), np.int8)})
    with pytest.raises(ValueError, match=r"up_proj.* has type I8; read are F32, F16"):
        load_params(folder, UNTIED)


def test_a_tied_head_that_is_no_copy_is_refused(folder: Path):
    with pytest.raises(ValueError, match=r"lm_head\.weight is not the embedding"):
        load_params(folder, TIED)


def test_a_tied_head_of_another_shape_is_refused(folder: Path):
    edit_tensors(folder, **{"lm_head.weight": np.ones((3, 32), np.float32)})
    with pytest.raises(ValueError, match=r"lm_head\.weight' has shape \(3, 32\)"):
        load_params(folder, TIED)


def test_a_folder_without_weights_says_so(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no \*\.safetensors"):
        load_params(tmp_path, TIED)
