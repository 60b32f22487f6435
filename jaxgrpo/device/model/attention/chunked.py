"""Attention in plain XLA whose memory grows with the row, not with its square.

Queries and keys are cut into chunks. For one chunk of queries the keys' chunks pass by
with a running maximum and denominator (online softmax); the backward pass computes the
weights anew from the kept log of the denominator. Chunks of keys that causality hides
are skipped.

Memory: the scores of one pair of chunks, 4 bytes each: B N Y E for Y queries and E
keys; kept for the backward pass are q, k, v, the result, and one fp32 number per query
and head. The backward pass holds fp32 gradients of a layer's keys and values.

Reference:
  Rabe and Staats, Self-attention Does Not Need O(n^2) Memory, 2021,
  https://arxiv.org/abs/2112.05682; the backward pass is that of Dao et al.,
  FlashAttention, 2022, https://arxiv.org/abs/2205.14135, in XLA instead of a kernel.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.attention.rows import (
    COMPLETION_SEGMENT,
    joined_rows,
    joined_segments,
    padded_rows,
)
from jaxgrpo.device.model.remat import kept_of_attention

NUM_QUERIES = 256
NUM_KEYS = 512
_MASKED = -1e30  # finite: a row that may see nothing must not become NaN


def self_attention(
    q_PSNH: Float[Array, "P S N H"],
    k_PSKH: Float[Array, "P S K H"],
    v_PSKH: Float[Array, "P S K H"],
    segment_ids_PS: Int[Array, "P S"] | None,
    **sizes: int,
) -> Float[Array, "P S N H"]:
    """As `xla.causal_attention`; `sizes` as in `causal_chunks`."""
    return causal_chunks(
        q_PSNH, k_PSKH, v_PSKH, segment_ids_PS, segment_ids_PS, **sizes
    )


def completion_attention(
    q_BTNH: Float[Array, "B T N H"],
    prefix_k_PSKH: Float[Array, "P S K H"],
    prefix_v_PSKH: Float[Array, "P S K H"],
    suffix_k_BTKH: Float[Array, "B T K H"],
    suffix_v_BTKH: Float[Array, "B T K H"],
    prefix_lengths_P: Int[Array, " P"],
    **sizes: int,
) -> Float[Array, "B T N H"]:
    """Attention of prompt-major completions to their prompt and to themselves."""
    B, T = q_BTNH.shape[:2]
    S = prefix_k_PSKH.shape[1]
    return causal_chunks(
        q_BTNH,
        joined_rows(prefix_k_PSKH, suffix_k_BTKH),
        joined_rows(prefix_v_PSKH, suffix_v_BTKH),
        jnp.full((B, T), COMPLETION_SEGMENT),
        joined_segments(prefix_lengths_P, S, B, T),
        **sizes,
    )


def causal_chunks(
    q_BTNH: Float[Array, "B T N H"],
    k_BXKH: Float[Array, "B X K H"],
    v_BXKH: Float[Array, "B X K H"],
    q_segment_BT: Int[Array, "B T"] | None,
    k_segment_BX: Int[Array, "B X"] | None,
    *,
    num_queries: int = NUM_QUERIES,
    num_keys: int = NUM_KEYS,
) -> Float[Array, "B T N H"]:
    """Attention of the last T positions of a row to the row's X keys.

    Query t sees key x if x <= X - T + t and both have the same segment.

    Args:
      q_BTNH: Queries, rotated and normalised.
      k_BXKH: Keys; K divides N, and X is at least T.
      v_BXKH: Values.
      q_segment_BT: Segment of each query; None means one segment a row.
      k_segment_BX: Segment of each key; None likewise.
      num_queries: Y: queries of a chunk.
      num_keys: E: keys of a chunk.

    Returns:
      Weighted values per query head.
    """
    B, T, N, H = q_BTNH.shape
    X, K = k_BXKH.shape[1:3]
    chunks = _Chunks(min(num_queries, T), min(num_keys, X), X - T)
    if q_segment_BT is None or k_segment_BX is None:
        q_segment_BT = jnp.zeros((B, T), jnp.int32)
        k_segment_BX = jnp.zeros((B, X), jnp.int32)
    # Padding at the right: causality hides such keys, and such queries are cut off.
    q_BTNH = padded_rows(q_BTNH, chunks.num_queries)
    T_padded = q_BTNH.shape[1]
    q_BKRTH = q_BTNH.reshape(B, T_padded, K, N // K, H).transpose(0, 2, 3, 1, 4)
    out_BKRTH: Array = _attention(
        q_BKRTH,
        padded_rows(k_BXKH, chunks.num_keys).swapaxes(1, 2),
        padded_rows(v_BXKH, chunks.num_keys).swapaxes(1, 2),
        padded_rows(q_segment_BT, chunks.num_queries),
        padded_rows(k_segment_BX, chunks.num_keys),
        chunks,
    )
    out_BTNH = out_BKRTH.transpose(0, 3, 1, 2, 4).reshape(B, T_padded, N, H)
    return out_BTNH[:, :T]


class _Chunks(NamedTuple):
    """How rows are cut. Static."""

    num_queries: int
    num_keys: int
    offset: int
    """Position of the first query among the keys."""


class _Sums(NamedTuple):
    """Of the keys that have passed by, for one chunk of queries."""

    highest_BKRY: Array
    total_BKRY: Array
    out_BKRYH: Array


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attention(
    q_BKRTH: Array,
    k_BKXH: Array,
    v_BKXH: Array,
    q_segment_BT: Array,
    k_segment_BX: Array,
    chunks: _Chunks,
) -> Array:
    return _forward(q_BKRTH, k_BKXH, v_BKXH, q_segment_BT, k_segment_BX, chunks)[0]


def _forward(
    q_BKRTH: Array,
    k_BKXH: Array,
    v_BKXH: Array,
    q_segment_BT: Array,
    k_segment_BX: Array,
    chunks: _Chunks,
) -> tuple[Array, Array]:
    """The result, and per query and head the log of the softmax's denominator."""

    def attend(index: Array) -> tuple[Array, Array]:
        q_BKRYH, q_segment_BY = _queries(index, chunks, (q_BKRTH,), q_segment_BT)

        def visit(j: Array, sums: _Sums) -> _Sums:
            k_BKEH, v_BKEH, k_segment_BE = _keys(
                j, chunks, k_BKXH, v_BKXH, k_segment_BX
            )
            is_visible_BYE = _is_visible(index, j, q_segment_BY, k_segment_BE, chunks)
            return _with_block(sums, q_BKRYH, k_BKEH, v_BKEH, is_visible_BYE)

        zeros_BKRY = jnp.zeros(q_BKRYH.shape[:-1], jnp.float32)
        zeros_BKRYH = jnp.zeros(q_BKRYH.shape, jnp.float32)
        num_visible = _num_visible_chunks(index, k_BKXH.shape[2], chunks)
        sums = jax.lax.fori_loop(
            0, num_visible, visit, _Sums(zeros_BKRY + _MASKED, zeros_BKRY, zeros_BKRYH)
        )
        out_BKRYH = sums.out_BKRYH / sums.total_BKRY[..., None]
        log_total_BKRY = sums.highest_BKRY + jnp.log(sums.total_BKRY)
        return out_BKRYH.astype(q_BKRTH.dtype), log_total_BKRY

    num_chunks = q_BKRTH.shape[3] // chunks.num_queries
    outs, log_totals = jax.lax.map(attend, jnp.arange(num_chunks))
    return _rejoined(outs, axis=3), _rejoined(log_totals, axis=3)


