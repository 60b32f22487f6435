"""Which tensor of a checkpoint holds which parameter, and in which layout.

Layouts are spelled in dims. A parameter `q_DNH` has the dims "DNH"; the checkpoint
stores the same numbers as "NH D": a matrix of outputs by inputs, N and H merged. Layers
are stacked along a first axis in a parameter and have a tensor each in a checkpoint.
Either the order of the dims is the same, or a matrix is transposed.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxgrpo.device.model.architecture import Architecture

Slices = tuple[slice, ...]
"""One slice a dim, start and stop given, step 1."""

# Path of a parameter -> (name of its tensor, dims of the parameter, dims as stored).
_TOP: dict[str, tuple[str, str, str]] = {
    "embedding_VD": ("model.embed_tokens.weight", "VD", "V D"),
    "final_norm.scale": ("model.norm.weight", "D", "D"),
    "head_VD": ("lm_head.weight", "VD", "V D"),
}
_LAYER: dict[str, tuple[str, str, str]] = {
    "attention_norm.scale": ("input_layernorm.weight", "D", "D"),
    "q_DNH": ("self_attn.q_proj.weight", "DNH", "NH D"),
    "k_DKH": ("self_attn.k_proj.weight", "DKH", "KH D"),
    "v_DKH": ("self_attn.v_proj.weight", "DKH", "KH D"),
    "o_NHD": ("self_attn.o_proj.weight", "NHD", "D NH"),
    "q_bias_NH": ("self_attn.q_proj.bias", "NH", "NH"),
    "k_bias_KH": ("self_attn.k_proj.bias", "KH", "KH"),
    "v_bias_KH": ("self_attn.v_proj.bias", "KH", "KH"),
    "q_norm.scale": ("self_attn.q_norm.weight", "H", "H"),
    "k_norm.scale": ("self_attn.k_norm.weight", "H", "H"),
    "mlp_norm.scale": ("post_attention_layernorm.weight", "D", "D"),
    "gate_DF": ("mlp.gate_proj.weight", "DF", "F D"),
    "up_DF": ("mlp.up_proj.weight", "DF", "F D"),
    "down_FD": ("mlp.down_proj.weight", "FD", "D F"),
}
_ONLY_WITH_BIAS = {"q_bias_NH", "k_bias_KH", "v_bias_KH"}
_ONLY_WITH_NORM = {"q_norm.scale", "k_norm.scale"}

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


class Entry(NamedTuple):
    """One parameter, and the tensors of a checkpoint that hold it."""

    path: tuple[str, ...]
    """Keys from the root of the parameter tree."""
    names: tuple[str, ...]
    """Of the tensors: one a layer where layers are stacked, else one."""
    is_stacked: bool
    """Whether the parameter has a first axis of layers."""
    dims: str
    """Of the parameter, without that axis."""
    stored: tuple[str, ...]
    """Of each tensor: a string of merged dims for each of its axes."""
    sizes: tuple[int, ...]
    """Of `dims`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter."""
        return (len(self.names), *self.sizes) if self.is_stacked else self.sizes

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Of each tensor."""
        of_dim = dict(zip(self.dims, self.sizes, strict=True))
        return tuple(math.prod(of_dim[dim] for dim in merged) for merged in self.stored)

    def stored_slices(self, part: Slices) -> Slices:
        """Where a part of one layer's parameter lies in its tensor.

        Args:
          part: A slice for each of `dims`. Of dims that are merged, only the first
            may be cut: what a tensor holds of the part is then one block.
        """
        of_dim = dict(zip(self.dims, part, strict=True))
        size = dict(zip(self.dims, self.sizes, strict=True))
        slices = []
        for merged in self.stored:
            first, *others = merged
            whole = [slice(0, size[dim]) for dim in others]
            assert [of_dim[dim] for dim in others] == whole, (self.path, part)
            inner = math.prod(size[dim] for dim in others)
            cut = of_dim[first]
            slices.append(slice(cut.start * inner, cut.stop * inner))
        return tuple(slices)

    def copy_to_ours(self, stored: np.ndarray, ours: np.ndarray) -> None:
        """Copies a tensor, or a block of one, to where its numbers belong.

        Args:
          stored: What `stored_slices` cuts out.
          ours: One layer's part; contiguous, of any type.
        """
        if self._is_transposed:
            _copy_transposed(stored, ours.reshape(stored.shape[::-1]))
        else:
            ours.reshape(stored.shape)[...] = stored

    def as_stored(self, ours: np.ndarray) -> np.ndarray:
        """One layer's parameter as its tensor."""
        if not self._is_transposed:
            return ours.reshape(self.stored_shape)
        stored = np.empty(self.stored_shape, ours.dtype)
        _copy_transposed(ours.reshape(stored.shape[::-1]), stored)
        return stored

    @property
    def _is_transposed(self) -> bool:
        assert self.dims in ("".join(self.stored), "".join(reversed(self.stored)))
        return self.dims != "".join(self.stored)


