"""Hugging Face checkpoints to parameters and back.

A checkpoint is a folder: config.json, *.safetensors (one file, or shards with an
index), tokenizer files. `builtin:NAME` names one that ships with the package.
"""

import json
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from jaxgrpo.device.model.architecture import (
    Architecture,
    architecture_from_config,
    config_from_architecture,
)
from jaxgrpo.device.model.decoder import Params

# Path in the parameter tree -> (name in the checkpoint, layout). A layer's tensors
# are stacked along a new first axis. Layouts: "in_out" is stored transposed
# (out, in) and split or merged to our shape; "as_is" has the same shape.
_TOP_NAMES = {
    ("embedding_VD",): ("model.embed_tokens.weight", "as_is"),
    ("final_norm", "scale"): ("model.norm.weight", "as_is"),
    ("head_VD",): ("lm_head.weight", "as_is"),
}
_LAYER_NAMES = {
    ("attention_norm", "scale"): ("input_layernorm.weight", "as_is"),
    ("mlp_norm", "scale"): ("post_attention_layernorm.weight", "as_is"),
    ("q_norm", "scale"): ("self_attn.q_norm.weight", "as_is"),
    ("k_norm", "scale"): ("self_attn.k_norm.weight", "as_is"),
    ("q_DNH",): ("self_attn.q_proj.weight", "in_out"),
    ("k_DKH",): ("self_attn.k_proj.weight", "in_out"),
    ("v_DKH",): ("self_attn.v_proj.weight", "in_out"),
    ("o_NHD",): ("self_attn.o_proj.weight", "in_out"),
    ("gate_DF",): ("mlp.gate_proj.weight", "in_out"),
    ("up_DF",): ("mlp.up_proj.weight", "in_out"),
    ("down_FD",): ("mlp.down_proj.weight", "in_out"),
}


def checkpoint_folder(source: str) -> Path:
    """The folder of a checkpoint.

    Args:
      source: A path, or `builtin:NAME`.

    Raises:
      ValueError: If there is no such folder.
    """
    if source.startswith("builtin:"):
        assets = Path(str(resources.files("jaxgrpo"))) / "assets"
        folder = assets / source.removeprefix("builtin:")
        if not folder.is_dir():
            names = sorted(path.name for path in assets.iterdir() if path.is_dir())
            raise ValueError(f"no checkpoint {source!r}. Built in are: {names}.")
        return folder
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise ValueError(
            f"no folder {str(folder)!r}. Give a checkpoint folder in Hugging Face "
            "layout, or builtin:NAME."
        )
    return folder


def load_architecture(folder: Path) -> Architecture:
    """The architecture stated by the folder's config.json."""
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"no config.json in {str(folder)!r}. Is it a checkpoint?")
    return architecture_from_config(json.loads(path.read_text()))


def load_params(folder: Path, architecture: Architecture) -> Params:
    """The checkpoint's weights as a tree of float32 arrays on the host.

    Args:
      folder: In Hugging Face layout.
      architecture: As its config.json states it.

    Raises:
      ValueError: If a tensor is missing, left over, or of another shape.
    """
    tensors = _open_tensors(folder)
    shapes = _param_shapes(architecture)
    if architecture.is_tied:
        _drop_tied_copy(tensors, folder)
    params: Params = {}
    for path, shape in shapes.items():
        value = np.empty(shape, np.float32)
        for index, name in _tensor_names(path, architecture):
            if name not in tensors:
                raise ValueError(f"tensor {name!r} is missing in {str(folder)!r}.")
            value[index] = _to_ours(tensors.pop(name)(), name, path, shape)
        _set(params, path, value)
    if tensors:
        raise ValueError(
            f"{str(folder)!r} has tensors this decoder does not know: "
            f"{sorted(tensors)[:4]}. Check config.json against the weights."
        )
    return params