def _with_block(
    sums: _Sums, q_BKRYH: Array, k_BKEH: Array, v_BKEH: Array, is_visible_BYE: Array
) -> _Sums:
    """The sums after one more chunk of keys.

    A query that has seen nothing yet counts hidden keys at the finite mask; the first
    key that it sees shrinks them to exactly 0.
    """
    scores_BKRYE = _scores(q_BKRYH, k_BKEH)
    scores_BKRYE = jnp.where(is_visible_BYE[:, None, None], scores_BKRYE, _MASKED)
    highest_BKRY = jnp.maximum(sums.highest_BKRY, scores_BKRYE.max(axis=-1))
    weights_BKRYE = jnp.exp(scores_BKRYE - highest_BKRY[..., None])
    shrink_BKRY = jnp.exp(sums.highest_BKRY - highest_BKRY)
    added_BKRYH = _product(
        "bkrye,bkeh->bkryh", weights_BKRYE.astype(v_BKEH.dtype), v_BKEH
    )
    return _Sums(
        highest_BKRY,
        sums.total_BKRY * shrink_BKRY + weights_BKRYE.sum(axis=-1),
        sums.out_BKRYH * shrink_BKRY[..., None] + added_BKRYH,
    )


def _forward_rule(
    q_BKRTH: Array,
    k_BKXH: Array,
    v_BKXH: Array,
    q_segment_BT: Array,
    k_segment_BX: Array,
    chunks: _Chunks,
) -> tuple[Array, Any]:
    operands = (q_BKRTH, k_BKXH, v_BKXH, q_segment_BT, k_segment_BX)
    out_BKRTH, log_total_BKRT = kept_of_attention(_forward(*operands, chunks))
    return out_BKRTH, (*operands, out_BKRTH, log_total_BKRT)