def decoder_entries(architecture: Architecture) -> list[Entry]:
    """Every parameter of a decoder, in the order of its checkpoint.

    Example:
      >>> from jaxgrpo.device.model.presets import PRESETS
      >>> entries = decoder_entries(PRESETS["qwen3-tiny"])
      >>> entries[2].path, entries[2].shape, entries[2].names[1]
      (('layers', 'q_DNH'), (2, 32, 4, 16), 'model.layers.1.self_attn.q_proj.weight')
      >>> entries[2].stored_shape
      (64, 32)
    """
    a = architecture
    absent = set() if a.has_qkv_bias else set(_ONLY_WITH_BIAS)
    absent |= set() if a.has_qk_norm else _ONLY_WITH_NORM
    layers = {path: row for path, row in _LAYER.items() if path not in absent}
    sizes = dims_of(a)
    top = {
        path: _entry((path,), *row, sizes)
        for path, row in _TOP.items()
        if path != "head_VD" or not a.is_tied
    }
    return [
        top.pop("embedding_VD"),
        *layer_entries(layers, sizes, a.num_layers, "model.layers.{layer}."),
        *top.values(),
    ]


def layer_entries(
    rows: Mapping[str, tuple[str, str, str]],
    sizes: Mapping[str, int],
    num_layers: int,
    prefix: str,
) -> list[Entry]:
    """Entries of stacked parameters below `layers`.

    Args:
      rows: Path below `layers` -> (tensor name, dims, dims as stored).
      sizes: Of every dim.
      num_layers: Length of the stack.
      prefix: Of the tensors' names, with `{layer}`.
    """
    return [
        _entry(("layers", path), prefix + name, dims, stored, sizes, num_layers)
        for path, (name, dims, stored) in rows.items()
    ]


def dims_of(architecture: Architecture) -> dict[str, int]:
    """The size of every dim of a decoder's parameters."""
    a = architecture
    return {
        "D": a.width,
        "N": a.num_heads,
        "K": a.num_kv_heads,
        "H": a.head_width,
        "F": a.mlp_width,
        "V": a.vocab_size,
    }


def leaf_of(tree: Any, path: Iterable[str]) -> Any:
    """What a tree of dicts holds at a path."""
    for key in path:
        tree = tree[key]
    return tree


def put_leaf(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Puts a value at a path of a tree of dicts, and makes the dicts on the way."""
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value


def _entry(
    path: tuple[str, ...],
    name: str,
    dims: str,
    stored: str,
    sizes: Mapping[str, int],
    num_layers: int | None = None,
) -> Entry:
    names = [name.format(layer=layer) for layer in range(num_layers or 1)]
    return Entry(
        path=tuple(key for part in path for key in part.split(".")),
        names=tuple(names),
        is_stacked=num_layers is not None,
        dims=dims,
        stored=tuple(stored.split()),
        sizes=tuple(sizes[dim] for dim in dims),
    )


def _copy_transposed(source: np.ndarray, target: np.ndarray) -> None:
    """Copies a matrix to its transpose, converting; twice as fast as at once."""
    step = 64  # rows whose part of a column shares cache lines
    for start in range(0, len(source), step):
        rows = source[start : start + step].astype(target.dtype)
        target[:, start : start + step] = rows.T
