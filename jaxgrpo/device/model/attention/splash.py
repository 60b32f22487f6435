"""Attention by the fused TPU kernel of JAX, splash attention.

The kernel takes one row and one key head with its N / K query heads; rows and key heads
are mapped over, so keys and values are never repeated. It does not scale queries: we
do. Its causal mask is static and may have an offset, which lets completions follow
their prompt; what depends on data (padding of prompts, packed sequences) is hidden by
segments. Rows are padded at the right to whole blocks.

Memory: no scores outside the kernel. Its result and, for the backward pass, one fp32
number per query and head, which the kernel writes 128 times over before it is cut: for
the length of one call 512 bytes per query and head. Completions copy their prompt's
keys (`rows.py`), padding included: blocks of padding are computed and discarded.

It has been compiled for TPUs on machines without one; the speed of these block sizes on
a TPU has not been measured.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.attention.rows import (
    COMPLETION_SEGMENT,
    joined_rows,
    joined_segments,
    padded_rows,
)
from jaxgrpo.device.model.remat import ATTENTION

_BLOCK_SIZES = (512, 256, 128)
_NO_SEGMENT = -1


def self_attention(
    q_PSNH: Float[Array, "P S N H"],
    k_PSKH: Float[Array, "P S K H"],
    v_PSKH: Float[Array, "P S K H"],
    segment_ids_PS: Int[Array, "P S"] | None,
    *,
    interpret: bool = False,
) -> Float[Array, "P S N H"]:
    """As `xla.causal_attention`; `interpret` runs the kernel's body on any platform."""
    return _attention(
        q_PSNH, k_PSKH, v_PSKH, segment_ids_PS, segment_ids_PS, interpret=interpret
    )


def completion_attention(
    q_BTNH: Float[Array, "B T N H"],
    prefix_k_PSKH: Float[Array, "P S K H"],
    prefix_v_PSKH: Float[Array, "P S K H"],
    suffix_k_BTKH: Float[Array, "B T K H"],
    suffix_v_BTKH: Float[Array, "B T K H"],
    prefix_lengths_P: Int[Array, " P"],
    *,
    interpret: bool = False,
) -> Float[Array, "B T N H"]:
    """Attention of prompt-major completions to their prompt and to themselves."""
    B, T = q_BTNH.shape[:2]
    S = prefix_k_PSKH.shape[1]
    return _attention(
        q_BTNH,
        joined_rows(prefix_k_PSKH, suffix_k_BTKH),
        joined_rows(prefix_v_PSKH, suffix_v_BTKH),
        jnp.full((B, T), COMPLETION_SEGMENT),
        joined_segments(prefix_lengths_P, S, B, T),
        interpret=interpret,
    )


def _attention(
    q_BTNH: Array,
    k_BXKH: Array,
    v_BXKH: Array,
    q_segment_BT: Array | None,
    k_segment_BX: Array | None,
    *,
    interpret: bool,
) -> Array:
    """Attention of the last T positions of a row to the row's X keys."""
    # Takes a second, and only TPUs need it.
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel,
    )

    B, T, N, H = q_BTNH.shape
    X, K = k_BXKH.shape[1:3]
    block_q, block_k = block_size(T), block_size(X)
    # Padded keys come after every query; padded queries are cut off at the end.
    q_BTNH = padded_rows(q_BTNH * jnp.asarray(H**-0.5, q_BTNH.dtype), block_q)
    k_BKXH = padded_rows(k_BXKH, block_k).swapaxes(1, 2)
    v_BKXH = padded_rows(v_BXKH, block_k).swapaxes(1, 2)
    T_padded, X_padded = q_BTNH.shape[1], k_BKXH.shape[2]
    q_BKRTH = q_BTNH.swapaxes(1, 2).reshape(B, K, N // K, T_padded, H)
    kernel = splash_attention_kernel.make_splash_mqa_single_device(
        mask=_causal_mask(N // K, T_padded, X_padded, offset=X - T),
        block_sizes=splash_attention_kernel.BlockSizes(
            block_q=block_q, block_kv=block_k, block_kv_compute=block_k,
            block_q_dkv=block_q, block_kv_dkv=block_k, block_kv_dkv_compute=block_k,
            block_q_dq=block_q, block_kv_dq=block_k,
        ),
        residual_checkpoint_name=ATTENTION,
        interpret=interpret,
    )  # fmt: skip
    segment_ids = None
    if q_segment_BT is not None and k_segment_BX is not None:
        segment_ids = splash_attention_kernel.SegmentIds(
            padded_rows(q_segment_BT, block_q, mode="edge"),
            padded_rows(k_segment_BX, block_k, constant_values=_NO_SEGMENT),
        )
    over_heads: Any = jax.vmap(kernel, in_axes=(0, 0, 0, None))
    out_BKRTH: Array = jax.vmap(over_heads)(q_BKRTH, k_BKXH, v_BKXH, segment_ids)
    return out_BKRTH.reshape(B, N, T_padded, H).swapaxes(1, 2)[:, :T]


def _causal_mask(num_heads: int, num_queries: int, num_keys: int, offset: int) -> Any:
    """Query t sees key x if x <= t + offset; by rule, no array of that shape."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask

    mask = splash_attention_mask.CausalMask((num_queries, num_keys), offset=offset)
    return splash_attention_mask.MultiHeadMask([mask] * num_heads)


def block_size(num_positions: int) -> int:
    """The largest block that pads a row by an eighth at most, or else the smallest.

    Example:
      >>> block_size(4095), block_size(600)
      (512, 128)
    """
    for size in _BLOCK_SIZES:
        if -num_positions % size * 8 <= num_positions:
            return size
    return _BLOCK_SIZES[-1]
