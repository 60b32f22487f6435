"""Parameters into a checkpoint that `transformers` loads too."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from jaxgrpo.device.model.architecture import Architecture, config_from_architecture
from jaxgrpo.device.model.decoder import Params
from jaxgrpo.device.model.lora import ADAPTERS, Adapted, merged_kernel
from jaxgrpo.weights.names import Entry, decoder_entries, leaf_of
from jaxgrpo.weights.writing import (
    MAX_SHARD_BYTES,
    Tensor,
    whole_folder,
    write_json,
    write_tensors,
)


def save_checkpoint(
    folder: Path,
    weights: Params | Adapted,
    architecture: Architecture,
    *,
    dtype: str = "float32",
    eos_ids: tuple[int, ...] = (),
    tokenizer_folder: Path | None = None,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Writes config.json, generation_config.json, the weights and the tokenizer.

    Tensors are gathered to the host one at a time (of stacked layers, one layer), and
    adapters are merged into them on the way. All processes of a run must call this; the
    first one writes.

    Args:
      folder: Made if needed; its files appear together (see `whole_folder`).
      weights: Tree of arrays, on the host or on devices, sharded or not; or adapters on
        their base.
      architecture: Sizes of the model.
      dtype: Of the stored tensors: float32, float16 or bfloat16.
      eos_ids: Every id that ends a completion.
      tokenizer_folder: Where tokenizer files and chat template are copied from.
      max_shard_bytes: Of the tensors in one file.
      report: Told after each tensor how many of how many are written.
    """
    tensors = [
        tensor
        for entry in decoder_entries(architecture)
        for tensor in tensors_of(entry, _parts(weights, entry), dtype)
    ]
    config = config_from_architecture(architecture) | {"torch_dtype": dtype}
    generation = {"eos_token_id": list(eos_ids)} if eos_ids else {}

    def write(place: Path) -> None:
        write_json(place / "config.json", config)
        write_json(place / "generation_config.json", generation)
        if tokenizer_folder is not None:
            copy_tokenizer(tokenizer_folder, place)
        write_tensors(
            place, tensors, dtype, max_shard_bytes=max_shard_bytes, report=report
        )

    write_together(folder, tensors, write)


def tensors_of(
    entry: Entry, parts: tuple[Any, ...], dtype: str = "float32"
) -> list[Tensor]:
    """The tensors that hold a parameter, each gathered when it is asked for.

    Args:
      entry: The parameter.
      parts: Its array; or a kernel, the two matrices of its adapter, and their scale.
      dtype: To be stored; numbers are converted before they leave the device.
    """

    def blocks(layer: int) -> Iterator[np.ndarray]:
        whole = _on_host(parts, layer if entry.is_stacked else None, dtype)
        yield entry.as_stored(whole)

    return [
        Tensor(name, entry.stored_shape, partial(blocks, layer))
        for layer, name in enumerate(entry.names)
    ]


def write_together(
    folder: Path, tensors: Sequence[Tensor], write: Callable[[Path], None]
) -> None:
    """Writes a folder in the first process; the others take part in the gathering.

    Args:
      folder: As for `whole_folder`.
      tensors: Those that `write` writes, in its order.
      write: Fills the folder.
    """
    if jax.process_index() == 0:
        with whole_folder(folder) as place:
            write(place)
    else:
        for tensor in tensors:
            for _ in tensor.blocks():
                pass
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(f"saved {folder}")


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copies tokenizer files and chat template from one folder to another."""
    for file in source.iterdir():
        is_tokenizer = "token" in file.name or file.name.startswith("chat_template")
        if is_tokenizer or file.name in ("vocab.json", "merges.txt"):
            shutil.copyfile(file, folder / file.name)


def _parts(weights: Params | Adapted, entry: Entry) -> tuple[Any, ...]:
    """A parameter's array, and its adapter's matrices and scale where it has one."""
    if not isinstance(weights, Adapted):
        return (leaf_of(weights, entry.path),)
    kernel = leaf_of(weights.base.params, entry.path)
    added = weights.adapters["layers"]
    for names in ADAPTERS.values():
        if entry.path == ("layers", names.kernel) and names.a in added:
            return kernel, added[names.a], added[names.b], weights.base.scale
    return (kernel,)


def _on_host(parts: tuple[Any, ...], layer: int | None, dtype: str) -> np.ndarray:
    """A parameter, or a layer of it, whole on every host."""
    value = parts[0]
    if len(parts) == 1 and isinstance(value, np.ndarray):
        part = value if layer is None else value[layer]
        return part.astype(jnp.dtype(dtype))
    sharding = value.sharding if isinstance(value, jax.Array) else None
    return np.asarray(_gathered(parts, layer, dtype, sharding))


@partial(jax.jit, static_argnames=("dtype", "sharding"))
def _gathered(
    parts: tuple[Any, ...], layer: int | None, dtype: str, sharding: Sharding | None
) -> jax.Array:
    if layer is not None:
        parts = tuple(
            jax.lax.dynamic_index_in_dim(part, layer) if part.ndim else part
            for part in parts
        )
    kernel, *adapter = parts
    value = merged_kernel(kernel, *adapter) if adapter else kernel
    value = (value if layer is None else value[0]).astype(dtype)
    if not isinstance(sharding, NamedSharding):
        return value
    whole = NamedSharding(sharding.mesh, PartitionSpec())
    return jax.lax.with_sharding_constraint(value, whole)
