"""Keys and values that are kept: of prompts by slot, of completions in a ring.

At rest they have their positions next to last: a matrix of a head's keys is then
contiguous, and no backend lays the cache out anew to multiply with it. They are kept in
a floating type, or in int8 with one scale per token and head.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num

from jaxgrpo.device.model.architecture import Architecture

CACHE_DTYPES = ("float32", "bfloat16", "int8")
"""How keys and values can be kept."""


class PrefixCache(NamedTuple):
    """Keys and values of prompts as the forward pass makes them."""

    k_LPSKH: Float[Array, "L P S K H"]
    v_LPSKH: Float[Array, "L P S K H"]
    lengths_P: Int[Array, " P"]


class Kept(NamedTuple):
    """Keys or values at rest: numbers, and what they are multiplied with."""

    values: Num[Array, "*rows H"]
    scales: Float[Array, "*rows"] | None
    """Of int8 values; None of others."""


class DecodeCache(NamedTuple):
    """What a decoded token attends to. Slots hold prompts; each slot has B / C rows.

    All rows write the same column of the ring at a step. A row's tokens are those of
    its last steps, so where they stand depends on when the row began, but not on the
    other rows, and no row has to be moved when it ends.
    """

    prefix_k: Kept
    """[L, C, K, S, H]"""
    prefix_v: Kept
    lengths_C: Int[Array, " C"]
    """Tokens of the prompt in each slot."""
    suffix_k: Kept
    """[L, B, K, T, H]"""
    suffix_v: Kept


def empty_cache(
    architecture: Architecture,
    *,
    num_slots: int,
    rows_per_slot: int,
    num_positions: int,
    num_columns: int,
    dtype: str,
) -> DecodeCache:
    """A zeroed cache (zeroed: garbage NaN would survive a mask).

    Args:
      architecture: Sizes of the model.
      num_slots: C.
      rows_per_slot: B / C.
      num_positions: S.
      num_columns: T: length of the ring.
      dtype: One of CACHE_DTYPES.
    """
    a = architecture
    num_rows = num_slots * rows_per_slot

    def zeros(rows: int, positions: int) -> Kept:
        shape = (a.num_layers, rows, a.num_kv_heads, positions, a.head_width)
        scales = jnp.zeros(shape[:-1], jnp.float32) if dtype == "int8" else None
        return Kept(jnp.zeros(shape, jnp.dtype(dtype)), scales)

    return DecodeCache(
        prefix_k=zeros(num_slots, num_positions),
        prefix_v=zeros(num_slots, num_positions),
        lengths_C=jnp.ones((num_slots,), jnp.int32),
        suffix_k=zeros(num_rows, num_columns),
        suffix_v=zeros(num_rows, num_columns),
    )


def kept_like(x: Float[Array, "*rows H"], like: Kept) -> Kept:
    """Keys or values as `like` keeps them.

    In int8, with s = max_h |x_h| / 127 of each token and head, round(x / s) and s.
    """
    if like.scales is None:
        return Kept(x.astype(like.values.dtype), None)
    x32 = x.astype(jnp.float32)
    scales = jnp.max(jnp.abs(x32), axis=-1) / 127.0
    # All zeros: any scale gives them back.
    scales = jnp.where(scales > 0.0, scales, 1.0)
    rounded = jnp.round(x32 / scales[..., None])
    return Kept(rounded.astype(jnp.int8), scales)


def columns_of(kept: Kept, layer: Array, start: Array, width: int) -> Kept:
    """One layer's keys or values in `width` positions from `start` on."""
    rows, heads, _, head_width = kept.values.shape[1:]
    size = (1, rows, heads, width)
    values = jax.lax.dynamic_slice(
        kept.values, (layer, 0, 0, start, 0), (*size, head_width)
    )
    if kept.scales is None:
        return Kept(values[0], None)
    scales = jax.lax.dynamic_slice(kept.scales, (layer, 0, 0, start), size)
    return Kept(values[0], scales[0])


def with_column(kept: Kept, new_LBKH: Float[Array, "L B K H"], column: Array) -> Kept:
    """Keys or values with one column of every layer and row replaced."""
    new = kept_like(new_LBKH, kept)
    values = jax.lax.dynamic_update_slice(
        kept.values, new.values[:, :, :, None], (0, 0, 0, column, 0)
    )
    if kept.scales is None or new.scales is None:
        return Kept(values, None)
    scales = jax.lax.dynamic_update_slice(
        kept.scales, new.scales[:, :, :, None], (0, 0, 0, column)
    )
    return Kept(values, scales)
