"""A GGUF file, the format of llama.cpp, as architecture and tensors of a checkpoint.

Quantised tensors are written out as the numbers that they stand for. Tensors of the
architecture `llama` have the rows of their query and key projections in another order
there, which is undone.

Reference:
  The format and its keys, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md;
  the order of rows, `LlamaModel.permute` in llama.cpp's convert_hf_to_gguf.py.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxgrpo.device.model.architecture import Architecture, Llama3RopeScaling
from jaxgrpo.device.model.rope import rotary_frequencies
from jaxgrpo.weights.names import decoder_entries
from jaxgrpo.weights.writing import Tensor

FAMILIES = ("llama", "qwen2", "qwen3")
"""Architectures that are read, as `general.architecture` names them."""

_BLOCK_NUMBERS = 2**24
"""Numbers that are written out at a time."""

_ROPE_FACTORS = "rope_freqs.weight"

# Keys that must be absent or have the value that changes nothing.
_UNSUPPORTED = {
    "expert_count": 0,
    "attention.sliding_window": 0,
    "attention.clamp_kqv": 0.0,
    "logit_scale": 1.0,
    "residual_scale": 1.0,
    "embedding_scale": 1.0,
    "attention.scale": 0.0,
    "rope.scaling.type": "none",
}


class Gguf(NamedTuple):
    """What a file holds."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, Any]
    """The library's readers of tensors, by their names in the file."""

    def field(self, key: str, *default: Any) -> Any:
        """The value under a key of the file's architecture.

        Raises:
          ValueError: If it is absent and there is no default.
        """
        full = f"{self.metadata['general.architecture']}.{key}"
        if full not in self.metadata and not default:
            raise ValueError(f"{self.path} has no {full}. Make the file again.")
        return self.metadata.get(full, *default)


def open_gguf(path: Path) -> Gguf:
    """The file's metadata, and readers of its tensors.

    Raises:
      ValueError: If the package gguf is not installed, or the file is damaged, is no
        GGUF, or is of an architecture that is not read.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise ValueError(
            "reading GGUF needs the package gguf. Run: pip install 'jaxgrpo[gguf]'"
        ) from None
    if not path.is_file():
        raise ValueError(f"no file {str(path)!r}. Give a .gguf file.")
    try:
        reader = GGUFReader(path)
        metadata = {key: field.contents() for key, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(
            f"{path} is no GGUF file, or is cut off ({error}). Copy it again."
        ) from None
    family = metadata.get("general.architecture")
    if family not in FAMILIES:
        raise ValueError(
            f"{path} has the architecture {family!r}; read are {', '.join(FAMILIES)}. "
            "Use such a model."
        )
    return Gguf(path, metadata, {tensor.name: tensor for tensor in reader.tensors})


def gguf_architecture(gguf: Gguf) -> Architecture:
    """The architecture that the metadata and the tensors' names state.

    Raises:
      ValueError: If it has a property that the decoder does not implement.
    """
    for key, harmless in _UNSUPPORTED.items():
        if gguf.field(key, harmless) != harmless:
            raise ValueError(
                f"{gguf.path} has {key} {gguf.field(key)!r}, which is not implemented. "
                "Use a model without it."
            )
    width, heads = gguf.field("embedding_length"), gguf.field("attention.head_count")
    head_width = gguf.field("attention.key_length", width // heads)
    for key in ("rope.dimension_count", "attention.value_length"):
        if gguf.field(key, head_width) != head_width:
            raise ValueError(
                f"{gguf.path} has {key} {gguf.field(key)} and heads of width "
                f"{head_width}, which is not implemented. Use a model where they agree."
            )
    theta = _as_written(gguf.field("rope.freq_base", 10_000.0))
    return Architecture(
        vocab_size=int(_tensor(gguf, "token_embd.weight").shape[1]),
        width=width,
        num_layers=gguf.field("block_count"),
        num_heads=heads,
        num_kv_heads=gguf.field("attention.head_count_kv", heads),
        head_width=head_width,
        mlp_width=gguf.field("feed_forward_length"),
        rope_theta=theta,
        norm_eps=_as_written(gguf.field("attention.layer_norm_rms_epsilon")),
        is_tied="output.weight" not in gguf.tensors,
        max_positions=gguf.field("context_length"),
        family=gguf.metadata["general.architecture"],
        rope_scaling=_rope_scaling(gguf, head_width, theta),
    )


def gguf_tensors(gguf: Gguf, architecture: Architecture) -> list[Tensor]:
    """The tensors of a Hugging Face checkpoint, each written out when it is asked for.

    Raises:
      ValueError: If one is missing, left over, of another shape, or of a type that
        cannot be written out.
    """
    from gguf.quants import dequantize

    left = dict(gguf.tensors)
    left.pop(_ROPE_FACTORS, None)
    tensors = []
    for entry in decoder_entries(architecture):
        for name in entry.names:
            stored = _tensor(gguf, gguf_name(name, architecture))
            left.pop(stored.name)
            shape = tuple(int(size) for size in reversed(stored.shape))
            if shape != entry.stored_shape:
                raise ValueError(
                    f"{gguf.path} has {stored.name} of shape {shape}; its metadata "
                    f"imply {entry.stored_shape}. Make the file again."
                )
            try:  # whether the type can be, before anything is written
                dequantize(stored.data[:1], stored.tensor_type)
            except NotImplementedError:
                raise ValueError(
                    f"{gguf.path} has {stored.name} in the type "
                    f"{stored.tensor_type.name}, which the package gguf cannot write "
                    "out. Use a file of another quantisation."
                ) from None
            heads = _permuted_heads(name, architecture)
            tensors.append(Tensor(name, shape, partial(_blocks, stored, heads)))
    if left:
        raise ValueError(
            f"{gguf.path} has tensors this decoder does not know: {sorted(left)[:4]}. "
            "Use a model without them."
        )
    return tensors


def gguf_name(name: str, architecture: Architecture) -> str:
    """The name that a checkpoint's tensor has in a GGUF file."""
    from gguf import MODEL_ARCH, get_tensor_name_map

    table = get_tensor_name_map(
        MODEL_ARCH[architecture.family.upper()], architecture.num_layers
    )
    found = table.get_name(name, try_suffixes=(".weight", ".bias"))
    assert found is not None, name
    return found


