"""Policy ratios, and the surrogates that clip them. One loss term a token."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def token_ratios(
    log_ratios_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, "B T"]:
    """Returns rho_t = exp(logp_t - old_t), 1 where masked.

    Args:
      log_ratios_BT: logp - old logp.
      mask_BT: True at tokens that count.

    Returns:
      One ratio a token.
    """
    return jnp.exp(jnp.where(mask_BT, log_ratios_BT, 0.0))


def sequence_ratios(
    log_ratios_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, "B T"]:
    """Returns GSPO's ratio, the geometric mean over the row, at every token.

        s_i = exp( sum_t log rho_t / |o_i| )

    A row without tokens gets 1.

    Args:
      log_ratios_BT: logp - old logp.
      mask_BT: True at tokens that count.

    Returns:
      The row's ratio, repeated.

    Reference:
      Zheng et al., Group Sequence Policy Optimization, 2025,
      https://arxiv.org/abs/2507.18071.
    """
    means_B1 = row_means(log_ratios_BT, mask_BT)
    return jnp.broadcast_to(jnp.exp(means_B1), log_ratios_BT.shape)


def sequence_token_ratios(
    log_ratios_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, "B T"]:
    """Returns GSPO-token's ratio: GSPO's value, each token's own gradient.

        s_it = sg[s_i] * pi_t / sg[pi_t]

    Args:
      log_ratios_BT: logp - old logp.
      mask_BT: True at tokens that count.

    Returns:
      The row's ratio, repeated, with gradient rho_t's log-derivative at token t.

    Reference:
      Zheng et al., Group Sequence Policy Optimization, 2025, section 4.3,
      https://arxiv.org/abs/2507.18071.
    """
    clean_BT = jnp.where(mask_BT, log_ratios_BT, 0.0)
    frozen_BT = jax.lax.stop_gradient(sequence_ratios(log_ratios_BT, mask_BT))
    return frozen_BT * jnp.exp(clean_BT - jax.lax.stop_gradient(clean_BT))


def trajectory_ratios(
    log_ratios_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, "B T"]:
    """Returns the ratio of whole completions, exp(sum_t log rho_t), at every token.

    It is a product over tokens: its spread grows with the length.

    Args:
      log_ratios_BT: logp - old logp.
      mask_BT: True at tokens that count.

    Returns:
      The row's ratio, repeated.
    """
    sums_B1 = jnp.where(mask_BT, log_ratios_BT, 0.0).sum(axis=1, keepdims=True)
    return jnp.broadcast_to(jnp.exp(sums_B1), log_ratios_BT.shape)


RATIO_FUNCTIONS = {
    "token": token_ratios,
    "sequence": sequence_ratios,
    "sequence_token": sequence_token_ratios,
    "trajectory": trajectory_ratios,
}


def row_means(
    values_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, "B 1"]:
    """Returns each row's mean over its unmasked tokens; 0 for an empty row.

    Args:
      values_BT: Anything where masked.
      mask_BT: True at tokens that count.

    Returns:
      One mean a row.
    """
    counts_B1 = mask_BT.sum(axis=1, keepdims=True).astype(jnp.float32)
    sums_B1 = jnp.where(mask_BT, values_BT, 0.0).sum(axis=1, keepdims=True)
    return sums_B1 / jnp.maximum(counts_B1, 1.0)


def clipped_surrogate(
    ratios_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    delta: float | None = None,
) -> Float[Array, "B T"]:
    """Returns PPO's clipped loss of each token.

        l_t = -min( min(rho_t, delta) A_t , clip(rho_t, 1 - low, 1 + high) A_t )
        l_t = min(l_t, -dual_clip * A_t)   where A_t < 0

    Args:
      ratios_BT: rho.
      advantages_BT: A.
      clip_low: Lower clip is 1 - clip_low; in [0, 1].
      clip_high: Upper clip is 1 + clip_high; at least 0.
      dual_clip: Bounds the loss of a negative advantage by dual_clip * |A|; above 1.
        None leaves the bound out.
      delta: Bounds the unclipped ratio from above; above 1 + clip_high. None leaves
        the bound out.

    Returns:
      One loss a token.

    Reference:
      Schulman et al., PPO, 2017, https://arxiv.org/abs/1707.06347.
      Ye et al., 2020, https://arxiv.org/abs/1912.09729 (dual clip).
      INTELLECT-2, 2025, https://arxiv.org/abs/2505.07291 (delta).
    """
    free_BT = ratios_BT if delta is None else jnp.minimum(ratios_BT, delta)
    clipped_BT = jnp.clip(ratios_BT, 1.0 - clip_low, 1.0 + clip_high)
    losses_BT = -jnp.minimum(free_BT * advantages_BT, clipped_BT * advantages_BT)
    if dual_clip is None:
        return losses_BT
    bounded_BT = jnp.minimum(losses_BT, -dual_clip * advantages_BT)
    return jnp.where(advantages_BT < 0, bounded_BT, losses_BT)


def cispo_surrogate(
    ratios_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    *,
    logprobs_BT: Float[Array, "B T"],
    ratio_cap: float,
) -> Float[Array, "B T"]:
    """Returns CISPO's loss: REINFORCE weighted by a capped, frozen ratio.

        l_t = -sg[ min(rho_t, ratio_cap) ] A_t logp_t

    The cap is absolute. Every token keeps a gradient.

    Args:
      ratios_BT: rho.
      advantages_BT: A.
      logprobs_BT: logp, finite.
      ratio_cap: Upper bound of the weight; above 0.

    Returns:
      One loss a token.

    Reference:
      MiniMax-M1, 2025, https://arxiv.org/abs/2506.13585.
    """
    weights_BT = jax.lax.stop_gradient(jnp.minimum(ratios_BT, ratio_cap))
    return -weights_BT * advantages_BT * logprobs_BT


def cispo_band_surrogate(
    ratios_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    *,
    logprobs_BT: Float[Array, "B T"],
    clip_low: float,
    clip_high: float,
) -> Float[Array, "B T"]:
    """Returns the loss that verl calls cispo: the frozen weight stays in a band.

        l_t = -sg[ clip(rho_t, 1 - low, 1 + high) ] A_t logp_t

    Args:
      ratios_BT: rho.
      advantages_BT: A.
      logprobs_BT: logp, finite.
      clip_low: Lower bound of the weight is 1 - clip_low.
      clip_high: Upper bound of the weight is 1 + clip_high.

    Returns:
      One loss a token.
    """
    weights_BT = jnp.clip(ratios_BT, 1.0 - clip_low, 1.0 + clip_high)
    return -jax.lax.stop_gradient(weights_BT) * advantages_BT * logprobs_BT


def sapo_surrogate(
    ratios_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    *,
    temperature_positive: float,
    temperature_negative: float,
) -> Float[Array, "B T"]:
    """Returns SAPO's loss: a sigmoid gate in place of the clip.

        l_t = -(4 / tau) sigmoid( tau (rho_t - 1) ) A_t
        tau = temperature_positive if A_t > 0 else temperature_negative

    At rho = 1 the gradient is REINFORCE's; it fades smoothly on both sides.

    Args:
      ratios_BT: rho.
      advantages_BT: A.
      temperature_positive: Steepness for A > 0; above 0.
      temperature_negative: Steepness for A <= 0; above 0.

    Returns:
      One loss a token.

    Reference:
      Soft Adaptive Policy Optimization, 2025, https://arxiv.org/abs/2511.20347.
    """
    tau_BT = jnp.where(advantages_BT > 0, temperature_positive, temperature_negative)
    gates_BT = jax.nn.sigmoid(tau_BT * (ratios_BT - 1.0)) * 4.0 / tau_BT
    return -gates_BT * advantages_BT
