"""Random keys of rows: what a completion's randomness may depend on, and nothing else.

A row's key is a function of (seed, purpose, step, problem, draw, sample); the key of a
token adds its position. The slot, the batch's other rows and their order do not enter,
so a refill, a hint or an evaluation never repeats or disturbs another's completion.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt32

PURPOSE_TRAIN = 0
PURPOSE_EVALUATE = 1
PURPOSE_SAMPLE = 2
PURPOSE_INIT = 3


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
      seed: Seed of the run.
      purpose: One of the PURPOSE constants.
      step: Training step, or number of the evaluation.
      problem_hash_B2: Stable 64-bit hash of the problem's id, as two words.
      draw_B: How often this step has sampled the problem before.
      sample_B: Index of the row within its group.

    Returns:
      One key per row.
    """
    base = jax.random.key(seed)
    base = jax.random.fold_in(jax.random.fold_in(base, purpose), step)
    return _folded(base, jnp.asarray(problem_hash_B2), draw_B, sample_B)


@jax.jit
def _folded(
    base: Key[Array, ""],
    problem_hash_B2: UInt32[Array, "B 2"],
    draw_B: Int[Array, " B"],
    sample_B: Int[Array, " B"],
) -> Key[Array, " B"]:
    def one(hash_2: Array, draw: Array, sample: Array) -> Array:
        key = jax.random.fold_in(base, hash_2[0])
        key = jax.random.fold_in(key, hash_2[1])
        return jax.random.fold_in(jax.random.fold_in(key, draw), sample)

    return jax.vmap(one)(problem_hash_B2, draw_B, sample_B)


def sampled_tokens(
    row_key_B: Key[Array, " B"],
    position: Int[Array, ""],
    logits_BV: Float[Array, "B V"],
) -> Int[Array, " B"]:
    """One token per row from softmax(logits), keyed by the row and the position.

    Args:
      row_key_B: From `row_keys`.
      position: Index of the token within its completion.
      logits_BV: fp32 logits, already divided by the temperature.

    Returns:
      Token ids.
    """

    def one(key: Array, logits_V: Array) -> Array:
        return jax.random.categorical(jax.random.fold_in(key, position), logits_V)

    return jax.vmap(one)(row_key_B, logits_BV)
