"""Metrics of an update that do not add up: extremes over tokens and over rows.

What adds up over microbatches comes with the loss; these are taken once, from the
values of a whole minibatch or batch. `rows_of_a_kind` names what the loss tells of some
rows.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.objective.correction import bounded_weights, raw_weights
from jaxgrpo.device.objective.credit import SpanCredit
from jaxgrpo.device.objective.loss import policy_ratios
from jaxgrpo.device.objective.metrics import Mean, extremes
from jaxgrpo.device.objective.presets import Objective
from jaxgrpo.device.objective.ratios import row_means

_RAW = "sampling/importance_sampling_ratio_raw"
_APPLIED = "sampling/importance_sampling_ratio"


def advantage_metrics(
    advantages_B: Float[Array, " B"], is_real_B: Bool[Array, " B"]
) -> dict[str, Float[Array, ""]]:
    """Returns mean, mean size and extremes of the advantages; 0 without rows.

    Args:
      advantages_B: One a row.
      is_real_B: False for padding rows.
    """
    num_rows = jnp.maximum(is_real_B.sum(), 1)
    lowest, highest = _extremes(advantages_B[:, None], is_real_B[:, None], 0.0)
    real_B = jnp.where(is_real_B, advantages_B, 0.0)
    return {
        "advantages/mean": real_B.sum() / num_rows,
        "advantages/abs_mean": jnp.abs(real_B).sum() / num_rows,
        "advantages/max": highest,
        "advantages/min": lowest,
    }


def focus_metrics(
    focus_B2: Int[Array, "B 2"],
    focused: SpanCredit,
    advantages_B: Float[Array, " B"],
    is_real_B: Bool[Array, " B"],
) -> dict[str, Float[Array, ""]]:
    """Returns shares of rows whose credit is focused, and spared in spite of a span.

    A row with a span is spared where its advantage is positive. One without an
    advantage is neither.

    Args:
      focus_B2: The first token of each span and the one after the last.
      focused: The credit.
      advantages_B: Advantage of each row.
      is_real_B: False for padding rows.
    """
    num_rows = jnp.maximum(is_real_B.sum(), 1)
    has_span_B = is_real_B & (focus_B2[:, 1] > focus_B2[:, 0])
    is_focused_B = is_real_B & focused.is_focused_B
    return {
        "credit/focused_share": is_focused_B.sum() / num_rows,
        "credit/spared_share": (has_span_B & (advantages_B > 0)).sum() / num_rows,
    }


def ratio_extremes(
    objective: Objective,
    logprobs_BT: Float[Array, "B T"],
    old_logprobs_BT: Float[Array, "B T"],
    advantages_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    is_traced_BT: Bool[Array, "B T"] | None = None,
) -> dict[str, Float[Array, ""]]:
    """Returns the extreme ratios, and the least and most clipped completion.

        clip_ratio/low_min  = min over rows of mean_t [ratio < 1 - clip_low, A < 0]
        clip_ratio/high_max = max over rows of mean_t [ratio > 1 + clip_high, A > 0]

    Args:
      objective: Its `ratio_level` and clips; without the surrogate `clip` there are
        only ratios.
      logprobs_BT: Under the policy that learns.
      old_logprobs_BT: Under the policy that sampled.
      advantages_BT: Their sign counts.
      mask_BT: True at tokens that count.
      is_traced_BT: As for `policy_ratios`.

    Returns:
      Of a batch without tokens: ratios of 1, and nothing clipped.
    """
    ratios_BT = policy_ratios(
        objective, logprobs_BT - old_logprobs_BT, mask_BT, is_traced_BT
    )
    lowest, highest = _extremes(ratios_BT, mask_BT, 1.0)
    metrics = {"ratio/min": lowest, "ratio/max": highest}
    if objective.surrogate != "clip":
        return metrics
    is_low_BT = (ratios_BT < 1 - objective.clip_low) & (advantages_BT < 0)
    is_high_BT = (ratios_BT > 1 + objective.clip_high) & (advantages_BT > 0)
    has_tokens_B1 = mask_BT.any(axis=1, keepdims=True)
    low_B1 = row_means(is_low_BT.astype(jnp.float32), mask_BT)
    high_B1 = row_means(is_high_BT.astype(jnp.float32), mask_BT)
    return metrics | {
        "clip_ratio/low_min": _extremes(low_B1, has_tokens_B1, 0.0)[0],
        "clip_ratio/high_max": _extremes(high_B1, has_tokens_B1, 0.0)[1],
    }


def sampler_extremes(
    objective: Objective,
    logprobs_BT: Float[Array, "B T"],
    sampler_logprobs_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
) -> dict[str, Float[Array, ""]]:
    """Returns how far sampler and trainer part at most, in nats and as weights.

    Args:
      objective: Its `correction`; without one, raw weights are those of tokens.
      logprobs_BT: The trainer's, before the first update.
      sampler_logprobs_BT: The sampler's.
      mask_BT: True at tokens that count.

    Returns:
      `sampling/sampling_logp_difference/max`; `min` and `max` of the raw weights and,
      with a correction, of those that are applied.
    """
    gaps_BT = jnp.abs(logprobs_BT - sampler_logprobs_BT)
    largest_gap = jnp.max(jnp.where(mask_BT, gaps_BT, 0.0))
    level, _, mode = objective.correction.partition("_")
    raw_BT = raw_weights(
        logprobs_BT, sampler_logprobs_BT, mask_BT, level if mode else "token"
    )
    lowest, highest = _extremes(raw_BT, mask_BT, 1.0)
    metrics = {
        "sampling/sampling_logp_difference/max": largest_gap,
        f"{_RAW}/min": lowest,
        f"{_RAW}/max": highest,
    }
    if mode:
        weights_BT = bounded_weights(
            raw_BT, mode, objective.correction_max, objective.correction_min
        )
        lowest, highest = _extremes(weights_BT, mask_BT, 1.0)
        metrics |= {f"{_APPLIED}/min": lowest, f"{_APPLIED}/max": highest}
    return metrics


def rows_of_a_kind(
    kind: str, means: dict[str, Mean], loss_weight: Float[Array, ""]
) -> dict[str, Mean]:
    """Returns the policy loss and the clips of some rows, under names of their own.

    Args:
      kind: `on` for rows of this policy, `off` for those of earlier ones.
      means: Metrics of `grpo_loss` with a mask of these rows alone.
      loss_weight: What the policy loss of all rows is divided by, so that those of
        all kinds add up to it.

    Returns:
      `policy_loss/KIND` and, with the surrogate `clip`, `clip_ratio/KIND_low`,
      `_high` and `_region`.

    Reference:
      RePO, https://arxiv.org/abs/2506.09340, logs these of its two halves.
    """
    clips = {
        f"clip_ratio/{kind}_{side}": means[f"clip_ratio/{side}_mean"]
        for side in ("low", "high", "region")
        if f"clip_ratio/{side}_mean" in means
    }
    loss = Mean(means["policy_loss"].total, loss_weight)
    return {f"policy_loss/{kind}": loss} | clips


def over_updates(
    stacked: dict[str, Array],
) -> dict[str, Float[Array, ""]]:
    """Returns the metrics of several updates as those of one step.

    Means over the updates, but extremes of extremes, and the number of updates skipped.

    Args:
      stacked: By name, one value an update.
    """
    return {name: _of_updates(name, values_U) for name, values_U in stacked.items()}


def _of_updates(name: str, values_U: Float[Array, " U"]) -> Float[Array, ""]:
    if name in ("update_skipped", "update_empty"):
        return values_U.sum()
    if name.endswith(("/min", "_min")):
        return values_U.min()
    if name.endswith(("/max", "_max")):
        return values_U.max()
    return values_U.mean()


def _extremes(
    values_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"], absent: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Lowest and highest value that counts; `absent` twice where none does."""
    lowest, highest = extremes(values_BT, mask_BT)
    has_any = mask_BT.any()
    return jnp.where(has_any, lowest, absent), jnp.where(has_any, highest, absent)
