"""GGUF files as checkpoints: numbers, architecture, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.weights.gguf import (
    gguf_architecture,
    gguf_name,
    gguf_tensors,
    open_gguf,
)
from jaxgrpo.weights.names import decoder_entries
from tests.weights.tiny import LLAMA, QWEN2, TIED
from tests.weights.tiny_gguf import NUM_ROWS, write_gguf

ARCHITECTURES = {
    "qwen3": TIED._replace(vocab_size=NUM_ROWS),
    "qwen2": QWEN2._replace(vocab_size=NUM_ROWS),
    "llama": LLAMA._replace(vocab_size=NUM_ROWS, rope_scaling=None),
}
TYPES = {
    "token_embd.weight": "Q8_0",
    "blk.0.attn_q.weight": "Q4_1",
    "blk.0.attn_k.weight": "Q8_0",
    "blk.0.ffn_down.weight": "Q5_0",
    "blk.1.ffn_up.weight": "F16",
    "blk.1.attn_output.weight": "BF16",
}


def numbers_of(architecture: Architecture) -> dict[str, np.ndarray]:
    """A random tensor under each name of llama.cpp."""
    rng = np.random.default_rng(0)
    return {
        gguf_name(name, architecture): rng.standard_normal(
            entry.stored_shape, np.float32
        )
        for entry in decoder_entries(architecture)
        for name in entry.names
    }


def rows_of_llama(matrix: np.ndarray, num_heads: int) -> np.ndarray:
    """The order in which llama.cpp keeps the rows of queries and keys.

    Of each head, row 2 i is what row i is elsewhere, and row 2 i + 1 row i + H / 2.
    """
    head_width = len(matrix) // num_heads
    rows = []
    for head in range(num_heads):
        for i in range(head_width // 2):
            first = head * head_width + i
            rows += [matrix[first], matrix[first + head_width // 2]]
    return np.stack(rows)


def written_out(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a checkpoint that a file becomes."""
    gguf = open_gguf(path)
    tensors = gguf_tensors(gguf, gguf_architecture(gguf))
    return {
        tensor.name: np.concatenate(list(tensor.blocks())).reshape(tensor.shape)
        for tensor in tensors
    }


@pytest.mark.parametrize("family", ["qwen3", "qwen2"])
def test_numbers_are_those_that_the_file_stands_for(tmp_path: Path, family: str):
    architecture = ARCHITECTURES[family]
    path = tmp_path / "model.gguf"
    stored = write_gguf(path, architecture, numbers_of(architecture), TYPES)
    found = written_out(path)
    names = [name for e in decoder_entries(architecture) for name in e.names]
    assert list(found) == names
    for name, value in found.items():
        np.testing.assert_array_equal(value, stored[gguf_name(name, architecture)])


def test_the_rows_of_llama_are_put_in_the_usual_order(tmp_path: Path):
    architecture = ARCHITECTURES["llama"]
    numbers = numbers_of(architecture)
    moved = dict(numbers)
    for layer in (0, 1):
        for letter, heads in (("q", 4), ("k", 2)):
            name = f"blk.{layer}.attn_{letter}.weight"
            moved[name] = rows_of_llama(numbers[name], heads)
    path = tmp_path / "model.gguf"
    write_gguf(path, architecture, moved, {})
    for name, value in written_out(path).items():
        np.testing.assert_array_equal(value, numbers[gguf_name(name, architecture)])


def test_large_tensors_come_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from jaxgrpo.weights import gguf

    architecture = ARCHITECTURES["qwen3"]
    path = tmp_path / "model.gguf"
    stored = write_gguf(path, architecture, numbers_of(architecture), TYPES)
    monkeypatch.setattr(gguf, "_BLOCK_NUMBERS", 32 * 100)
    opened = open_gguf(path)
    embedding, *_ = gguf_tensors(opened, architecture)
    blocks = list(embedding.blocks())
    assert [len(block) for block in blocks] == [100, 100, 72]
    np.testing.assert_array_equal(np.concatenate(blocks), stored["token_embd.weight"])


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_the_architecture_is_that_of_the_metadata(tmp_path: Path, family: str):
    architecture = ARCHITECTURES[family]._replace(norm_eps=1e-5, rope_theta=5e5)
    path = tmp_path / "model.gguf"
    write_gguf(path, architecture, numbers_of(architecture), {})
    assert gguf_architecture(open_gguf(path)) == architecture


