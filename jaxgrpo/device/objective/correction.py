"""Weights for samples whose sampler was not quite the trainer's policy."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.device.objective.metrics import Mean, fraction, masked_mean
from jaxgrpo.device.objective.presets import Objective
from jaxgrpo.device.objective.ratios import row_means


def raw_weights(
    old_logprobs_BT: Float[Array, "B T"],
    sampler_logprobs_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    level: str,
) -> Float[Array, "B T"]:
    """Returns the importance weights of trainer over sampler, 1 where masked.

        d_t = old logp_t - sampler logp_t
        w   = exp(d_t) ("token") | exp(sum_t d_t) ("sequence")
            | exp(mean_t d_t) ("geometric")

    Summed before the exponential: `sequence` is a product over tokens, so its spread
    grows with the length; `geometric` does not.

    Args:
      old_logprobs_BT: The trainer's log-probs before the first update.
      sampler_logprobs_BT: The sampler's log-probs of the same tokens.
      mask_BT: True at tokens that count.
      level: `token`, `sequence` or `geometric`.

    Returns:
      One weight a token. Gradients stop here.
    """
    gaps_BT = jnp.where(mask_BT, old_logprobs_BT - sampler_logprobs_BT, 0.0)
    if level == "sequence":
        gaps_BT = jnp.where(mask_BT, gaps_BT.sum(axis=1, keepdims=True), 0.0)
    elif level == "geometric":
        gaps_BT = jnp.where(mask_BT, row_means(gaps_BT, mask_BT), 0.0)
    return jax.lax.stop_gradient(jnp.exp(gaps_BT))


def bounded_weights(
    weights_BT: Float[Array, "B T"], mode: str, upper: float, lower: float = 0.0
) -> Float[Array, "B T"]:
    """Returns weights kept in [lower, upper]: truncated into it, or 0 outside it.

    Args:
      weights_BT: Raw weights.
      mode: `truncate` or `mask`.
      upper: Largest weight; above lower.
      lower: Smallest weight; at least 0.

    Returns:
      Effective weights.

    Reference:
      Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL
      Training, 2025, https://fengyao.notion.site/off-policy-rl (truncation).
    """
    if mode == "truncate":
        return jnp.clip(weights_BT, lower, upper)
    is_inside_BT = (weights_BT >= lower) & (weights_BT <= upper)
    return jnp.where(is_inside_BT, weights_BT, 0.0)


def corrected_weights(
    objective: Objective,
    old_logprobs_BT: Float[Array, "B T"],
    sampler_logprobs_BT: Float[Array, "B T"] | None,
    mask_BT: Bool[Array, "B T"],
) -> tuple[Float[Array, "B T"], dict[str, Mean]]:
    """Returns the weight of each token's surrogate, and raw and effective statistics.

    Args:
      objective: Its `correction` parts decide; `none` gives 1.
      old_logprobs_BT: The trainer's log-probs before the first update.
      sampler_logprobs_BT: The sampler's; without them there is nothing to measure.
      mask_BT: True at tokens that count.

    Returns:
      (weights, metrics).
    """
    ones_BT = jnp.ones_like(old_logprobs_BT)
    if sampler_logprobs_BT is None:
        return ones_BT, {}
    gaps_BT = jnp.abs(old_logprobs_BT - sampler_logprobs_BT)
    metrics = {
        "sampling/sampling_logp_difference/mean": masked_mean(gaps_BT, mask_BT),
        "token_mult_prob_error": masked_mean(jnp.exp(gaps_BT), mask_BT),
    }
    level, _, mode = objective.correction.partition("_")
    raw_BT = raw_weights(
        old_logprobs_BT, sampler_logprobs_BT, mask_BT, level if mode else "token"
    )
    name = "sampling/importance_sampling_ratio"
    metrics |= {
        f"{name}_raw/mean": masked_mean(raw_BT, mask_BT),
        f"{name}_raw/mean_square": masked_mean(jnp.square(raw_BT), mask_BT),
    }
    if not mode:
        return ones_BT, metrics
    weights_BT = bounded_weights(
        raw_BT, mode, objective.correction_max, objective.correction_min
    )
    metrics |= {
        f"{name}/mean": masked_mean(weights_BT, mask_BT),
        f"{name}/bounded_fraction": fraction(weights_BT != raw_BT, mask_BT),
    }
    return weights_BT, metrics


def bounded_fraction_by_length(
    raw_BT: Float[Array, "B T"],
    weights_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    edges: tuple[int, ...],
) -> dict[str, Mean]:
    """Returns the share of rows with a bounded weight, by length of the completion.

    A product over tokens is bounded more often in long rows; this shows how much.

    Args:
      raw_BT: Raw weights.
      weights_BT: Effective weights.
      mask_BT: True at tokens that count.
      edges: Ascending lengths; bucket i holds rows of more than edges[i - 1] and at
        most edges[i] tokens, the last bucket the longer ones.

    Returns:
      A mean a bucket, named by its longest length.
    """
    lengths_B = mask_BT.sum(axis=1)
    is_bounded_B = ((raw_BT != weights_BT) & mask_BT).any(axis=1)
    lower_edges = (0, *edges)
    names = [f"up_to_{edge}" for edge in edges] + ["longer"]
    shares = {}
    for i, name in enumerate(names):
        is_in_B = lengths_B > lower_edges[i]
        if i < len(edges):
            is_in_B &= lengths_B <= edges[i]
        key = f"sampling/importance_sampling_ratio/bounded_fraction/{name}"
        shares[key] = fraction(is_bounded_B[:, None], is_in_B[:, None])
    return shares


def on_policy_tokens(
    logprobs_BT: Float[Array, "B T"],
    sampler_logprobs_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    threshold: float,
) -> Bool[Array, "B T"]:
    """Returns the mask without rows of negative advantage that drifted off-policy.

    A token is dropped if A < 0 and mean_t (sampler logp - logp) > threshold, the mean
    taken over its row.

    Args:
      logprobs_BT: The current policy's.
      sampler_logprobs_BT: Of the policy that sampled.
      advantages_BT: Their sign counts.
      mask_BT: True at tokens that count.
      threshold: Nats per token; at least 0.

    Returns:
      True at tokens that keep their policy term.

    Reference:
      DeepSeek-V3.2, 2025, https://arxiv.org/abs/2512.02556.
    """
    gaps_BT = sampler_logprobs_BT - jax.lax.stop_gradient(logprobs_BT)
    has_drifted_B1 = row_means(gaps_BT, mask_BT) > threshold
    return mask_BT & ~((advantages_BT < 0) & has_drifted_B1)
