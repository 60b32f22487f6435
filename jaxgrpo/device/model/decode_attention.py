"""Attention of one token per row to its prompt, to the row's ring, and to itself.

Keys are visited a block of positions at a time with a running softmax: with z the
scaled scores of a block, and highest score m, total t and output o so far,

    m' = max(m, max z)        a = exp(m - m')        w = exp(z - m')
    t' = a t + sum w          o' = a o + w v         result = o / t

So many blocks are visited as the longest prompt and the longest live row need: short
contexts do not pay for the longest, and one program serves all lengths. A block in
which a row may see nothing leaves that row's m, t and o as they are, to the bit. As a
row begins at the first column of a block, its numbers depend neither on when it began
nor on how long the other rows are.

In the other form the blocks are computed side by side, each with a softmax of its own,
and then summed from the newest to the oldest:

    o = sum_i exp(m_i - max m) o_i        t likewise

It reads a fixed number of columns, and programs are compiled for a few numbers of them;
the promise above holds for each, and between two of them there is rounding. It is for
GPUs, which wait for the host at every turn of a loop of unknown length.

The cache is read before the token is written, and the token's own key is taken from its
projection. A program that writes first and reads the whole back is laid out by TPU
compilers with the columns outside, and copied.

Reference:
  Milakov and Gimelshein, Online normalizer calculation for softmax, 2018,
  https://arxiv.org/abs/1805.02867; Dao et al., FlashAttention, 2022,
  https://arxiv.org/abs/2205.14135. Differs from both in having one query per row, and
  in the fixed order of blocks.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.model.cache import DecodeCache, Kept, columns_of

_MASKED = -1e30  # finite: a row that may see nothing must not become NaN


class Blocks(NamedTuple):
    """Positions that attention visits at a time. Hashable: fixes the program."""

    ring: int
    """Of a completion; divides the ring. Rows begin at multiples of it."""
    prefix: int
    """Of a prompt; divides the slots' width."""
    visible: int | None = None
    """So many blocks of the ring, its first, side by side, and prompts at once; all
    live rows' tokens have to be in them. None visits in loops what rows need."""


class Window(NamedTuple):
    """What rows may see at one step, and how far the loops must go."""

    step: Int[Array, ""]
    """Steps before this one; this one's column is step mod the length of the ring."""
    num_fed_B: Int[Array, " B"]
    """Tokens of each row in the ring: those of its last steps. 0 of an idle row."""
    num_blocks: Int[Array, ""]
    """Blocks of the ring that hold tokens of any live row."""
    num_prefix_blocks: Int[Array, ""]
    """Blocks of positions that hold tokens of any live row's prompt."""


class _Sums(NamedTuple):
    highest_BKX: Float[Array, "B K X"]
    total_BKX: Float[Array, "B K X"]
    out_BKXH: Float[Array, "B K X H"]