def _tensor(gguf: Gguf, name: str) -> Any:
    if name not in gguf.tensors:
        raise ValueError(
            f"{gguf.path} has no tensor {name!r}. Use a file that holds a whole model."
        )
    return gguf.tensors[name]


def _permuted_heads(name: str, architecture: Architecture) -> int:
    """The number of heads in whose order a tensor's rows lie; 0 for the usual order."""
    if architecture.family != "llama":
        return 0
    if ".q_proj." in name:
        return architecture.num_heads
    return architecture.num_kv_heads if ".k_proj." in name else 0


def _blocks(stored: Any, permuted_heads: int) -> Iterator[np.ndarray]:
    """A tensor's numbers as float32, some rows at a time."""
    from gguf.quants import dequantize

    rows = len(stored.data)
    step = rows
    if not permuted_heads:
        step = max(1, _BLOCK_NUMBERS * rows // int(stored.n_elements))
    for start in range(0, rows, step):
        block = dequantize(stored.data[start : start + step], stored.tensor_type)
        yield _in_usual_order(block, permuted_heads) if permuted_heads else block


def _in_usual_order(matrix: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows of each head from pairs (i, i + H/2) side by side back to two halves.

    Example:
      >>> _in_usual_order(np.array([[0], [2], [1], [3]]), 1).ravel().tolist()
      [0, 1, 2, 3]
    """
    pairs = matrix.reshape(num_heads, -1, 2, matrix.shape[1])
    return pairs.swapaxes(1, 2).reshape(matrix.shape)


def _rope_scaling(
    gguf: Gguf, head_width: int, theta: float
) -> Llama3RopeScaling | None:
    """The scaling of Llama 3.1 and later, which a file states as divisors alone.

    The divisors are 1 for fast frequencies and the factor for slow ones. What lies
    between follows from numbers that all of these models share.
    """
    if _ROPE_FACTORS not in gguf.tensors:
        return None
    stated = np.array(gguf.tensors[_ROPE_FACTORS].data, np.float32)
    scaling = Llama3RopeScaling(
        factor=_as_written(stated.max()),
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_positions=8192,
    )
    plain = np.asarray(rotary_frequencies(head_width, theta))
    scaled = np.asarray(rotary_frequencies(head_width, theta, scaling))
    if not np.allclose(plain / scaled, stated, rtol=1e-4):
        raise ValueError(
            f"{gguf.path} has a {_ROPE_FACTORS} that is not Llama 3.1's, which is not "
            "implemented. Use a model without it."
        )
    return scaling


def _as_written(number: float) -> float:
    """The shortest decimal that float32 stores as this number.

    Example:
      >>> _as_written(float(np.float32(1e-5)))
      1e-05
    """
    return float(str(np.float32(number)))
