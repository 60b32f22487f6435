"""Per-token estimates of KL(policy || reference) from log-probs of the sample.

With r = log pi_ref - log pi of a token drawn from pi. Read the gradients before
choosing one for the loss:

    name           value              on-policy expected gradient
    k1             -r                 0: no pull to the reference at all
    k2             r^2 / 2            that of KL(pi || ref)
    k3             exp(r) - r - 1     that of KL(ref || pi)
    k3_corrected   rho * k3           that of KL(pi || ref), also off-policy
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def k1(
    logprobs_BT: Float[Array, "B T"],
    ref_logprobs_BT: Float[Array, "B T"],
    ratios_BT: Float[Array, "B T"],
) -> Float[Array, "B T"]:
    """Returns logp - ref: unbiased in value, may be negative; no use as a loss.

    Args:
      logprobs_BT: Under the policy.
      ref_logprobs_BT: Under the reference.
      ratios_BT: Not used.

    Returns:
      One estimate a token, nats.
    """
    del ratios_BT
    return logprobs_BT - ref_logprobs_BT


def k2(
    logprobs_BT: Float[Array, "B T"],
    ref_logprobs_BT: Float[Array, "B T"],
    ratios_BT: Float[Array, "B T"],
) -> Float[Array, "B T"]:
    """Returns (logp - ref)^2 / 2: biased in value, right gradient on-policy.

    Args:
      logprobs_BT: Under the policy.
      ref_logprobs_BT: Under the reference.
      ratios_BT: Not used.

    Returns:
      One estimate a token, nats.
    """
    del ratios_BT
    return 0.5 * jnp.square(logprobs_BT - ref_logprobs_BT)


def k3(
    logprobs_BT: Float[Array, "B T"],
    ref_logprobs_BT: Float[Array, "B T"],
    ratios_BT: Float[Array, "B T"],
) -> Float[Array, "B T"]:
    """Returns exp(r) - r - 1, r = ref - logp: unbiased in value, never negative.

    Args:
      logprobs_BT: Under the policy.
      ref_logprobs_BT: Under the reference.
      ratios_BT: Not used.

    Returns:
      One estimate a token, nats.

    Reference:
      Schulman, Approximating KL Divergence, 2020, http://joschu.net/blog/kl-approx.html.
    """
    del ratios_BT
    difference_BT = ref_logprobs_BT - logprobs_BT
    return jnp.expm1(difference_BT) - difference_BT


def k3_corrected(
    logprobs_BT: Float[Array, "B T"],
    ref_logprobs_BT: Float[Array, "B T"],
    ratios_BT: Float[Array, "B T"],
) -> Float[Array, "B T"]:
    """Returns rho * k3, rho = pi / pi_old with its gradient: unbiased off-policy too.

    Args:
      logprobs_BT: Under the policy.
      ref_logprobs_BT: Under the reference.
      ratios_BT: Token ratios to the policy that sampled.

    Returns:
      One estimate a token, nats.

    Reference:
      DeepSeek-V3.2, 2025, https://arxiv.org/abs/2512.02556.
    """
    return ratios_BT * k3(logprobs_BT, ref_logprobs_BT, ratios_BT)


DIVERGENCES: dict[str, Callable[..., Array]] = {
    "k1": k1,
    "k2": k2,
    "k3": k3,
    "k3_corrected": k3_corrected,
}


def kl_penalised_rewards(
    rewards_BR: Float[Array, "B R"],
    kl_B: Float[Array, " B"],
    kl_coef: float,
) -> Float[Array, "B R+1"]:
    """Returns rewards with one more column, -kl_coef * KL: KL in the reward.

    Args:
      rewards_BR: Rewards; a weight of 1 belongs to the new column.
      kl_B: Sum of k1 over each completion, under the policy that sampled, nats.
      kl_coef: Factor of the penalty; at least 0.

    Returns:
      Rewards with R + 1 columns. Gradients stop here.
    """
    penalty_B1 = -kl_coef * jax.lax.stop_gradient(kl_B)[:, None]
    return jnp.concatenate([rewards_BR, penalty_B1], axis=1)
