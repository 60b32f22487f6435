"""Keys and values that are kept: of prompts once, of completions column by column."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Architecture


class PrefixCache(NamedTuple):
    """Keys and values of the prompts, one row per prompt."""

    k_LPSKH: Float[Array, "L P S K H"]
    v_LPSKH: Float[Array, "L P S K H"]
    lengths_P: Int[Array, " P"]


class SuffixCache(NamedTuple):
    """Keys and values of the completions so far; row b's t-th token is in column t."""

    k_LBTKH: Float[Array, "L B T K H"]
    v_LBTKH: Float[Array, "L B T K H"]


def empty_suffix(
    architecture: Architecture, num_rows: int, num_columns: int, dtype: jnp.dtype
) -> SuffixCache:
    """A zeroed suffix cache (zeroed: garbage NaN would survive a mask)."""
    a = architecture
    shape = (a.num_layers, num_rows, num_columns, a.num_kv_heads, a.head_width)
    return SuffixCache(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))
