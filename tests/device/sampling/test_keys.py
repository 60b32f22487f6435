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
