"""Methods whose sources give no formula, or only part of one: our reading of them.

They may change without notice.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.objective.advantages import group_advantages
from jaxgrpo.device.objective.ratios import row_means


def trace_ratios(
    log_ratios_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    is_traced_BT: Bool[Array, "B T"],
    decay: float,
) -> Float[Array, "B T"]:
    """Returns selective eligibility traces, in place of token ratios.

        e_t = sum_{k <= t} decay^(t-k) b_k log rho_k
        n_t = sum_{k <= t} decay^(t-k) b_k
        w_t = exp(e_t / n_t)                      (1 before the first traced token)

    With decay 1 and every token traced, the last token's ratio is GSPO's.

    Args:
      log_ratios_BT: logp - old logp.
      mask_BT: True at tokens that count.
      is_traced_BT: b, the tokens of high entropy.
      decay: In [0, 1].

    Returns:
      One ratio a token.

    Reference:
      S-trace, 2026, https://arxiv.org/abs/2605.05965. The abstract alone was at hand;
      the formula is our reading of it.
    """
    traced_BT = (is_traced_BT & mask_BT).astype(jnp.float32)
    gains_BT = traced_BT * jnp.where(mask_BT, log_ratios_BT, 0.0)

    def step(carry, token):
        sum_B, count_B = (decay * carry[0] + token[0], decay * carry[1] + token[1])
        return (sum_B, count_B), (sum_B, count_B)

    zeros_B = jnp.zeros_like(gains_BT[:, 0])
    _, (sums_TB, counts_TB) = jax.lax.scan(
        step, (zeros_B, zeros_B), (gains_BT.T, traced_BT.T)
    )
    has_trace_TB = counts_TB > 0
    means_TB = sums_TB / jnp.where(has_trace_TB, counts_TB, 1.0)
    return jnp.exp(jnp.where(has_trace_TB, means_TB, 0.0)).T


def divergence_scale(
    divergences_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    floor: float = 1e-6,
) -> Float[Array, ""]:
    """Returns the 75th percentile of the divergences, or the floor if that is more.

    Args:
      divergences_BT: KL(teacher || student) of each token, at least 0.
      mask_BT: True at tokens that count.
      floor: Above 0.

    Returns:
      The scale c of `self_conditioned_weights`.

    Reference:
      SC-GRPO, 2026, https://arxiv.org/abs/2606.18810.
    """
    masked_BT = jnp.where(mask_BT, divergences_BT, jnp.nan)
    percentile = jnp.nanquantile(masked_BT, 0.75)
    return jax.lax.stop_gradient(jnp.where(percentile > floor, percentile, floor))


def self_conditioned_weights(
    divergences_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    scale: Float[Array, ""],
    is_mixed_B: Bool[Array, " B"],
) -> Float[Array, "B T"]:
    """Returns the weight D / (D + scale) of each token in mixed groups, else 1.

    The teacher is the policy itself with a verified solution in its prompt; a token on
    which the two agree carries little. The weight is not mass preserving, as published.

    Args:
      divergences_BT: KL(teacher || student) of each token, at least 0.
      mask_BT: True at tokens that count.
      scale: From `divergence_scale`, over all rows of an update.
      is_mixed_B: Rows of groups with at least two right and one wrong completion.

    Returns:
      Weights to multiply advantages with, 0 where masked.

    Reference:
      SC-GRPO, 2026, https://arxiv.org/abs/2606.18810.
    """
    clean_BT = jnp.where(mask_BT, divergences_BT, 0.0)
    weights_BT = jnp.where(is_mixed_B[:, None], clean_BT / (clean_BT + scale), 1.0)
    return jax.lax.stop_gradient(jnp.where(mask_BT, weights_BT, 0.0))


def exploration_advantages(
    divergences_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    group_ids_B: Int[Array, " B"],
    is_explored_B: Bool[Array, " B"],
) -> Float[Array, " B"]:
    """Returns pseudo-advantages for all-wrong groups: unlike the failed one is better.

    Each row's score is its mean divergence from the policy that is shown one failed
    completion of the group; scores are normalised within the group.

    Args:
      divergences_BT: KL(policy shown the failure || policy) of each token.
      mask_BT: True at tokens that count.
      group_ids_B: In [0, B).
      is_explored_B: Rows of all-wrong groups, without the failed reference itself.

    Returns:
      One advantage a row; 0 elsewhere. Gradients stop here.

    Reference:
      SC-GRPO, 2026, https://arxiv.org/abs/2606.18810. How the reference is chosen is
      left open there.
    """
    scores_B = row_means(divergences_BT, mask_BT)[:, 0]
    return group_advantages(scores_B[:, None], group_ids_B, is_real_B=is_explored_B)
