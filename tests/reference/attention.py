"""Attention and its gradient, one query at a time, in float64."""

import numpy as np


def attention(q_BTNH, k_BXKH, v_BXKH, is_visible_BTX, out_bar_BTNH):
    """Softmax attention over the visible keys, and gradients of sum(out * out_bar).

    With z_x = q . k_x / sqrt(H), w = softmax(z) over the keys that a query sees, and
    o = sum_x w_x v_x:

        dL/dz_x = w_x (dL/do . v_x - dL/do . o)

    Returns:
      out, and the gradients for q, k and v. A query that sees nothing is left at 0.
    """
    B, T, N, H = q_BTNH.shape
    group = N // k_BXKH.shape[2]
    out_BTNH = np.zeros(q_BTNH.shape)
    q_bar, k_bar, v_bar = (np.zeros(x.shape) for x in (q_BTNH, k_BXKH, v_BXKH))
    for b, t, n in np.ndindex(B, T, N):
        seen, k = np.flatnonzero(is_visible_BTX[b, t]), n // group
        if not len(seen):
            continue
        q, out_bar = q_BTNH[b, t, n], out_bar_BTNH[b, t, n]
        scores = np.array([q @ k_BXKH[b, x, k] for x in seen]) / np.sqrt(H)
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        out = sum(w * v_BXKH[b, x, k] for w, x in zip(weights, seen, strict=True))
        out_BTNH[b, t, n] = out
        for w, x in zip(weights, seen, strict=True):
            score_bar = w * (out_bar @ (v_BXKH[b, x, k] - out)) / np.sqrt(H)
            q_bar[b, t, n] += score_bar * k_BXKH[b, x, k]
            k_bar[b, x, k] += score_bar * q
            v_bar[b, x, k] += w * out_bar
    return out_BTNH, (q_bar, k_bar, v_bar)


def shared_prefix_attention(
    q_BTNH, prefix_k_PSKH, prefix_v_PSKH, k_BTKH, v_BTKH, lengths_P, index_B, out_bar
):
    """Each completion after its own copy of its prompt, padding left out.

    Returns:
      out, and the gradients for the five operands; a prompt's is the sum over its rows.
    """
    T = q_BTNH.shape[1]
    out_BTNH, q_bar = np.zeros(q_BTNH.shape), np.zeros(q_BTNH.shape)
    pk_bar, pv_bar = np.zeros(prefix_k_PSKH.shape), np.zeros(prefix_v_PSKH.shape)
    k_bar, v_bar = np.zeros(k_BTKH.shape), np.zeros(v_BTKH.shape)
    for b, p in enumerate(index_B):
        n = lengths_P[p]
        keys = np.concatenate([prefix_k_PSKH[p, :n], k_BTKH[b]])[None]
        values = np.concatenate([prefix_v_PSKH[p, :n], v_BTKH[b]])[None]
        is_visible = np.arange(n + T)[None, :] <= n + np.arange(T)[:, None]
        out, bars = attention(
            q_BTNH[b : b + 1], keys, values, is_visible[None], out_bar[b : b + 1]
        )
        out_BTNH[b], q_bar[b] = out[0], bars[0][0]
        pk_bar[p, :n] += bars[1][0, :n]
        pv_bar[p, :n] += bars[2][0, :n]
        k_bar[b], v_bar[b] = bars[1][0, n:], bars[2][0, n:]
    return out_BTNH, (q_bar, pk_bar, pv_bar, k_bar, v_bar)
