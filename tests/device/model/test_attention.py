"""Attention against loops over heads and positions in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.model.attention import causal_attention, prefixed_attention

P, S, B, T, N, K, H = 2, 5, 6, 4, 6, 2, 8
LENGTHS_P = np.array([5, 2])


attention = jax.jit(prefixed_attention)


def attended(q_H, keys, values):
    """One query over the keys it may see: softmax(q . k / sqrt(H)) . v, in float64."""
    scores = np.array([q_H @ k_H for k_H in keys]) / np.sqrt(len(q_H))
    weights = np.exp(scores - scores.max())
    return sum(w * v for w, v in zip(weights / weights.sum(), values, strict=True))


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {
        "q_PSNH": (P, S, N, H), "k_PSKH": (P, S, K, H), "v_PSKH": (P, S, K, H),
        "q_BTNH": (B, T, N, H), "k_BTKH": (B, T, K, H), "v_BTKH": (B, T, K, H),
    }  # fmt: skip
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def to_device(arrays, *names):
    return [jnp.asarray(arrays[name], jnp.float32) for name in names]


def test_causal_attention_equals_loops(arrays) -> None:
    operands = to_device(arrays, "q_PSNH", "k_PSKH", "v_PSKH")
    out = np.asarray(jax.jit(causal_attention)(*operands))
    k_PSKH, v_PSKH = arrays["k_PSKH"], arrays["v_PSKH"]
    for p, s, n in np.ndindex(P, S, N):
        keys, values = k_PSKH[p, : s + 1, n // 3], v_PSKH[p, : s + 1, n // 3]
        expected = attended(arrays["q_PSNH"][p, s, n], keys, values)
        np.testing.assert_allclose(out[p, s, n], expected, atol=2e-6)


@pytest.mark.parametrize("index", [None, [1, 0, 0, 1, 0, 1]], ids=["major", "gather"])
def test_prefixed_attention_equals_loops(arrays, index) -> None:
    out = attention(
        *to_device(arrays, "q_BTNH", "k_PSKH", "v_PSKH", "k_BTKH", "v_BTKH"),
        jnp.arange(S)[None, :] < LENGTHS_P[:, None],
        jnp.tril(jnp.ones((T, T), bool)),
        None if index is None else jnp.array(index),
    )
    out = np.asarray(out)
    prompt_B = np.arange(B) // (B // P) if index is None else index
    for b, t, n in np.ndindex(B, T, N):
        p, k = prompt_B[b], n // 3
        prefix = np.s_[p, : LENGTHS_P[p], k]
        suffix = np.s_[b, : t + 1, k]
        keys = [*arrays["k_PSKH"][prefix], *arrays["k_BTKH"][suffix]]
        values = [*arrays["v_PSKH"][prefix], *arrays["v_BTKH"][suffix]]
        expected = attended(arrays["q_BTNH"][b, t, n], keys, values)
        np.testing.assert_allclose(out[b, t, n], expected, atol=2e-6)


def test_a_query_that_sees_nothing_is_finite(arrays) -> None:
    out = attention(
        *to_device(arrays, "q_BTNH", "k_PSKH", "v_PSKH", "k_BTKH", "v_BTKH"),
        jnp.zeros((P, S), bool),
        jnp.zeros((T, T), bool),
        None,
    )
    assert np.isfinite(out).all()


def test_softmax_is_float32_when_the_rest_is_bfloat16(arrays) -> None:
    operands = to_device(arrays, "q_PSNH", "k_PSKH", "v_PSKH")
    text = jax.jit(causal_attention).lower(
        *(x.astype(jnp.bfloat16) for x in operands)
    ).as_text()  # fmt: skip
    exponentials = [line for line in text.splitlines() if "exponential" in line]
    assert exponentials and all("f32" in line for line in exponentials)
