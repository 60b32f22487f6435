"""From rewards to the advantage of every token.

    rewards -> advantage of each row, against its group's baseline
            -> shared out anew among the group's passing rows, where they are graded
            -> shared out among the row's tokens: all alike, by credit, on a span, or
               step by step

A part of it is in the program only where its array is given.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.device.objective.advantages import (
    group_advantages,
    is_tied,
    weighted_reward,
)
from jaxgrpo.device.objective.credit import (
    advantages_at_steps,
    bilevel_advantages,
    focused_credit,
    intra_advantages,
)
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.objective.redistribution import redistributed_advantages
from jaxgrpo.device.records import Rollouts, Scored, Steps
from jaxgrpo.device.update_metrics import advantage_metrics, focus_metrics


class AdvantageSettings(NamedTuple):
    """How advantages are computed."""

    scale: str = "group"
    baseline: str = "mean"
    combine: str = "sum_then_normalize"
    ddof: int = 1
    epsilon: float = 1e-4
    masks_dead_groups: bool = False
    """Leave rows without any advantage in their group out of the mask."""
    quality_cap: float = 2.0
    """Of `redistributed_advantages`."""
    intra_coef: float = 0.3
    """Of `bilevel_advantages`."""


class TokenAdvantages(NamedTuple):
    """What each row's tokens are moved by."""

    advantages_B: Float[Array, " B"]
    """Of the row; where steps have advantages of their own, the mean over its
    tokens."""
    advantages_BT: Float[Array, "B T"]
    mask_BT: Bool[Array, "B T"]
    """Tokens that count."""
    credit_BT: Float[Array, "B T"] | None
    """Each token's share of the row's advantage, or of its step's; None where all have
    the same."""
    metrics: dict[str, Float[Array, ""]]


def token_advantages(
    rollouts: Rollouts,
    scored: Scored,
    weights_R: Float[Array, " R"],
    settings: AdvantageSettings,
) -> TokenAdvantages:
    """Returns the advantage of every token, and which tokens count.

    Args:
      rollouts: Completions.
      scored: Rewards, and what else was found out about the same rows.
      weights_R: Factor of each reward.
      settings: How.
    """
    s = settings
    advantages_B = group_advantages(
        scored.rewards_BR, rollouts.group_id_B, weights_R=weights_R, scale=s.scale,
        baseline=s.baseline, combine=s.combine, ddof=s.ddof, epsilon=s.epsilon,
        is_real_B=rollouts.is_real_B,
    )  # fmt: skip
    is_counted_B = _is_counted(rollouts, scored, weights_R, s.combine)
    metrics: dict[str, Float[Array, ""]] = {}
    if scored.qualities_B is not None:
        before_B = advantages_B
        advantages_B = redistributed_advantages(
            before_B, scored.qualities_B, ~jnp.isneginf(scored.qualities_B),
            rollouts.group_id_B, cap=s.quality_cap, is_counted_B=is_counted_B,
        )  # fmt: skip
        moved_B = jnp.where(rollouts.is_real_B, jnp.abs(advantages_B - before_B), 0.0)
        num_rows = jnp.maximum(rollouts.is_real_B.sum(), 1)
        metrics["redistribution/moved_advantage"] = moved_B.sum() / num_rows
    if scored.added_advantages_B is not None:
        # Rewards that tell the group apart have a say of their own, and keep it.
        is_dead_B = _is_all_zero(advantages_B[:, None], rollouts, is_counted_B)
        added_B = jnp.where(is_dead_B, scored.added_advantages_B, 0.0)
        advantages_B = advantages_B + added_B
    mask_BT = completion_mask(rollouts.lengths_B, rollouts.completion_BT.shape[1])
    if scored.steps is not None:
        advantages_BT, metrics["credit/intra_share"] = _of_steps(
            scored.steps, rollouts, mask_BT, s
        )
        advantages_B = advantages_BT.sum(axis=1) / jnp.maximum(rollouts.lengths_B, 1)
        if s.masks_dead_groups:
            is_counted_B &= ~_is_all_zero(advantages_BT, rollouts, is_counted_B)
    elif s.masks_dead_groups:
        # By advantages: they are exactly 0 where rewards tie, and only there equal.
        is_counted_B &= ~is_tied(advantages_B, rollouts.group_id_B, is_counted_B)
    mask_BT &= is_counted_B[:, None]
    metrics |= advantage_metrics(advantages_B, rollouts.is_real_B)
    credit_BT = scored.credit_BT
    if scored.focus_B2 is not None:
        focused = focused_credit(scored.focus_B2, mask_BT, advantages_B)
        credit_BT = focused.credit_BT * (1.0 if credit_BT is None else credit_BT)
        metrics |= focus_metrics(
            scored.focus_B2, focused, advantages_B, rollouts.is_real_B
        )
    if scored.steps is None:
        advantages_BT = jnp.broadcast_to(advantages_B[:, None], mask_BT.shape)
    if credit_BT is not None:
        advantages_BT = advantages_BT * credit_BT
    return TokenAdvantages(advantages_B, advantages_BT, mask_BT, credit_BT, metrics)


def _is_counted(
    rollouts: Rollouts, scored: Scored, weights_R: Float[Array, " R"], combine: str
) -> Bool[Array, " B"]:
    """Rows that are real and do not abstain."""
    if combine == "normalize_then_sum":
        has_reward_BR = ~jnp.isnan(scored.rewards_BR) & (weights_R != 0)[None, :]
        return rollouts.is_real_B & jnp.any(has_reward_BR, axis=1)
    _, is_counted_B = weighted_reward(scored.rewards_BR, weights_R, rollouts.is_real_B)
    return is_counted_B


def _of_steps(
    steps: Steps,
    rollouts: Rollouts,
    mask_BT: Bool[Array, "B T"],
    settings: AdvantageSettings,
) -> tuple[Float[Array, "B T"], Float[Array, ""]]:
    """Bi-Level advantages of the steps, at their tokens; 0 in rows that only pad.

    Beside them, the share of their intra-trajectory part in the size of both parts.
    """
    rewards_BA = jnp.where(rollouts.is_real_B[:, None], steps.rewards_BA, jnp.nan)
    advantages_BA = bilevel_advantages(
        rewards_BA, rollouts.group_id_B, intra_coef=settings.intra_coef,
        ddof=settings.ddof, epsilon=settings.epsilon,
    )  # fmt: skip
    intra_BA = settings.intra_coef * intra_advantages(rewards_BA)
    size = jnp.abs(intra_BA).sum()
    total = size + jnp.abs(advantages_BA - intra_BA).sum()
    share = size / jnp.where(total > 0, total, 1.0)
    return advantages_at_steps(advantages_BA, steps.ends_BA, mask_BT), share


def _is_all_zero(
    advantages_BT: Float[Array, "B T"],
    rollouts: Rollouts,
    is_counted_B: Bool[Array, " B"],
) -> Bool[Array, " B"]:
    """Whether no counted row of a row's group has any advantage at any token."""
    num_rows = advantages_BT.shape[0]
    largest_B = jnp.where(is_counted_B, jnp.abs(advantages_BT).max(axis=1), 0.0)
    return (
        jax.ops.segment_max(largest_B, rollouts.group_id_B, num_rows)[
            rollouts.group_id_B
        ]
        == 0.0
    )
