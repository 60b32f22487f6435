"""Attention by the fused cuDNN kernel of NVIDIA GPUs, through `jax.nn`.

The kernel masks causally by equal positions and hides padding at the right only, by
lengths. A prompt is such a row already. A completion is made one: its row is its
prompt's tokens and then its own, without the padding between, and its queries stand
where their keys do, zeros before them (`rows.py`).

Memory: no scores outside the kernel; one fp32 number per query and head for the
backward pass. Completions copy their prompt's keys, and carry S zero queries a row,
which cost S^2 / 2 of the (S + T)^2 / 2 products of a row and are discarded.

bfloat16 and float16 only, heads of up to 128 (256 from Hopper on).
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.attention.rows import (
    compacted_queries,
    compacted_rows,
    completions_of_compacted,
    padded_rows,
)

# Its backward pass refuses odd rows; whole tiles cost little more.
_MULTIPLE = 64


def self_attention(
    q_PSNH: Float[Array, "P S N H"],
    k_PSKH: Float[Array, "P S K H"],
    v_PSKH: Float[Array, "P S K H"],
    lengths_P: Int[Array, " P"],
    *,
    implementation: Literal["cudnn", "xla"] = "cudnn",
) -> Float[Array, "P S N H"]:
    """As `xla.causal_attention`, but for zeros at padded positions.

    Args:
      q_PSNH: Queries, rotated and normalised.
      k_PSKH: Keys, rotated and normalised; K divides N.
      v_PSKH: Values.
      lengths_P: Tokens of each row.
      implementation: Of `jax.nn.dot_product_attention`; "xla" runs the same layout on
        any platform.
    """
    # A row of no tokens would be a softmax over nothing.
    lengths_P = jnp.maximum(lengths_P, 1).astype(jnp.int32)
    num_positions = q_PSNH.shape[1]
    q_PSNH, k_PSKH, v_PSKH = (
        padded_rows(x, _MULTIPLE) for x in (q_PSNH, k_PSKH, v_PSKH)
    )
    is_token_PS = jnp.arange(q_PSNH.shape[1])[None, :] < lengths_P[:, None]
    # What the kernel reads or writes beyond a row's length is left open, and so is the
    # gradient there: both sides select.
    out_PSNH = jax.nn.dot_product_attention(
        _selected(q_PSNH, is_token_PS),
        _selected(k_PSKH, is_token_PS),
        _selected(v_PSKH, is_token_PS),
        is_causal=True,
        query_seq_lengths=lengths_P,
        key_value_seq_lengths=lengths_P,
        implementation=implementation,
    )
    return _selected(out_PSNH, is_token_PS)[:, :num_positions]


def completion_attention(
    q_BTNH: Float[Array, "B T N H"],
    prefix_k_PSKH: Float[Array, "P S K H"],
    prefix_v_PSKH: Float[Array, "P S K H"],
    suffix_k_BTKH: Float[Array, "B T K H"],
    suffix_v_BTKH: Float[Array, "B T K H"],
    prefix_lengths_P: Int[Array, " P"],
    *,
    implementation: Literal["cudnn", "xla"] = "cudnn",
) -> Float[Array, "B T N H"]:
    """Attention of prompt-major completions to their prompt and to themselves."""
    B, T = q_BTNH.shape[:2]
    S = prefix_k_PSKH.shape[1]
    lengths_B = jnp.repeat(
        prefix_lengths_P + T, B // prefix_lengths_P.shape[0], total_repeat_length=B
    )
    out_BXNH = self_attention(
        compacted_queries(q_BTNH, S, prefix_lengths_P),
        compacted_rows(prefix_k_PSKH, suffix_k_BTKH, prefix_lengths_P),
        compacted_rows(prefix_v_PSKH, suffix_v_BTKH, prefix_lengths_P),
        lengths_B,
        implementation=implementation,
    )
    return completions_of_compacted(out_BXNH, prefix_lengths_P, T)


def _selected(x_PSNH: Array, is_token_PS: Array) -> Array:
    return jnp.where(is_token_PS[:, :, None, None], x_PSNH, jnp.zeros_like(x_PSNH))