def _backward_rule(
    chunks: _Chunks, kept: tuple[Array, ...], out_bar_BKRTH: Array
) -> tuple[Array | None, ...]:
    q_BKRTH, k_BKXH, v_BKXH, q_segment_BT, k_segment_BX, out_BKRTH, log_total_BKRT = (
        kept
    )
    # sum_x weight_x * d loss / d weight_x, the same for all keys of a query.
    common_BKRT = jnp.sum(
        out_BKRTH.astype(jnp.float32) * out_bar_BKRTH.astype(jnp.float32), axis=-1
    )
    by_query = (q_BKRTH, out_bar_BKRTH, common_BKRT, log_total_BKRT)

    def learn(bars: tuple[Array, Array], index: Array) -> tuple[Any, Array]:
        q_BKRYH, out_bar_BKRYH, common_BKRY, log_total_BKRY, q_segment_BY = _queries(
            index, chunks, by_query, q_segment_BT
        )

        def visit(j: Array, carry: tuple[Array, Array, Array]) -> Any:
            q_bar_BKRYH, k_bar_BKXH, v_bar_BKXH = carry
            k_BKEH, v_BKEH, k_segment_BE = _keys(
                j, chunks, k_BKXH, v_BKXH, k_segment_BX
            )
            is_visible_BYE = _is_visible(index, j, q_segment_BY, k_segment_BE, chunks)
            added = _block_gradients(
                q_BKRYH, out_bar_BKRYH, common_BKRY, log_total_BKRY,
                k_BKEH, v_BKEH, is_visible_BYE,
            )  # fmt: skip
            start = j * chunks.num_keys
            return (
                q_bar_BKRYH + added[0],
                _added(k_bar_BKXH, added[1], start),
                _added(v_bar_BKXH, added[2], start),
            )

        num_visible = _num_visible_chunks(index, k_BKXH.shape[2], chunks)
        zeros_BKRYH = jnp.zeros(q_BKRYH.shape, jnp.float32)
        q_bar_BKRYH, k_bar_BKXH, v_bar_BKXH = jax.lax.fori_loop(
            0, num_visible, visit, (zeros_BKRYH, *bars)
        )
        return (k_bar_BKXH, v_bar_BKXH), q_bar_BKRYH.astype(q_BKRTH.dtype)

    zeros_BKXH = jnp.zeros(k_BKXH.shape, jnp.float32)
    num_chunks = q_BKRTH.shape[3] // chunks.num_queries
    (k_bar_BKXH, v_bar_BKXH), q_bars = jax.lax.scan(
        learn, (zeros_BKXH, zeros_BKXH), jnp.arange(num_chunks)
    )
    return (
        _rejoined(q_bars, axis=3),
        k_bar_BKXH.astype(k_BKXH.dtype),
        v_bar_BKXH.astype(v_BKXH.dtype),
        None,
        None,
    )


