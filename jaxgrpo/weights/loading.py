"""A checkpoint's tensors straight into sharded arrays.

Each process reads the blocks that its own devices hold, and no more than a piece of a
parameter is on the host at a time: a large parameter is allocated on the devices and
filled there, piece by piece.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Params
from jaxgrpo.weights.names import (
    EMBEDDING,
    HEAD,
    Entry,
    Slices,
    decoder_entries,
    leaf_of,
    put_leaf,
)
from jaxgrpo.weights.reading import READABLE, TensorReader

PIECE_BYTES = 2**26
"""Of the loaded type, for all devices of a process together."""


def load_params(
    folder: Path,
    architecture: Architecture,
    shardings: Any = None,
    dtype: str = "float32",
) -> Params:
    """The checkpoint's weights as a tree of arrays, each born where it belongs.

    Host memory beside the result stays within a few times `PIECE_BYTES`, or one row of
    a tensor if that is more, whatever the size of the checkpoint.

    Args:
      folder: In Hugging Face layout.
      architecture: As its config.json states it.
      shardings: Tree like the result; everything on this process's first device if not
        given.
      dtype: Of the result. Stored are float32, float16 or bfloat16.

    Raises:
      ValueError: If a file is damaged, or a tensor is missing, left over, or of
        another shape or type.
    """
    reader = TensorReader(folder)
    return read_params(reader, architecture, shardings, dtype)


def read_params(
    reader: TensorReader, architecture: Architecture, shardings: Any, dtype: str
) -> Params:
    """`load_params` from a reader, which counts the bytes."""
    entries = decoder_entries(architecture)
    is_tied = architecture.is_tied
    return read_entries(reader, entries, shardings, dtype, is_tied=is_tied)


def read_entries(
    reader: TensorReader,
    entries: list[Entry],
    shardings: Any,
    dtype: str,
    *,
    is_tied: bool,
) -> Params:
    """The parameters that some entries name, all that the checkpoint holds.

    Args:
      reader: Of the checkpoint.
      entries: One per parameter.
      shardings: As for `load_params`.
      dtype: Likewise.
      is_tied: Whether the checkpoint may hold a head too, equal to the embedding.

    Raises:
      ValueError: As for `load_params`.
    """
    _check_tensors(reader, entries, is_tied=is_tied)
    here = SingleDeviceSharding(jax.local_devices()[0])
    has_copy = is_tied and HEAD in reader.tensors
    params: Params = {}
    for entry in entries:
        sharding = here if shardings is None else leaf_of(shardings, entry.path)
        copy = HEAD if has_copy and entry.names == (EMBEDDING,) else None
        read = partial(_read, reader, entry, jnp.dtype(dtype), copy)
        rows_at = int(entry.is_stacked)
        array = _placed(entry.shape, dtype, sharding, read, rows_at=rows_at)
        put_leaf(params, entry.path, array)
    return params


def _check_tensors(
    reader: TensorReader, entries: list[Entry], *, is_tied: bool
) -> None:
    """Refuses a checkpoint that is not the architecture's, before anything is read."""
    folder, known = str(reader.folder), {HEAD} if is_tied else set()
    for entry in entries:
        known.update(entry.names)
        for name in entry.names:
            if name not in reader.tensors:
                raise ValueError(f"tensor {name!r} is missing in {folder!r}.")
            _check_tensor(reader, name, entry.stored_shape)
    if is_tied and HEAD in reader.tensors:
        _check_tensor(reader, HEAD, reader.tensors[EMBEDDING].shape)
    unknown = sorted(set(reader.tensors) - known)
    if unknown:
        raise ValueError(
            f"{folder!r} has tensors this decoder does not know: {unknown[:4]}. Check "
            "config.json against the weights."
        )


def _check_tensor(reader: TensorReader, name: str, shape: tuple[int, ...]) -> None:
    tensor = reader.tensors[name]
    if tensor.shape != shape:
        raise ValueError(
            f"tensor {name!r} has shape {tensor.shape}; config.json implies {shape}. "
            "Check config.json against the weights."
        )
    if tensor.dtype not in READABLE:
        raise ValueError(
            f"tensor {name!r} has type {tensor.dtype}; read are "
            f"{', '.join(READABLE)}. Use a checkpoint that is not quantised."
        )