def test_the_head_width_follows_from_the_width_where_it_is_not_stated(tmp_path: Path):
    architecture = ARCHITECTURES["llama"]
    path = tmp_path / "model.gguf"
    changes = {f"llama.attention.{key}": None for key in ("key_length", "value_length")}
    write_gguf(path, architecture, numbers_of(architecture), {}, **changes)
    assert gguf_architecture(open_gguf(path)).head_width == 8


def rope_factors(head_width: int, theta: float, factor: float) -> np.ndarray:
    """The divisors of frequencies that llama.cpp writes for Llama 3.1 and later."""
    divisors = []
    for i in range(head_width // 2):
        wavelength = 2 * np.pi * theta ** (2 * i / head_width)
        if wavelength < 8192 / 4:
            divisors.append(1.0)
        elif wavelength > 8192 / 1:
            divisors.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, np.float32)


def test_the_scaling_of_llama_3_is_recognised_by_its_divisors(tmp_path: Path):
    architecture = LLAMA._replace(
        vocab_size=NUM_ROWS, head_width=128, rope_theta=5e5, width=64
    )
    factors = rope_factors(128, 5e5, 8.0)
    assert 1 < np.unique(factors).size < 64 and (1 < factors).any()
    tensors = numbers_of(architecture) | {"rope_freqs.weight": factors}
    path = tmp_path / "model.gguf"
    write_gguf(path, architecture, tensors, {})
    opened = open_gguf(path)
    assert gguf_architecture(opened) == architecture
    assert len(gguf_tensors(opened, architecture)) == len(tensors) - 1
    write_gguf(path, architecture, tensors | {"rope_freqs.weight": factors**0.9}, {})
    with pytest.raises(ValueError, match="rope_freqs.weight that is not Llama 3.1's"):
        gguf_architecture(open_gguf(path))


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general.architecture": "gemma3"}, "architecture 'gemma3'; read are llama"),
        ({"qwen3.expert_count": 8}, "expert_count 8, which is not implemented"),
        ({"qwen3.attention.sliding_window": 64}, "sliding_window 64"),
        ({"qwen3.rope.scaling.type": "yarn"}, "rope.scaling.type 'yarn'"),
        ({"qwen3.rope.dimension_count": 8}, "dimension_count 8 and heads of width 16"),
        ({"qwen3.block_count": None}, "has no qwen3.block_count"),
        ({"qwen3.block_count": 3}, "no tensor 'blk.2"),
        ({"qwen3.block_count": 1}, r"does not know: \['blk\.1\."),
        ({"qwen3.feed_forward_length": 96}, r"shape \(64, 32\).* imply \(96, 32\)"),
    ],
)
def test_what_the_decoder_does_not_implement_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
):
    path = tmp_path / "model.gguf"
    architecture = ARCHITECTURES["qwen3"]
    write_gguf(path, architecture, numbers_of(architecture), {}, **changes)
    with pytest.raises(ValueError, match=message):
        written_out(path)


def test_a_file_that_is_no_gguf_or_cut_off_is_named(tmp_path: Path):
    path = tmp_path / "model.gguf"
    architecture = ARCHITECTURES["qwen3"]
    write_gguf(path, architecture, numbers_of(architecture), {})
    whole = path.read_bytes()
    for contents in (b"", b"not a model", whole[:100], whole[:5000], whole[:-1000]):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match="is no GGUF file, or is cut off"):
            open_gguf(path)
    with pytest.raises(ValueError, match="no file .*absent"):
        open_gguf(tmp_path / "absent.gguf")


def test_without_the_library_the_command_to_install_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ValueError, match=r"pip install 'jaxgrpo\[gguf\]'"):
        open_gguf(tmp_path / "model.gguf")
