"""Random keys of rows: what a completion's randomness may depend on, and nothing else.

A row's key is a function of (seed, purpose, step, problem, draw, sample); the key of a
token adds its position. The slot, the batch's other rows and their order do not enter,
so a refill, a hint or an evaluation never repeats or disturbs another's completion.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, UInt32

PURPOSE_TRAIN = 0
PURPOSE_EVALUATE = 1
PURPOSE_SAMPLE = 2
PURPOSE_INIT = 3
PURPOSE_ADAPTERS = 4
PURPOSE_CALIBRATE = 5
PURPOSE_RATE = 6
PURPOSE_DISTIL = 7


def run_key(seed: int, purpose: int, step: int) -> Key[Array, ""]:
    """The key that all rows of one step derive from.

    Args:
      seed: Seed of the run.
      purpose: One of the PURPOSE constants.
      step: Training step, or number of the evaluation.
    """
    base = jax.random.key(seed)
    return jax.random.fold_in(jax.random.fold_in(base, purpose), step)


def row_keys(
    seed: int,
    purpose: int,
    step: int,
    problem_hash_B2: UInt32[Array, "B 2"],
    draw_B: Int[Array, " B"],
    sample_B: Int[Array, " B"],
) -> Key[Array, " B"]:
    """The random key of each row.

    Args:
      seed: As for `run_key`.
      purpose: As for `run_key`.
      step: As for `run_key`.
      problem_hash_B2: Stable 64-bit hash of the problem's id, as two words.
      draw_B: How often this step has sampled the problem before.
      sample_B: Index of the row within its group.

    Returns:
      One key per row.
    """
    base = run_key(seed, purpose, step)
    return folded_keys(base, jnp.asarray(problem_hash_B2), draw_B, sample_B)


@jax.jit
def folded_keys(
    base: Key[Array, ""],
    problem_hash_B2: UInt32[Array, "B 2"],
    draw_B: Int[Array, " B"],
    sample_B: Int[Array, " B"],
) -> Key[Array, " B"]:
    """As `row_keys`, from the key of the step."""

    def one(hash_2: Array, draw: Array, sample: Array) -> Array:
        key = jax.random.fold_in(base, hash_2[0])
        key = jax.random.fold_in(key, hash_2[1])
        return jax.random.fold_in(jax.random.fold_in(key, draw), sample)

    return jax.vmap(one)(problem_hash_B2, draw_B, sample_B)
