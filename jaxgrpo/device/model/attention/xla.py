"""Attention in plain XLA, with all scores in memory and an fp32 softmax.

A prompt attends to itself, causally. A completion attends to its prompt's keys,
shared by all samples of the prompt and stored once, and causally to itself; both
parts share one softmax, so a shared prefix changes no number.

Keys and values keep their K heads: the N / K query heads of a group are folded into
the query rows, never repeated in memory.

Memory: scores and weights, 4 bytes each, of every query head, query and key: B N T S;
for completions B N T (S + U). Prompt keys are not copied where rows are prompt-major.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

_MASKED = -1e30  # finite: a row that may see nothing must not become NaN


def causal_attention(
    q_PSNH: Float[Array, "P S N H"],
    k_PSKH: Float[Array, "P S K H"],
    v_PSKH: Float[Array, "P S K H"],
    segment_ids_PS: Int[Array, "P S"] | None = None,
) -> Float[Array, "P S N H"]:
    """Attention of right-padded sequences to themselves.

    Causality alone hides the padding from real tokens, so no lengths are needed;
    outputs at padded positions are finite and meaningless.

    Args:
      q_PSNH: Queries, rotated and normalised.
      k_PSKH: Keys, rotated and normalised; K divides N.
      v_PSKH: Values.
      segment_ids_PS: Which of the sequences packed in a row a token belongs to; it
        sees no other. None means one sequence a row.

    Returns:
      Weighted values per query head.
    """
    P, S, N, H = q_PSNH.shape
    K = k_PSKH.shape[2]
    q_PKXH = _fold_heads(q_PSNH, K)
    scores_PKXS = _scores(q_PKXH, k_PSKH)
    position_S = jnp.arange(S)
    is_visible_SS = position_S[:, None] >= position_S[None, :]
    is_visible_PSS = is_visible_SS[None]
    if segment_ids_PS is not None:
        is_same_PSS = segment_ids_PS[:, :, None] == segment_ids_PS[:, None, :]
        is_visible_PSS = jnp.broadcast_to(is_visible_PSS, (P, S, S)) & is_same_PSS
    is_visible_PXS = jnp.tile(is_visible_PSS, (1, N // K, 1))
    scores_PKXS = jnp.where(is_visible_PXS[:, None], scores_PKXS, _MASKED)
    weights_PKXS = jax.nn.softmax(scores_PKXS, axis=-1).astype(v_PSKH.dtype)
    out_PKXH = jnp.einsum("pkxs,pskh->pkxh", weights_PKXS, v_PSKH)
    return _unfold_heads(out_PKXH, S, N)


def prefixed_attention(
    q_BTNH: Float[Array, "B T N H"],
    prefix_k_PSKH: Float[Array, "P S K H"],
    prefix_v_PSKH: Float[Array, "P S K H"],
    suffix_k_BUKH: Float[Array, "B U K H"],
    suffix_v_BUKH: Float[Array, "B U K H"],
    is_prefix_PS: Bool[Array, "P S"],
    is_visible_TU: Bool[Array, "T U"],
    prompt_index_B: Int[Array, " B"] | None,
) -> Float[Array, "B T N H"]:
    """Attention of completions to their prompt and to themselves, in one softmax.

    With z the scaled scores, the weights are softmax([z_prefix, z_suffix]) over both
    parts jointly, exactly as if prompt and completion stood in one row.

    Args:
      q_BTNH: Queries of T completion positions.
      prefix_k_PSKH: Prompt keys, one row per prompt.
      prefix_v_PSKH: Prompt values.
      suffix_k_BUKH: Completion keys (U positions).
      suffix_v_BUKH: Completion values.
      is_prefix_PS: True on the prompt's own tokens, False on its padding.
      is_visible_TU: True where query t may see completion position u.
      prompt_index_B: The prompt of each row; None means that rows are prompt-major
        with B / P rows each, which needs no gather.

    Returns:
      Weighted values per query head.
    """
    B, T, N, H = q_BTNH.shape
    P, S, K, _ = prefix_k_PSKH.shape
    if prompt_index_B is not None:
        prefix_k_PSKH = prefix_k_PSKH[prompt_index_B]
        prefix_v_PSKH = prefix_v_PSKH[prompt_index_B]
        is_prefix_PS = is_prefix_PS[prompt_index_B]
        P = B
    M, X = B // P, N // K * T
    q_BKXH = _fold_heads(q_BTNH, K)
    # All rows of a prompt become query rows of one matrix product with its keys.
    q_PKYH = q_BKXH.reshape(P, M, K, X, H).swapaxes(1, 2).reshape(P, K, M * X, H)
    prefix_PKYS = _scores(q_PKYH, prefix_k_PSKH)
    prefix_PKYS = jnp.where(is_prefix_PS[:, None, None, :], prefix_PKYS, _MASKED)
    prefix_BKXS = prefix_PKYS.reshape(P, K, M, X, S).swapaxes(1, 2).reshape(B, K, X, S)
    suffix_BKXU = _scores(q_BKXH, suffix_k_BUKH)
    is_visible_XU = jnp.tile(is_visible_TU, (N // K, 1))
    suffix_BKXU = jnp.where(is_visible_XU[None, None], suffix_BKXU, _MASKED)
    weights_BKXW = jax.nn.softmax(
        jnp.concatenate([prefix_BKXS, suffix_BKXU], axis=-1), axis=-1
    ).astype(prefix_v_PSKH.dtype)
    weights_BKXS, weights_BKXU = weights_BKXW[..., :S], weights_BKXW[..., S:]
    weights_PKYS = (
        weights_BKXS.reshape(P, M, K, X, S).swapaxes(1, 2).reshape(P, K, M * X, S)
    )
    out_PKYH = jnp.einsum("pkys,pskh->pkyh", weights_PKYS, prefix_v_PSKH)
    out_BKXH = out_PKYH.reshape(P, K, M, X, H).swapaxes(1, 2).reshape(B, K, X, H)
    out_BKXH += jnp.einsum("bkxu,bukh->bkxh", weights_BKXU, suffix_v_BUKH)
    return _unfold_heads(out_BKXH, T, N)


def _scores(
    q_BKXH: Float[Array, "B K X H"], k_BSKH: Float[Array, "B S K H"]
) -> Float[Array, "B K X S"]:
    scores_BKXS = jnp.einsum(
        "bkxh,bskh->bkxs", q_BKXH, k_BSKH, preferred_element_type=jnp.float32
    )
    return scores_BKXS * q_BKXH.shape[-1] ** -0.5


def _fold_heads(
    q_BTNH: Float[Array, "B T N H"], num_kv_heads: int
) -> Float[Array, "B K X H"]:
    """Query heads of a key head as extra rows: X = (N / K) * T, head-major."""
    B, T, N, H = q_BTNH.shape
    return q_BTNH.swapaxes(1, 2).reshape(B, num_kv_heads, N // num_kv_heads * T, H)


def _unfold_heads(
    out_BKXH: Float[Array, "B K X H"], num_positions: int, num_heads: int
) -> Float[Array, "B T N H"]:
    B, _, _, H = out_BKXH.shape
    return out_BKXH.reshape(B, num_heads, num_positions, H).swapaxes(1, 2)
