"""Learned reward models: what they are trained on, and what their scores are worth."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def bradley_terry_loss(
    preferred_B: Float[Array, " B"],
    rejected_B: Float[Array, " B"],
    is_real_B: Bool[Array, " B"] | None = None,
) -> Float[Array, ""]:
    """Returns the mean negative log-probability of the preferences.

        loss = mean_b -log sigmoid(s_b - s'_b) = mean_b ln(1 + exp(s'_b - s_b))

    ln 2 for a model that cannot tell them apart. Only differences count: the scores'
    level is left free.

    Args:
      preferred_B: Scores s of the better of each pair, such as a program that passes
        all tests.
      rejected_B: Scores s' of the worse, of the same problem.
      is_real_B: False marks pairs that only pad; they do not count.

    Returns:
      A scalar in nats; 0 without pairs.

    Example:
      >>> round(float(bradley_terry_loss(jnp.array([2.0]), jnp.array([1.0]))), 4)
      0.3133

    Reference:
      Bradley and Terry, Rank Analysis of Incomplete Block Designs, Biometrika 39, 1952;
      as in CodeScaler, 2026, https://arxiv.org/abs/2602.17684.
    """
    if is_real_B is None:
        is_real_B = jnp.ones(preferred_B.shape, bool)
    # Selected before the softplus: padding may hold anything, in the gradient too.
    gaps_B = jnp.where(is_real_B, rejected_B - preferred_B, 0.0)
    losses_B = jnp.where(is_real_B, jax.nn.softplus(gaps_B), 0.0)
    return losses_B.sum() / jnp.maximum(is_real_B.sum(), 1)


def validity_preserving_reward(
    scores_B: Float[Array, " B"], is_valid_B: Bool[Array, " B"]
) -> Float[Array, " B"]:
    """Returns rewards under which every valid program is above every invalid one.

        r = ln(1 + exp(s))    if there is valid code
        r = 0                 otherwise

    Args:
      scores_B: A reward model's, unbounded; undefined where there is no valid code.
      is_valid_B: Exactly one block of code was found, and it parses.

    Returns:
      One reward a row, at least 0. Positive where valid, down to scores of about -87.

    Example:
      >>> scores_B = jnp.array([6.5424, -3.0, 9.0])
      >>> validity_preserving_reward(scores_B, jnp.array([True, True, False])).round(4)
      Array([6.5438, 0.0486, 0.    ], dtype=float32)

    Reference:
      CodeScaler, 2026, https://arxiv.org/abs/2602.17684 (validity-preserving shaping).
      There the reward stands on the last token; here it is the row's, which comes to
      the same under group-relative advantages.
    """
    clean_B = jnp.where(is_valid_B, scores_B, 0.0)
    return jnp.where(is_valid_B, jax.nn.softplus(clean_B), 0.0)
