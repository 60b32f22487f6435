"""What hypothesis draws for the objective: one shape, so that programs are shared."""

import jax.numpy as jnp
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

NUM_ROWS = 8
NUM_POSITIONS = 6

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**31 - 1)


def masked_arrays(seed: int, spread: float = 0.3):
    """Arrays of a batch with ragged rows: a dict of float64, and the lengths."""
    rng = np.random.default_rng(seed)
    shape = (NUM_ROWS, NUM_POSITIONS)
    lengths = rng.integers(0, NUM_POSITIONS + 1, NUM_ROWS)
    lengths[:2] = (0, NUM_POSITIONS)
    logprobs = -rng.uniform(0.05, 3, shape)
    arrays = {
        "logprobs": logprobs,
        "old": logprobs + rng.normal(0, spread, shape),
        "ref": logprobs + rng.normal(0, 0.5, shape),
        "sampler": logprobs + rng.normal(0, spread, shape),
        "advantages": rng.normal(0, 1, shape) * rng.integers(0, 2, (NUM_ROWS, 1)),
        "entropies": rng.uniform(0, 2, shape),
    }
    # What float32 holds is what both sides see.
    arrays = {k: v.astype(np.float32).astype(np.float64) for k, v in arrays.items()}
    return arrays, lengths.tolist()


def on_device(arrays):
    return {name: jnp.asarray(values, jnp.float32) for name, values in arrays.items()}


def mask_of(lengths):
    return jnp.arange(NUM_POSITIONS)[None, :] < jnp.asarray(lengths)[:, None]