def _read(
    reader: TensorReader, entry: Entry, dtype: np.dtype, copy: str | None, part: Slices
) -> np.ndarray:
    """A part of a parameter; its layers are one tensor each.

    Raises:
      ValueError: If the tensor `copy` should hold the same and does not.
    """
    layers, part = (part[0], part[1:]) if entry.is_stacked else (slice(0, 1), part)
    sizes = tuple(cut.stop - cut.start for cut in part)
    value = np.empty((layers.stop - layers.start, *sizes), dtype)
    stored_part = entry.stored_slices(part)
    for index, name in enumerate(entry.names[layers]):
        stored = reader.read(name, stored_part)
        if copy and not np.array_equal(reader.read(copy, stored_part), stored):
            raise ValueError(
                f"{str(reader.folder)!r} has tie_word_embeddings true, but its {copy} "
                "is not the embedding. Set it to false in config.json."
            )
        entry.copy_to_ours(stored, value[index])
    return value if entry.is_stacked else value[0]


def _placed(
    shape: tuple[int, ...],
    dtype: str,
    sharding: Sharding,
    read: Callable[[Slices], np.ndarray],
    *,
    rows_at: int,
) -> jax.Array:
    """An array of which each device holds its shard; a large one is filled in pieces.

    Args:
      shape: Of the whole array.
      dtype: Of its numbers.
      sharding: Where it lies: on one device, or on a mesh.
      read: Returns a part of it.
      rows_at: The axis of rows, which no piece cuts through.
    """
    shard = sharding.shard_shape(shape)
    num_bytes = jnp.dtype(dtype).itemsize * len(sharding.addressable_devices)
    pieces = list(_pieces(shard, PIECE_BYTES // num_bytes, rows_at))
    if len(pieces) == 1:
        return _piece(shape, dtype, sharding, read, shard, pieces[0])
    array = jnp.empty(shape, dtype, device=sharding)
    for piece in pieces:
        values = _piece(shape, dtype, sharding, read, shard, piece)
        start = np.array([cut.start for cut in piece], np.int32)
        array = _written(array, values, start, sharding)
        # Otherwise pieces that wait for their turn would pile up on the host.
        array.block_until_ready()
    return array


def _pieces(shape: tuple[int, ...], limit: int, rows_at: int) -> Iterator[Slices]:
    """Slices that cover a shape, of at most `limit` elements or of one row.

    Example:
      >>> [p[0] for p in _pieces((3, 4), 8, 0)]
      [slice(0, 2, None), slice(2, 3, None)]
      >>> len(list(_pieces((3, 4), 2, 0))), len(list(_pieces((3, 4), 2, 1)))
      (3, 6)
    """
    axis = 0
    while axis < rows_at and math.prod(shape[axis + 1 :]) > limit:
        axis += 1
    step = max(1, limit // math.prod(shape[axis + 1 :]))
    steps = [1] * axis + [step] + list(shape[axis + 1 :])
    cuts = (
        [slice(start, min(start + step, size)) for start in range(0, size, step)]
        for size, step in zip(shape, steps, strict=True)
    )
    yield from itertools.product(*cuts)


def _piece(
    shape: tuple[int, ...],
    dtype: str,
    sharding: Sharding,
    read: Callable[[Slices], np.ndarray],
    shard: tuple[int, ...],
    piece: Slices,
) -> jax.Array:
    """The same piece of every shard, laid out as the shards are."""
    sizes = tuple(cut.stop - cut.start for cut in piece)

    def start_of(index: Any) -> tuple[int, ...]:
        """Where in the whole array a device's piece begins."""
        return tuple(
            (cut.start or 0) // size * width + within.start
            for cut, size, width, within in zip(index, sizes, shard, piece, strict=True)
        )

    @cache  # replicas get what was read once
    def values_at(start: tuple[int, ...]) -> np.ndarray:
        return read(tuple(slice(a, a + n) for a, n in zip(start, sizes, strict=True)))

    counts = (whole // width for whole, width in zip(shape, shard, strict=True))
    piece_shape = tuple(n * size for n, size in zip(counts, sizes, strict=True))
    return jax.make_array_from_callback(
        piece_shape, sharding, lambda index: values_at(start_of(index)), dtype
    )


@partial(jax.jit, donate_argnums=0, static_argnames="sharding")
def _written(
    array: jax.Array, piece: jax.Array, start: jax.Array, sharding: Sharding
) -> jax.Array:
    """The array with the same place of every shard overwritten."""
    if not isinstance(sharding, NamedSharding):
        return jax.lax.dynamic_update_slice(array, piece, start)
    return jax.shard_map(
        jax.lax.dynamic_update_slice,
        mesh=sharding.mesh,
        in_specs=(sharding.spec, sharding.spec, PartitionSpec()),
        out_specs=sharding.spec,
    )(array, piece, start)