def window_of(
    step: Int[Array, ""],
    num_fed_B: Int[Array, " B"],
    is_live_B: Bool[Array, " B"],
    lengths_C: Int[Array, " C"],
    blocks: Blocks,
) -> Window:
    """What the live rows need to see.

    Args:
      step: Steps before this one.
      num_fed_B: Tokens of each row in the ring.
      is_live_B: False for rows whose result is not used.
      lengths_C: Tokens of each slot's prompt.
      blocks: Positions visited at a time.
    """
    C = lengths_C.shape[0]
    num_fed_B = jnp.where(is_live_B, num_fed_B, 0)
    longest = jnp.max(num_fed_B)
    width = blocks.ring
    num_blocks = (step - 1) // width - (step - longest) // width + 1
    is_used_C = jnp.any(is_live_B.reshape(C, -1), axis=1)
    longest_prompt = jnp.max(jnp.where(is_used_C, lengths_C, 0))
    return Window(
        step=step,
        num_fed_B=num_fed_B,
        num_blocks=jnp.where(longest > 0, num_blocks, 0),
        num_prefix_blocks=-(-longest_prompt // blocks.prefix),
    )


def decode_attention(
    q_BNH: Float[Array, "B N H"],
    own_k_BKH: Float[Array, "B K H"],
    own_v_BKH: Float[Array, "B K H"],
    cache: DecodeCache,
    layer: Int[Array, ""],
    window: Window,
    blocks: Blocks,
) -> Float[Array, "B N H"]:
    """Weighted values per query head.

    Args:
      q_BNH: Queries, rotated and normalised; K divides N, C divides B.
      own_k_BKH: Keys of the same tokens, not yet in the cache.
      own_v_BKH: Their values.
      cache: Prompts and rings.
      layer: Which layer of the cache.
      window: From `window_of` with the same blocks.
      blocks: Positions visited at a time.
    """
    B, N, H = q_BNH.shape
    K = own_k_BKH.shape[1]
    C = cache.lengths_C.shape[0]
    M, X = B // C, N // K
    q_BKXH = q_BNH.reshape(B, K, X, H)
    # All rows of a slot become query rows of one matrix product with its prompt.
    q_CKYH = q_BKXH.reshape(C, M, K, X, H).swapaxes(1, 2).reshape(C, K, M * X, H)
    prefix = _prefix_sums(q_CKYH, cache, layer, window, blocks)

    def by_row(values_CKY: Array) -> Array:
        rest = values_CKY.shape[3:]
        split = values_CKY.reshape(C, K, M, X, *rest).swapaxes(1, 2)
        return split.reshape(B, K, X, *rest)

    sums = _Sums(*map(by_row, prefix))
    ring_sums = _ring_sums if blocks.visible is None else _ring_sums_side_by_side
    sums = ring_sums(sums, q_BKXH, cache, layer, window, blocks)
    own = (Kept(own_k_BKH[:, :, None], None), Kept(own_v_BKH[:, :, None], None))
    sums = _with_block(sums, q_BKXH, *own, jnp.ones((B, 1), bool))
    out_BKXH = sums.out_BKXH / sums.total_BKX[..., None]
    return out_BKXH.reshape(B, N, H).astype(q_BNH.dtype)


def _prefix_sums(
    q_CKYH: Array, cache: DecodeCache, layer: Array, window: Window, blocks: Blocks
) -> _Sums:
    num_positions = cache.prefix_k.values.shape[3]
    is_whole = blocks.visible is not None
    width = num_positions if is_whole else blocks.prefix
    assert num_positions % width == 0, f"{num_positions} positions in blocks of {width}"

    def visit(i: Array, sums: _Sums) -> _Sums:
        position_S = i * width + jnp.arange(width)
        is_visible_CS = position_S[None, :] < cache.lengths_C[:, None]
        keys = columns_of(cache.prefix_k, layer, i * width, width)
        values = columns_of(cache.prefix_v, layer, i * width, width)
        return _with_block(sums, q_CKYH, keys, values, is_visible_CS)

    if is_whole:
        return visit(jnp.int32(0), _no_sums(q_CKYH))
    return jax.lax.fori_loop(0, window.num_prefix_blocks, visit, _no_sums(q_CKYH))


def _ring_sums(
    sums: _Sums,
    q_BKXH: Array,
    cache: DecodeCache,
    layer: Array,
    window: Window,
    blocks: Blocks,
) -> _Sums:
    """Adds the row's own tokens, oldest block first."""
    num_columns, width = cache.suffix_k.values.shape[3], blocks.ring
    assert num_columns % width == 0, f"{num_columns} columns in blocks of {width}"
    last = window.step - 1
    first_block = last // width - window.num_blocks + 1

    def visit(i: Array, sums: _Sums) -> _Sums:
        start = (first_block + i) % (num_columns // width) * width
        is_visible_BT = _is_visible(window, start, width, num_columns)
        keys = columns_of(cache.suffix_k, layer, start, width)
        values = columns_of(cache.suffix_v, layer, start, width)
        return _with_block(sums, q_BKXH, keys, values, is_visible_BT)

    return jax.lax.fori_loop(0, window.num_blocks, visit, sums)


def _ring_sums_side_by_side(
    sums: _Sums,
    q_BKXH: Array,
    cache: DecodeCache,
    layer: Array,
    window: Window,
    blocks: Blocks,
) -> _Sums:
    """Adds the row's own tokens, newest block first, from the ring's first columns."""
    B, K, X, H = q_BKXH.shape
    num_columns, width, M = cache.suffix_k.values.shape[3], blocks.ring, blocks.visible
    assert M is not None and M * width <= num_columns
    start = jnp.int32(0)
    is_visible_BT = _is_visible(window, start, M * width, num_columns)
    keys = columns_of(cache.suffix_k, layer, start, M * width)
    values = columns_of(cache.suffix_v, layer, start, M * width)
    scores_BKXT = _scores(q_BKXH, keys, is_visible_BT)
    highest_BKXM = scores_BKXT.reshape(B, K, X, M, width).max(axis=-1)
    highest_BKXT = jnp.repeat(highest_BKXM, width, axis=-1)
    weights_BKXT = _weights(scores_BKXT, highest_BKXT, is_visible_BT)
    total_BKXM = weights_BKXT.reshape(B, K, X, M, width).sum(axis=-1)
    weights_BKXMW = _scaled(weights_BKXT, values).reshape(B, K, X, M, width)
    out_BKMXH = jnp.einsum(
        "bkxmw,bkmwh->bkmxh", weights_BKXMW.astype(q_BKXH.dtype),
        values.values.astype(q_BKXH.dtype).reshape(B, K, M, width, H),
        preferred_element_type=jnp.float32,
    )  # fmt: skip
    highest_BKX = jnp.maximum(sums.highest_BKX, highest_BKXM.max(axis=-1))
    decay_BKX = jnp.exp(sums.highest_BKX - highest_BKX)
    total_BKX = decay_BKX * sums.total_BKX
    out_BKXH = decay_BKX[..., None] * sums.out_BKXH
    newest_first_M = ((window.step - 1) // width - jnp.arange(M)) % M
    highest_BKXM = jnp.take(highest_BKXM, newest_first_M, axis=3)
    total_BKXM = jnp.take(total_BKXM, newest_first_M, axis=3)
    out_BKMXH = jnp.take(out_BKMXH, newest_first_M, axis=2)
    for i in range(M):
        factor_BKX = jnp.exp(highest_BKXM[..., i] - highest_BKX)
        total_BKX += factor_BKX * total_BKXM[..., i]
        out_BKXH += factor_BKX[..., None] * out_BKMXH[:, :, i]
    return _Sums(highest_BKX, total_BKX, out_BKXH)


def _is_visible(
    window: Window, start: Array, width: int, num_columns: int
) -> Bool[Array, "B T"]:
    """Which columns from `start` on hold tokens of each row's present sample."""
    age_T = (window.step - 1 - start - jnp.arange(width)) % num_columns
    return age_T[None, :] < window.num_fed_B[:, None]


def _no_sums(q_BKXH: Array) -> _Sums:
    zeros_BKX = jnp.zeros(q_BKXH.shape[:3], jnp.float32)
    zeros_BKXH = jnp.zeros(q_BKXH.shape, jnp.float32)
    return _Sums(zeros_BKX + _MASKED, zeros_BKX, zeros_BKXH)


def _with_block(
    sums: _Sums,
    q_BKXH: Float[Array, "B K X H"],
    keys: Kept,
    values: Kept,
    is_visible_BS: Bool[Array, "B S"],
) -> _Sums:
    """The sums after one more block of positions; keys and values are [B, K, S, H]."""
    scores_BKXS = _scores(q_BKXH, keys, is_visible_BS)
    highest_BKX = jnp.maximum(sums.highest_BKX, scores_BKXS.max(axis=-1))
    decay_BKX = jnp.exp(sums.highest_BKX - highest_BKX)
    weights_BKXS = _weights(scores_BKXS, highest_BKX[..., None], is_visible_BS)
    total_BKX = decay_BKX * sums.total_BKX + weights_BKXS.sum(axis=-1)
    added_BKXH = jnp.einsum(
        "bkxs,bksh->bkxh", _scaled(weights_BKXS, values).astype(q_BKXH.dtype),
        values.values.astype(q_BKXH.dtype), preferred_element_type=jnp.float32,
    )  # fmt: skip
    out_BKXH = decay_BKX[..., None] * sums.out_BKXH + added_BKXH
    return _Sums(highest_BKX, total_BKX, out_BKXH)


def _scores(
    q_BKXH: Float[Array, "B K X H"], keys: Kept, is_visible_BS: Bool[Array, "B S"]
) -> Float[Array, "B K X S"]:
    scores_BKXS = jnp.einsum(
        "bkxh,bksh->bkxs", q_BKXH, keys.values.astype(q_BKXH.dtype),
        preferred_element_type=jnp.float32,
    )  # fmt: skip
    scores_BKXS = scores_BKXS * q_BKXH.shape[-1] ** -0.5
    if keys.scales is not None:
        scores_BKXS = scores_BKXS * keys.scales[:, :, None, :]
    return jnp.where(is_visible_BS[:, None, None, :], scores_BKXS, _MASKED)


def _weights(
    scores_BKXS: Float[Array, "B K X S"],
    highest_BKXS: Array,
    is_visible_BS: Bool[Array, "B S"],
) -> Float[Array, "B K X S"]:
    weights_BKXS = jnp.exp(scores_BKXS - highest_BKXS)
    # Where all is masked, the highest score is too, and the exponential of 0 is 1.
    return jnp.where(is_visible_BS[:, None, None, :], weights_BKXS, 0.0)


def _scaled(weights_BKXS: Float[Array, "B K X S"], values: Kept) -> Array:
    """Weights of values as they are kept."""
    if values.scales is None:
        return weights_BKXS
    return weights_BKXS * values.scales[:, :, None, :]