def _block_gradients(
    q_BKRYH: Array,
    out_bar_BKRYH: Array,
    common_BKRY: Array,
    log_total_BKRY: Array,
    k_BKEH: Array,
    v_BKEH: Array,
    is_visible_BYE: Array,
) -> tuple[Array, Array, Array]:
    """What one pair of chunks adds to the gradients of its q, k and v, in fp32."""
    scores_BKRYE = _scores(q_BKRYH, k_BKEH)
    weights_BKRYE = jnp.where(
        is_visible_BYE[:, None, None],
        jnp.exp(scores_BKRYE - log_total_BKRY[..., None]),
        0.0,
    )
    weights_bar_BKRYE = _product("bkryh,bkeh->bkrye", out_bar_BKRYH, v_BKEH)
    scores_bar_BKRYE = weights_BKRYE * (weights_bar_BKRYE - common_BKRY[..., None])
    scores_bar_BKRYE = scores_bar_BKRYE * q_BKRYH.shape[-1] ** -0.5
    scores_bar_BKRYE = scores_bar_BKRYE.astype(q_BKRYH.dtype)
    weights_BKRYE = weights_BKRYE.astype(v_BKEH.dtype)
    return (
        _product("bkrye,bkeh->bkryh", scores_bar_BKRYE, k_BKEH),
        _product("bkrye,bkryh->bkeh", scores_bar_BKRYE, q_BKRYH),
        _product("bkrye,bkryh->bkeh", weights_BKRYE, out_bar_BKRYH),
    )


_attention.defvjp(_forward_rule, _backward_rule)


def _num_visible_chunks(index: Array, num_keys: int, chunks: _Chunks) -> Array:
    """Chunks of keys that the chunk of queries sees, or part of which it sees."""
    num_seen = (index + 1) * chunks.num_queries + chunks.offset
    num_chunks = -(-num_seen // chunks.num_keys)
    return jnp.minimum(num_chunks, num_keys // chunks.num_keys)


def _is_visible(
    index: Array, j: Array, q_segment_BY: Array, k_segment_BE: Array, chunks: _Chunks
) -> Array:
    Y, E, offset = chunks
    q_position_Y1 = (offset + index * Y + jnp.arange(Y))[:, None]
    k_position_1E = (j * E + jnp.arange(E))[None, :]
    is_earlier_YE = k_position_1E <= q_position_Y1
    is_same_BYE = q_segment_BY[:, :, None] == k_segment_BE[:, None, :]
    return is_earlier_YE[None] & is_same_BYE


def _queries(
    index: Array, chunks: _Chunks, arrays: tuple[Array, ...], q_segment_BT: Array
) -> list[Array]:
    """One chunk of what belongs to queries, their segments last."""
    Y = chunks.num_queries
    cut = [_cut(x, index, Y, axis=3) for x in arrays]
    return [*cut, _cut(q_segment_BT, index, Y, axis=1)]


def _keys(
    j: Array, chunks: _Chunks, k_BKXH: Array, v_BKXH: Array, k_segment_BX: Array
) -> tuple[Array, Array, Array]:
    """One chunk of keys and values, and their segments."""
    E = chunks.num_keys
    return (
        _cut(k_BKXH, j, E, axis=2),
        _cut(v_BKXH, j, E, axis=2),
        _cut(k_segment_BX, j, E, axis=1),
    )


def _scores(q_BKRYH: Array, k_BKEH: Array) -> Array:
    scores_BKRYE = _product("bkryh,bkeh->bkrye", q_BKRYH, k_BKEH)
    return scores_BKRYE * q_BKRYH.shape[-1] ** -0.5


def _product(equation: str, left: Array, right: Array) -> Array:
    return jnp.einsum(equation, left, right, preferred_element_type=jnp.float32)


def _cut(x: Array, index: Array, size: int, *, axis: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, index * size, size, axis)


def _added(total_BKXH: Array, part_BKEH: Array, start: Array) -> Array:
    E = part_BKEH.shape[2]
    old_BKEH = jax.lax.dynamic_slice_in_dim(total_BKXH, start, E, axis=2)
    return jax.lax.dynamic_update_slice_in_dim(
        total_BKXH, old_BKEH + part_BKEH, start, axis=2
    )


def _rejoined(parts: Array, *, axis: int) -> Array:
    """Chunks stacked along a first axis, side by side again along their own."""
    moved = jnp.moveaxis(parts, 0, axis)
    shape = moved.shape
    return moved.reshape(
        *shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]
    )
