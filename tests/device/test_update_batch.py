"""Rows of ragged batches are dealt out: no part is of padding alone."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from jaxgrpo.device.records import Prompts
from jaxgrpo.device.update_batch import joined_values, split_batch

NUM_ROWS, NUM_REAL = 12, 7


class Rows(NamedTuple):
    """The least that can be cut."""

    prompts: Prompts
    prompt_index_B: Array
    mask_BT: Array
    value_BT: Array


def rows() -> Rows:
    """Seven rows of three prompts, and five that only pad."""
    is_real_B = np.arange(NUM_ROWS) < NUM_REAL
    return Rows(
        prompts=Prompts(jnp.ones((3, 4), jnp.int32), jnp.full(3, 4)),
        prompt_index_B=jnp.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2]),
        mask_BT=jnp.asarray(np.repeat(is_real_B[:, None], 2, axis=1)),
        value_BT=jnp.arange(NUM_ROWS * 2).reshape(NUM_ROWS, 2),
    )


@pytest.mark.parametrize("num_parts", [2, 3, 4, 6])
def test_every_part_of_a_ragged_batch_has_its_share_of_what_counts(num_parts: int):
    parts = split_batch(rows(), num_parts, is_prompt_major=False)
    counts = np.asarray(parts.mask_BT[:, :, 0]).sum(axis=1)
    assert counts.sum() == NUM_REAL and np.ptp(counts) <= 1


@pytest.mark.parametrize("num_parts", [2, 3, 4, 6])
def test_values_of_parts_come_back_in_the_order_of_the_batch(num_parts: int):
    batch = rows()
    parts = split_batch(batch, num_parts, is_prompt_major=False)
    joined = joined_values(parts.value_BT, batch, num_parts, is_prompt_major=False)
    np.testing.assert_array_equal(joined, batch.value_BT)
