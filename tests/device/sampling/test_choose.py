"""What can be drawn, how often it is, and the log-prob that is said of it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from jaxgrpo.device.sampling.choose import Choice, chosen_tokens, kept_tokens
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN, row_keys

NUM_DRAWS = 20_000
PROBS_V = np.array([0.5, 0.25, 0.15, 0.09, 0.01])
FROM_ALL = Choice()


def keys_of(num_rows: int) -> jax.Array:
    hash_B2 = jnp.tile(jnp.array([[5, 7]], jnp.uint32), (num_rows, 1))
    zeros_B = jnp.zeros(num_rows, int)
    return row_keys(0, PURPOSE_TRAIN, 3, hash_B2, zeros_B, jnp.arange(num_rows))


def drawn(probs_V: np.ndarray, position: int, choice: Choice = FROM_ALL) -> Any:
    """One token of each of many samples of one problem."""
    logits_BV = jnp.tile(jnp.log(jnp.float32(probs_V))[None], (NUM_DRAWS, 1))
    position_B = jnp.full(NUM_DRAWS, position)
    run = jax.jit(chosen_tokens, static_argnums=3)
    return run(logits_BV, keys_of(NUM_DRAWS), position_B, choice)


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """Tokens at positions 0 and 1."""
    return np.array([drawn(PROBS_V, position).token_B for position in range(2)])


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_follow_the_softmax(draws: np.ndarray) -> None:
    for token_B in draws:
        counts = np.bincount(token_B, minlength=5)
        # 4 degrees of freedom: exceeded by chance once in 10,000.
        assert chi_square(counts, NUM_DRAWS * PROBS_V) < 23.5


def test_draws_at_two_positions_are_independent(draws: np.ndarray) -> None:
    counts = np.bincount(draws[0] * 5 + draws[1], minlength=25)
    expected = NUM_DRAWS * np.outer(PROBS_V, PROBS_V).ravel()
    # 24 degrees of freedom: exceeded by chance once in 10,000.
    assert chi_square(counts, expected) < 59.0


def test_draws_from_a_large_vocabulary_follow_the_softmax() -> None:
    # 1,000 tokens are several blocks, the last one not full.
    probs_V = np.random.default_rng(0).dirichlet(np.full(1_000, 0.3))
    token_B = np.asarray(drawn(probs_V, 0).token_B)
    counts = np.bincount(token_B, minlength=1_000)
    # Rare tokens together, so that each class is expected at least 20 times.
    order = np.argsort(probs_V)
    classes = np.cumsum(probs_V[order]) * 500 // 1
    observed = np.bincount(classes.astype(int), weights=counts[order])
    expected = np.bincount(classes.astype(int), weights=probs_V[order]) * NUM_DRAWS
    is_large = expected >= 20
    degrees = is_large.sum()
    statistic = chi_square(observed[is_large], expected[is_large])
    assert degrees > 100
    # Four standard deviations above the mean of a chi-square.
    assert statistic < degrees + 4 * np.sqrt(2 * degrees)


def test_log_probs_are_those_of_the_softmax() -> None:
    chosen = drawn(PROBS_V, 0)
    expected_B = np.log(PROBS_V)[np.asarray(chosen.token_B)]
    np.testing.assert_allclose(chosen.logprob_B, expected_B, rtol=0, atol=1e-6)


@pytest.mark.parametrize("num_tokens", [5, 300])
@pytest.mark.parametrize("choice", [Choice(), Choice(top_k=3)], ids=["all", "top_k"])
def test_a_forbidden_token_is_never_drawn(num_tokens: int, choice: Choice) -> None:
    rng = np.random.default_rng(1)
    rows = 512
    logits_BV = rng.normal(0.0, 30.0, (rows, num_tokens)).astype(np.float32)
    # One to all tokens allowed, the likeliest ones among them or not.
    is_allowed_BV = rng.random((rows, num_tokens)) < rng.random((rows, 1))
    is_allowed_BV[np.arange(rows), rng.integers(0, num_tokens, rows)] = True
    logits_BV = np.where(is_allowed_BV, logits_BV, -np.inf)
    chosen = chosen_tokens(
        jnp.asarray(logits_BV), keys_of(rows), jnp.zeros(rows, int), choice
    )
    assert is_allowed_BV[np.arange(rows), np.asarray(chosen.token_B)].all()
    assert np.isfinite(np.asarray(chosen.logprob_B)).all()


def test_a_rows_token_does_not_depend_on_the_other_rows() -> None:
    rng = np.random.default_rng(2)
    logits_BV = jnp.asarray(rng.normal(0.0, 2.0, (6, 50)), jnp.float32)
    position_B = jnp.array([0, 3, 1, 0, 9, 4])
    order_B = np.array([3, 0, 5, 1, 4, 2])
    key_B = keys_of(6)
    plain = chosen_tokens(logits_BV, key_B, position_B, Choice())
    shuffled = chosen_tokens(
        logits_BV[order_B], key_B[order_B], position_B[order_B], Choice()
    )
    np.testing.assert_array_equal(shuffled.token_B, plain.token_B[order_B])
    np.testing.assert_array_equal(shuffled.logprob_B, plain.logprob_B[order_B])


def test_greedy_takes_the_argmax_and_says_its_log_prob() -> None:
    logits_BV = jnp.array([[0.0, 2.0, 1.0], [3.0, -jnp.inf, 3.0]])
    choice = Choice(is_greedy=True, top_k=2)
    chosen = chosen_tokens(logits_BV, keys_of(2), jnp.zeros(2, int), choice)
    np.testing.assert_array_equal(chosen.token_B, [1, 0])
    expected = [2.0 - np.log(1 + np.e + np.e**2), -np.log(2.0)]
    np.testing.assert_allclose(chosen.logprob_B, expected, rtol=1e-6)
    assert chosen.kept_Bk is None


# Truncation, against a slow transcription.


def kept_slowly(logits_V: np.ndarray, choice: Choice) -> list[int]:
    """Ids left by top-k, then top-p, then min-p, in float64 and with loops."""
    ids = sorted(range(len(logits_V)), key=lambda v: (-logits_V[v], v))[: choice.top_k]
    probs = {v: float(np.exp(logits_V[v] - logsumexp(logits_V[ids]))) for v in ids}
    left, mass = [], 0.0
    for v in ids:
        if mass >= choice.top_p and left:
            break
        left.append(v)
        mass += probs[v]
    highest = max(probs.values())
    return [v for v in left if probs[v] >= choice.min_p * highest]


@pytest.mark.parametrize(
    "choice",
    [
        Choice(top_k=4),
        Choice(top_k=30, top_p=0.9),
        Choice(top_k=30, top_p=0.001),
        Choice(top_k=30, min_p=0.2),
        Choice(top_k=10, top_p=0.7, min_p=0.3),
    ],
)
def test_truncation_leaves_what_a_slow_transcription_leaves(choice: Choice) -> None:
    logits_BV = np.random.default_rng(3).normal(0.0, 2.0, (40, 30)).astype(np.float32)
    kept_logits_Bk, ids_Bk = kept_tokens(jnp.asarray(logits_BV), choice)
    for row, logits_V in enumerate(logits_BV.astype(np.float64)):
        expected = kept_slowly(logits_V, choice)
        is_kept_k = np.isfinite(kept_logits_Bk[row])
        assert list(np.asarray(ids_Bk[row])[is_kept_k]) == expected
        # The rest repeats the likeliest.
        assert set(np.asarray(ids_Bk[row])) == set(expected)


def test_top_p_is_of_what_top_k_left_and_comes_before_min_p() -> None:
    # Top-p 0.6 needs 0 and 1, and min-p leaves both. With min-p first, 0 would have
    # 0.625 of the rest and suffice alone.
    probs_V = np.array([0.5, 0.3, 0.15, 0.05])
    logits_1V = jnp.log(jnp.float32(probs_V))[None]
    logits_1k, ids_1k = kept_tokens(logits_1V, Choice(top_k=4, top_p=0.6, min_p=0.5))
    assert list(np.asarray(ids_1k)[np.isfinite(logits_1k)]) == [0, 1]
    # Of three tokens left by top-k, 0 has 0.526: too little for 0.53 only there.
    logits_1k, ids_1k = kept_tokens(logits_1V, Choice(top_k=3, top_p=0.52))
    assert list(np.asarray(ids_1k)[np.isfinite(logits_1k)]) == [0]


def test_truncated_draws_and_log_probs_are_of_the_renormalised_policy() -> None:
    choice = Choice(top_k=4, top_p=0.8)
    chosen = drawn(PROBS_V, 0, choice)
    probs_3 = PROBS_V[:3] / PROBS_V[:3].sum()  # 0.5 + 0.25 < 0.8 * 0.99
    counts = np.bincount(chosen.token_B, minlength=5)
    assert not counts[3:].any()
    # 2 degrees of freedom: exceeded by chance once in 10,000.
    assert chi_square(counts[:3], NUM_DRAWS * probs_3) < 18.5
    expected_B = np.log(probs_3)[np.asarray(chosen.token_B)]
    np.testing.assert_allclose(chosen.logprob_B, expected_B, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(chosen.kept_Bk, [[0, 1, 2, 0]] * NUM_DRAWS)
