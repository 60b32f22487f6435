"""What a row's randomness depends on, and whether draws follow their distribution."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.sampling.keys import (
    PURPOSE_EVALUATE,
    PURPOSE_TRAIN,
    row_keys,
    sampled_tokens,
)

BASE: dict[str, Any] = {
    "seed": 0,
    "purpose": PURPOSE_TRAIN,
    "step": 3,
    "problem_hash_B2": np.array([[5, 7]], np.uint32),
    "draw_B": np.array([0]),
    "sample_B": np.array([0]),
}


def key_bits(**changes: Any) -> np.ndarray:
    fields: dict[str, Any] = {
        name: jnp.asarray(value) if name.endswith(("_B", "_B2")) else value
        for name, value in (BASE | changes).items()
    }
    return np.asarray(jax.random.key_data(row_keys(**fields)))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"purpose": PURPOSE_EVALUATE},
        {"step": 4},
        {"problem_hash_B2": np.array([[6, 7]], np.uint32)},
        {"problem_hash_B2": np.array([[5, 8]], np.uint32)},
        {"problem_hash_B2": np.array([[7, 5]], np.uint32)},
        {"draw_B": np.array([1])},
        {"sample_B": np.array([1])},
        # Neither may stand in for the other.
        {"draw_B": np.array([1]), "sample_B": np.array([1])},
    ],
)
def test_every_part_of_the_identity_changes_the_key(changes: dict[str, Any]) -> None:
    assert not np.array_equal(key_bits(**changes), key_bits())


def test_draw_and_sample_are_not_interchangeable() -> None:
    one = key_bits(draw_B=np.array([2]), sample_B=np.array([1]))
    other = key_bits(draw_B=np.array([1]), sample_B=np.array([2]))
    assert not np.array_equal(one, other)


def test_a_rows_key_does_not_depend_on_the_other_rows() -> None:
    rng = np.random.default_rng(0)
    rows = {
        "problem_hash_B2": rng.integers(0, 2**32, (6, 2), dtype=np.uint32),
        "draw_B": np.array([0, 0, 1, 2, 0, 0]),
        "sample_B": np.arange(6),
    }
    order_B = np.array([3, 0, 5, 1, 4, 2])
    shuffled = {name: value[order_B] for name, value in rows.items()}
    np.testing.assert_array_equal(key_bits(**shuffled), key_bits(**rows)[order_B])


NUM_DRAWS = 20_000
LOGITS_V = np.log([0.5, 0.25, 0.15, 0.09, 0.01])


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    """Tokens at positions 0 and 1 of many samples of one problem."""
    hash_B2 = jnp.tile(jnp.array([[5, 7]], jnp.uint32), (NUM_DRAWS, 1))
    key_B = row_keys(
        0, PURPOSE_TRAIN, 3, hash_B2, jnp.zeros(NUM_DRAWS, int), jnp.arange(NUM_DRAWS)
    )
    logits_BV = jnp.tile(jnp.asarray(LOGITS_V, jnp.float32)[None], (NUM_DRAWS, 1))
    run = jax.jit(sampled_tokens)
    return np.array([run(key_B, jnp.int32(t), logits_BV) for t in range(2)])


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_draws_follow_the_softmax(draws: np.ndarray) -> None:
    expected = NUM_DRAWS * np.exp(LOGITS_V)
    for token_B in draws:
        counts = np.bincount(token_B, minlength=5)
        # 4 degrees of freedom: exceeded by chance once in 10,000.
        assert chi_square(counts, expected) < 23.5


def test_draws_at_two_positions_are_independent(draws: np.ndarray) -> None:
    counts = np.bincount(draws[0] * 5 + draws[1], minlength=25)
    expected = NUM_DRAWS * np.outer(np.exp(LOGITS_V), np.exp(LOGITS_V)).ravel()
    # 24 degrees of freedom: exceeded by chance once in 10,000.
    assert chi_square(counts, expected) < 59.0
