"""The loss: policy surrogate, divergence and corrections over token log-probs."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.device.objective import ratios
from jaxgrpo.device.objective.aggregation import (
    aggregation_denominator,
    loss_numerator,
)
from jaxgrpo.device.objective.correction import corrected_weights, on_policy_tokens
from jaxgrpo.device.objective.divergences import DIVERGENCES
from jaxgrpo.device.objective.experimental import trace_ratios
from jaxgrpo.device.objective.metrics import Mean, fraction, masked_mean
from jaxgrpo.device.objective.presets import Objective, resolve_objective

Metrics = dict[str, Mean]


class _Tokens(NamedTuple):
    """The inputs, 0 where masked, frozen unless they carry a gradient."""

    logprobs_BT: Float[Array, "B T"]
    advantages_BT: Float[Array, "B T"]
    mask_BT: Bool[Array, "B T"]
    old_logprobs_BT: Float[Array, "B T"]
    ref_logprobs_BT: Float[Array, "B T"] | None
    sampler_logprobs_BT: Float[Array, "B T"] | None
    entropies_BT: Float[Array, "B T"] | None


def grpo_loss(
    logprobs_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    *,
    old_logprobs_BT: Float[Array, "B T"] | None = None,
    ref_logprobs_BT: Float[Array, "B T"] | None = None,
    sampler_logprobs_BT: Float[Array, "B T"] | None = None,
    entropies_BT: Float[Array, "B T"] | None = None,
    entropy_threshold: float | Float[Array, ""] | None = None,
    is_traced_BT: Bool[Array, "B T"] | None = None,
    denominator: float | Float[Array, ""] | None = None,
    preset: str | Objective = "grpo",
    **parts: Any,
) -> tuple[Float[Array, ""], Metrics]:
    """Returns the loss of a batch, or of one part of it, and metrics that add up.

        loss = aggregate[ w_t k_t l_t + kl_coef KL_t - entropy_coef H_t ] / denominator

    with the surrogate l_t of the preset, the bounded sampler/trainer weight w_t (1
    without correction), and k_t = 0 at tokens that lose their policy term. Loss and
    gradient add up over any split of the rows into parts if each part is given the
    denominator of all, `loss_denominator` of the whole mask. A batch without tokens
    gives 0. What masked positions hold, NaN included, never matters.

    Args:
      logprobs_BT: Of the sampled tokens under the policy, nats. With the entropies the
        only input that has a gradient.
      advantages_BT: One a token: the row's advantage times the token's credit.
      mask_BT: True at tokens that count.
      old_logprobs_BT: Under the policy before the first update on these rollouts. Not
        given, it is the policy itself: ratios are 1 and keep their gradient.
      ref_logprobs_BT: Under the reference; needed where kl_coef is not 0.
      sampler_logprobs_BT: As the sampler reported them; needed by a correction.
      entropies_BT: Of the policy, nats; for the bonus, the threshold, and the metric.
      entropy_threshold: Tokens below it, nats, lose their policy term, not their place
        in the denominator. `masks.entropy_quantile` of all rows gives it.
      is_traced_BT: Tokens of high entropy before the first update on these rollouts;
        needed by ratio_level `trace`, and the same in every update.
      denominator: Not given, it is `loss_denominator` of this mask.
      preset: A name in `presets.PRESETS`, or an `Objective`.
      **parts: Fields of `Objective`, in place of the preset's.

    Returns:
      (loss, metrics). Add metrics over parts, then call `metrics.finish_metrics`.

    Example:
      >>> logprobs_BT = jnp.log(jnp.array([[0.5, 0.25], [0.5, 0.125]]))
      >>> advantages_BT = jnp.array([[1.0, 1.0], [-0.5, -0.5]])
      >>> mask_BT = jnp.ones((2, 2), bool)
      >>> loss, metrics = grpo_loss(logprobs_BT, advantages_BT, mask_BT, preset="dapo")
      >>> float(loss)
      -0.25

    Reference:
      docs/objective.md: each preset's formula, paper and departures.
    """
    objective = resolve_objective(preset, **parts)
    _require_inputs(
        objective, ref_logprobs_BT, sampler_logprobs_BT, entropies_BT,
        entropy_threshold, is_traced_BT,
    )  # fmt: skip
    tokens = _selected(
        logprobs_BT, advantages_BT, mask_BT, old_logprobs_BT,
        ref_logprobs_BT, sampler_logprobs_BT, entropies_BT,
    )  # fmt: skip
    ratios_BT = policy_ratios(
        objective, tokens.logprobs_BT - tokens.old_logprobs_BT, mask_BT, is_traced_BT
    )
    metrics = _ratio_metrics(objective, tokens, ratios_BT)
    keep_BT, keep_metrics = _policy_mask(objective, tokens, entropy_threshold)
    weights_BT, weight_metrics = corrected_weights(
        objective, tokens.old_logprobs_BT, tokens.sampler_logprobs_BT, mask_BT
    )
    policy_BT = _surrogate(objective, tokens, ratios_BT)
    policy_BT = jnp.where(keep_BT, policy_BT, 0.0) * weights_BT
    penalty_BT, penalty_metrics = _penalties(objective, tokens)
    metrics |= keep_metrics | weight_metrics | penalty_metrics

    local = loss_denominator(mask_BT, preset=objective)
    if denominator is None:
        denominator = local
    divisor = jnp.maximum(jnp.asarray(denominator, jnp.float32), 1.0)
    numerator = partial(
        loss_numerator, mask_BT=mask_BT, aggregation=objective.aggregation
    )
    policy_total = jax.lax.stop_gradient(numerator(policy_BT))
    metrics["policy_loss"] = Mean(policy_total, local)
    return numerator(policy_BT + penalty_BT) / divisor, metrics


def loss_denominator(
    mask_BT: Bool[Array, "B T"], *, preset: str | Objective = "grpo", **parts: Any
) -> Float[Array, ""]:
    """Returns what `grpo_loss` divides by: rows or tokens of the whole batch.

    Compute it over all rows of an optimiser update, before they are split into
    microbatches or over devices. It is additive: sums over parts give the same.

    Args:
      mask_BT: True at tokens that count. Rows without any are not counted.
      preset: As given to `grpo_loss`.
      **parts: As given to `grpo_loss`.

    Returns:
      A count; 0 for a batch without tokens, which `grpo_loss` divides by 1.
    """
    objective = resolve_objective(preset, **parts)
    return aggregation_denominator(mask_BT, objective.aggregation, objective.length_cap)


def _require_inputs(
    objective: Objective,
    ref_logprobs_BT: Array | None,
    sampler_logprobs_BT: Array | None,
    entropies_BT: Array | None,
    entropy_threshold: Any,
    is_traced_BT: Array | None,
) -> None:
    """Raises ValueError for a part that lacks its input."""
    if objective.kl_coef != 0 and ref_logprobs_BT is None:
        raise ValueError(
            f"kl_coef {objective.kl_coef} needs ref_logprobs_BT. "
            "Pass the reference's log-probs or set kl_coef to 0."
        )
    if objective.correction != "none" and sampler_logprobs_BT is None:
        raise ValueError(
            f"correction {objective.correction!r} needs sampler_logprobs_BT. "
            "Pass the sampler's log-probs or set correction to 'none'."
        )
    if (objective.ratio_level == "trace") != (is_traced_BT is not None):
        raise ValueError(
            f"ratio_level {objective.ratio_level!r} and is_traced_BT "
            f"{'None' if is_traced_BT is None else 'given'}. Give is_traced_BT with "
            "ratio_level 'trace' and with no other; mask_BT traces every token."
        )
    if entropies_BT is None and (
        objective.entropy_coef != 0 or entropy_threshold is not None
    ):
        raise ValueError(
            f"entropy_coef {objective.entropy_coef} and entropy_threshold "
            f"{entropy_threshold} need entropies_BT. Pass them or leave both out."
        )


def _selected(
    logprobs_BT: Array,
    advantages_BT: Array,
    mask_BT: Array,
    old_logprobs_BT: Array | None,
    *optional_BT: Array | None,
) -> _Tokens:
    """Returns the inputs, 0 where masked.

    Selecting on the way in and again when summing keeps NaN out of the value and of
    the gradient: a product with the mask would let 0 * NaN through.
    """

    def select(values_BT: Array) -> Array:
        return jnp.where(mask_BT, values_BT.astype(jnp.float32), 0.0)

    def freeze(values_BT: Array | None) -> Array | None:
        return None if values_BT is None else jax.lax.stop_gradient(select(values_BT))

    ref_BT, sampler_BT, entropies_BT = optional_BT
    policy_BT = select(logprobs_BT)
    return _Tokens(
        logprobs_BT=policy_BT,
        advantages_BT=jax.lax.stop_gradient(select(advantages_BT)),
        mask_BT=mask_BT,
        old_logprobs_BT=jax.lax.stop_gradient(
            policy_BT if old_logprobs_BT is None else select(old_logprobs_BT)
        ),
        ref_logprobs_BT=freeze(ref_BT),
        sampler_logprobs_BT=freeze(sampler_BT),
        entropies_BT=None if entropies_BT is None else select(entropies_BT),
    )


def policy_ratios(
    objective: Objective,
    log_ratios_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    is_traced_BT: Bool[Array, "B T"] | None = None,
) -> Float[Array, "B T"]:
    """Returns the ratio that multiplies each token's advantage.

    Args:
      objective: Its `ratio_level` says which.
      log_ratios_BT: logp - old logp.
      mask_BT: True at tokens that count.
      is_traced_BT: Tokens of high entropy; needed by `trace`.
    """
    if objective.ratio_level == "trace":
        assert is_traced_BT is not None
        return trace_ratios(log_ratios_BT, mask_BT, is_traced_BT, objective.trace_decay)
    return ratios.RATIO_FUNCTIONS[objective.ratio_level](log_ratios_BT, mask_BT)


def _surrogate(
    objective: Objective, tokens: _Tokens, ratios_BT: Float[Array, "B T"]
) -> Float[Array, "B T"]:
    band = {"clip_low": objective.clip_low, "clip_high": objective.clip_high}
    if objective.surrogate == "clip":
        surrogate = partial(
            ratios.clipped_surrogate,
            dual_clip=objective.dual_clip, delta=objective.delta, **band,
        )  # fmt: skip
    elif objective.surrogate == "sapo":
        surrogate = partial(
            ratios.sapo_surrogate,
            temperature_positive=objective.temperature_positive,
            temperature_negative=objective.temperature_negative,
        )
    elif objective.surrogate == "cispo":
        surrogate = partial(
            ratios.cispo_surrogate,
            logprobs_BT=tokens.logprobs_BT, ratio_cap=objective.ratio_cap,
        )  # fmt: skip
    else:
        surrogate = partial(
            ratios.cispo_band_surrogate, logprobs_BT=tokens.logprobs_BT, **band
        )
    return surrogate(ratios_BT, tokens.advantages_BT)


def _policy_mask(
    objective: Objective, tokens: _Tokens, entropy_threshold: Any
) -> tuple[Bool[Array, "B T"], Metrics]:
    """Returns the tokens that keep their policy term."""
    keep_BT = tokens.mask_BT
    metrics: Metrics = {}
    if objective.off_policy_threshold is not None:
        behaviour_BT = (
            tokens.old_logprobs_BT
            if tokens.sampler_logprobs_BT is None
            else tokens.sampler_logprobs_BT
        )
        keep_BT = on_policy_tokens(
            tokens.logprobs_BT, behaviour_BT, tokens.advantages_BT, tokens.mask_BT,
            objective.off_policy_threshold,
        )  # fmt: skip
        metrics["off_policy_masked_fraction"] = fraction(~keep_BT, tokens.mask_BT)
    if entropy_threshold is not None:
        assert tokens.entropies_BT is not None
        keep_BT &= tokens.entropies_BT >= entropy_threshold
    return keep_BT, metrics


def _penalties(
    objective: Objective, tokens: _Tokens
) -> tuple[Float[Array, "B T"], Metrics]:
    """Returns kl_coef * KL - entropy_coef * H of each token."""
    penalty_BT = jnp.zeros_like(tokens.logprobs_BT)
    metrics: Metrics = {}
    if tokens.ref_logprobs_BT is not None:
        # Always the token's own ratio: it is the token's divergence that is corrected.
        ratios_BT = jnp.exp(tokens.logprobs_BT - tokens.old_logprobs_BT)
        kl_BT = DIVERGENCES[objective.divergence](
            tokens.logprobs_BT, tokens.ref_logprobs_BT, ratios_BT
        )
        metrics["kl"] = masked_mean(kl_BT, tokens.mask_BT)
        if objective.kl_coef != 0:
            penalty_BT += objective.kl_coef * kl_BT
    if tokens.entropies_BT is not None:
        metrics["entropy"] = masked_mean(tokens.entropies_BT, tokens.mask_BT)
        if objective.entropy_coef != 0:
            penalty_BT -= objective.entropy_coef * tokens.entropies_BT
    return penalty_BT, metrics


def _ratio_metrics(
    objective: Objective, tokens: _Tokens, ratios_BT: Float[Array, "B T"]
) -> Metrics:
    mask_BT, advantages_BT = tokens.mask_BT, tokens.advantages_BT
    drift_BT = tokens.old_logprobs_BT - tokens.logprobs_BT
    metrics = {
        "ratio/mean": masked_mean(ratios_BT, mask_BT),
        "ppo_kl": masked_mean(drift_BT, mask_BT),
    }
    if objective.surrogate == "cispo":
        is_capped_BT = (ratios_BT > objective.ratio_cap) & (advantages_BT > 0)
        return metrics | {"cispo_clip_ratio": fraction(is_capped_BT, mask_BT)}
    is_below_BT = ratios_BT < 1 - objective.clip_low
    is_above_BT = ratios_BT > 1 + objective.clip_high
    if objective.surrogate == "cispo_band":
        is_outside_BT = is_below_BT | is_above_BT
        return metrics | {"cispo_clip_ratio": fraction(is_outside_BT, mask_BT)}
    if objective.surrogate == "sapo":
        return metrics
    is_low_BT = is_below_BT & (advantages_BT < 0)
    is_high_BT = is_above_BT & (advantages_BT > 0)
    metrics |= {
        "clip_ratio/low_mean": fraction(is_low_BT, mask_BT),
        "clip_ratio/high_mean": fraction(is_high_BT, mask_BT),
        "clip_ratio/region_mean": fraction(is_low_BT | is_high_BT, mask_BT),
    }
    if objective.dual_clip is not None:
        is_bounded_BT = (ratios_BT > objective.dual_clip) & (advantages_BT < 0)
        metrics["clip_ratio/dual_mean"] = fraction(is_bounded_BT, mask_BT)
    return metrics