def save_checkpoint(
    folder: Path,
    params: Params,
    architecture: Architecture,
    *,
    dtype: str = "float32",
    eos_ids: tuple[int, ...] = (),
) -> None:
    """Writes config.json, generation_config.json and model.safetensors.

    Args:
      folder: Created if needed. Tokenizer files are the caller's.
      params: Tree of arrays.
      architecture: Sizes of the model.
      dtype: Of the stored tensors: float32, float16 or bfloat16.
      eos_ids: Every id that ends a completion.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = config_from_architecture(architecture) | {"torch_dtype": dtype}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {"eos_token_id": list(eos_ids)} if eos_ids else {}
    (folder / "generation_config.json").write_text(json.dumps(generation) + "\n")
    tensors = {}
    for path in _param_shapes(architecture):
        value = np.asarray(jax.device_get(_get(params, path)))
        for index, name in _tensor_names(path, architecture):
            tensor = _to_theirs(value[index], path)
            tensors[name] = np.ascontiguousarray(tensor.astype(jnp.dtype(dtype)))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # the library leaves it private


def _open_tensors(folder: Path) -> dict[str, Any]:
    """Tensor name -> function that reads it."""
    readers: dict[str, Any] = {}
    for file in _weight_files(folder):
        handle = safe_open(file, framework="numpy")
        for name in handle.keys():  # noqa: SIM118  (safe_open is no mapping)
            if name in readers:
                raise ValueError(
                    f"{str(folder)!r} holds tensor {name!r} twice, again in "
                    f"{file.name}. Remove the files that are not the checkpoint's."
                )
            readers[name] = partial(handle.get_tensor, name)
    return readers


def _weight_files(folder: Path) -> list[Path]:
    """The files that the index names; without one, all there are."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ValueError(
                f"no *.safetensors in {str(folder)!r}. Is it a checkpoint?"
            )
        return files
    named = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    absent = [name for name in named if not (folder / name).is_file()]
    if absent:
        raise ValueError(
            f"{str(folder)!r} lacks {absent}, which {index.name} names. Copy the "
            "checkpoint again."
        )
    return [folder / name for name in named]


def _drop_tied_copy(tensors: dict[str, Any], folder: Path) -> None:
    """Drops a stored copy of the embedding; anything but a copy is refused."""
    head = tensors.pop("lm_head.weight", None)
    embedding = tensors.get("model.embed_tokens.weight")
    if head is None or embedding is None:
        return
    if not np.array_equal(head(), embedding()):
        raise ValueError(
            f"{str(folder)!r} has tie_word_embeddings true, but its lm_head.weight is "
            "not the embedding. Set it to false in config.json."
        )


def _param_shapes(architecture: Architecture) -> dict[tuple[str, ...], tuple[int, ...]]:
    a = architecture
    heads, kv_heads = (a.num_heads, a.head_width), (a.num_kv_heads, a.head_width)
    layer_shapes = {
        ("attention_norm", "scale"): (a.width,),
        ("mlp_norm", "scale"): (a.width,),
        ("q_norm", "scale"): (a.head_width,),
        ("k_norm", "scale"): (a.head_width,),
        ("q_DNH",): (a.width, *heads),
        ("k_DKH",): (a.width, *kv_heads),
        ("v_DKH",): (a.width, *kv_heads),
        ("o_NHD",): (*heads, a.width),
        ("gate_DF",): (a.width, a.mlp_width),
        ("up_DF",): (a.width, a.mlp_width),
        ("down_FD",): (a.mlp_width, a.width),
    }
    shapes = {
        ("layers", *path): (a.num_layers, *shape)
        for path, shape in layer_shapes.items()
    }
    shapes[("embedding_VD",)] = (a.vocab_size, a.width)
    shapes[("final_norm", "scale")] = (a.width,)
    if not a.is_tied:
        shapes[("head_VD",)] = (a.vocab_size, a.width)
    return shapes


def _tensor_names(
    path: tuple[str, ...], architecture: Architecture
) -> list[tuple[Any, str]]:
    """(index into our array, checkpoint name) of each tensor of a parameter."""
    if path[0] != "layers":
        return [(..., _TOP_NAMES[path][0])]
    suffix = _LAYER_NAMES[path[1:]][0]
    return [
        (layer, f"model.layers.{layer}.{suffix}")
        for layer in range(architecture.num_layers)
    ]


def _layout(path: tuple[str, ...]) -> str:
    table = _LAYER_NAMES if path[0] == "layers" else _TOP_NAMES
    return table[path[1:] if path[0] == "layers" else path][1]


def _to_ours(
    tensor: np.ndarray, name: str, path: tuple[str, ...], shape: tuple[int, ...]
) -> np.ndarray:
    ours = shape[1:] if path[0] == "layers" else shape
    theirs = _to_theirs(np.broadcast_to(np.float32(0), ours), path).shape
    if tensor.shape != theirs:
        raise ValueError(
            f"tensor {name!r} has shape {tensor.shape}; config.json implies {theirs}. "
            "Check config.json against the weights."
        )
    stored = tensor.T if _layout(path) == "in_out" else tensor
    return stored.astype(np.float32).reshape(ours)


def _to_theirs(value: np.ndarray, path: tuple[str, ...]) -> np.ndarray:
    if _layout(path) == "as_is":
        return value
    num_in = 2 if path[-1] == "o_NHD" else 1
    return value.reshape(int(np.prod(value.shape[:num_in])), -1).T


def _get(tree: Params, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _set(tree: Params, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = value
