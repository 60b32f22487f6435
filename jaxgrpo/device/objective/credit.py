"""How a row's advantage is shared among its tokens.

A credit is a weight a token whose mean over the row is 1, so that the row's mass
sum_t credit_t = |o_i| is kept: advantages_BT = advantages_B[:, None] * credit_BT. With
`sequence_mean` every row then sends sum_t a_t = A_i through its tokens. Dimension `A`
counts the steps, or anchors, of a row.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.objective.advantages import group_advantages


class Spans(NamedTuple):
    """At most one stretch of tokens a row."""

    starts_B: Int[Array, " B"]
    """First token."""
    ends_B: Int[Array, " B"]
    """One past the last token."""
    has_span_B: Bool[Array, " B"]
    """False for rows without one."""


class SpanCredit(NamedTuple):
    """A credit, and which rows it focuses."""

    credit_BT: Float[Array, "B T"]
    """0 where masked."""
    is_focused_B: Bool[Array, " B"]
    """False for rows that fell back to uniform credit."""


def uniform_credit(mask_BT: Bool[Array, "B T"]) -> Float[Array, "B T"]:
    """Returns 1 at every token that counts.

    Args:
      mask_BT: True at tokens that count.

    Returns:
      The credit of plain GRPO.
    """
    return mask_BT.astype(jnp.float32)


def span_credit(
    mask_BT: Bool[Array, "B T"], spans: Spans, advantages_B: Float[Array, " B"]
) -> SpanCredit:
    """Returns all credit on each row's span, none before or after it.

        credit_t = |o_i| / |span_i|   inside the span, 0 elsewhere

    A row without a span, with a span that holds no token, or without a negative
    advantage gets uniform credit: praise for a failing line would teach the failure.

    Args:
      mask_BT: True at tokens that count.
      spans: Where each failing row went wrong.
      advantages_B: Advantage of each row.

    Returns:
      The credit and the rows it focuses.

    Reference:
      EGCA, 2026, https://arxiv.org/abs/2603.16158.
      Differs from the paper: it says nothing of positive advantages on failing rows.
    """
    positions_1T = jnp.arange(mask_BT.shape[1])[None, :]
    is_inside_BT = positions_1T >= spans.starts_B[:, None]
    is_inside_BT &= (positions_1T < spans.ends_B[:, None]) & mask_BT
    num_inside_B1 = is_inside_BT.sum(axis=1, keepdims=True).astype(jnp.float32)
    lengths_B1 = mask_BT.sum(axis=1, keepdims=True).astype(jnp.float32)
    is_focused_B = spans.has_span_B & (num_inside_B1[:, 0] > 0) & (advantages_B < 0)
    inside_credit_B1 = lengths_B1 / jnp.maximum(num_inside_B1, 1.0)
    focused_BT = jnp.where(is_inside_BT, inside_credit_B1, 0.0)
    credit_BT = jnp.where(is_focused_B[:, None], focused_BT, uniform_credit(mask_BT))
    return SpanCredit(credit_BT, is_focused_B)


def focused_credit(
    focus_B2: Int[Array, "B 2"],
    mask_BT: Bool[Array, "B T"],
    advantages_B: Float[Array, " B"],
) -> SpanCredit:
    """Returns all credit on the tokens that a row's blame falls on.

    Args:
      focus_B2: The first token and the one after the last; equal for none.
      mask_BT: True at tokens that count.
      advantages_B: Advantage of each row.

    Returns:
      As `span_credit`.
    """
    starts_B, ends_B = focus_B2[:, 0], focus_B2[:, 1]
    spans = Spans(starts_B, ends_B, ends_B > starts_B)
    return span_credit(mask_BT, spans, advantages_B)


def intra_advantages(step_rewards_BA: Float[Array, "B A"]) -> Float[Array, "B A"]:
    """Returns what each anchor contributed to the rest of its own trajectory.

        A_i = r_i (1 + mean_{j > i} r_j)      A_n = r_n

    Never negative for rewards in [0, 1]: an all-correct row keeps a positive push.

    Args:
      step_rewards_BA: 1 for a right anchor, else 0; NaN for anchors a row lacks.

    Returns:
      One value an anchor; 0 where there is none.

    Example:
      >>> rounded = intra_advantages(jnp.array([[1.0, 0.0, 1.0, 1.0]])).round(4)
      >>> [f"{a:.4f}" for a in rounded[0]]
      ['1.6667', '0.0000', '2.0000', '1.0000']

    Reference:
      StepCodeReasoner, 2026, https://arxiv.org/abs/2605.11922, equations 8-15.
    """
    has_step_BA = ~jnp.isnan(step_rewards_BA)
    rewards_BA = jnp.where(has_step_BA, step_rewards_BA, 0.0)
    counts_BA = has_step_BA.astype(jnp.float32)
    later_BA = rewards_BA.sum(axis=1, keepdims=True) - jnp.cumsum(rewards_BA, axis=1)
    num_later_BA = counts_BA.sum(axis=1, keepdims=True) - jnp.cumsum(counts_BA, axis=1)
    return rewards_BA * (1.0 + later_BA / jnp.maximum(num_later_BA, 1.0))


def bilevel_advantages(
    step_rewards_BA: Float[Array, "B A"],
    group_ids_B: Int[Array, " B"],
    *,
    intra_coef: float = 0.3,
    ddof: int = 1,
    epsilon: float = 1e-4,
) -> Float[Array, "B A"]:
    """Returns Bi-Level GRPO's advantage of every anchor.

        A_i = (r_i - mean_g r_i) / (std_g r_i + epsilon) + intra_coef * intra_i

    Args:
      step_rewards_BA: 1 for a right anchor, else 0; NaN for anchors a row lacks.
      group_ids_B: Rows with equal ids share a baseline, anchor by anchor; in [0, B).
      intra_coef: Weight of `intra_advantages`; at least 0.
      ddof: As in `group_advantages`.
      epsilon: As in `group_advantages`.

    Returns:
      One advantage an anchor; 0 where there is none. Gradients stop here.

    Reference:
      StepCodeReasoner, 2026, https://arxiv.org/abs/2605.11922 (lambda = 0.3).
    """

    def across_rows(rewards_B: Array) -> Array:
        return group_advantages(
            rewards_B[:, None], group_ids_B, ddof=ddof, epsilon=epsilon
        )

    inter_BA = jax.vmap(across_rows, in_axes=1, out_axes=1)(step_rewards_BA)
    intra_BA = intra_advantages(step_rewards_BA.astype(jnp.float32))
    return inter_BA + intra_coef * jax.lax.stop_gradient(intra_BA)


def advantages_at_steps(
    advantages_BA: Float[Array, "B A"],
    step_ends_BA: Int[Array, "B A"],
    mask_BT: Bool[Array, "B T"],
) -> Float[Array, "B T"]:
    """Returns each token's advantage: that of the step it belongs to.

    Step i runs from the end of step i - 1 to its own end. Tokens after the last step
    get 0: let the last step end with the completion if they shall count.

    Args:
      advantages_BA: One advantage a step.
      step_ends_BA: One past the last token of each step, not decreasing; a step that
        is missing repeats the end before it.
      mask_BT: True at tokens that count.

    Returns:
      The `advantages_BT` of `grpo_loss`.
    """
    num_positions = mask_BT.shape[1]
    positions_T = jnp.arange(num_positions)

    def one_row(advantages_A: Array, ends_A: Array) -> Array:
        step_T = jnp.searchsorted(ends_A, positions_T, side="right")
        return advantages_A.at[step_T].get(mode="fill", fill_value=0.0)

    return jnp.where(mask_BT, jax.vmap(one_row)(advantages_BA, step_ends_BA), 0.0)


def importance_credit(
    importances_BT: Float[Array, "B T"],
    mask_BT: Bool[Array, "B T"],
    *,
    threshold: float = 0.25,
    boost: float = 1.0,
    floor: float = 0.1,
) -> Float[Array, "B T"]:
    """Returns OAR's credit: tokens weighted by their influence on the answer.

        n_t = (I_t - min I) / (max I - min I)               within the row
        w_t = max(n_t / threshold, floor)                   if n_t < threshold
        w_t = 1 + boost (n_t - threshold) / (1 - threshold) otherwise
        credit_t = w_t |o_i| / sum_t w_t

    A row whose importances are all equal gets uniform credit.

    Args:
      importances_BT: Influence of each token, at least 0; anything where masked.
      mask_BT: True at tokens that count.
      threshold: Normalised importance of weight 1; in (0, 1).
      boost: Extra weight of the most important token; at least 0.
      floor: Smallest weight; in [0, 1].

    Returns:
      The credit; gradients stop here.

    Reference:
      OAR, 2026, https://arxiv.org/abs/2601.07408 (threshold 0.25, boost 1).
    """
    lowest_B1 = jnp.where(mask_BT, importances_BT, jnp.inf).min(1, keepdims=True)
    highest_B1 = jnp.where(mask_BT, importances_BT, -jnp.inf).max(1, keepdims=True)
    has_spread_B1 = highest_B1 > lowest_B1
    clean_BT = jnp.where(mask_BT & has_spread_B1, importances_BT - lowest_B1, 0.0)
    ranges_B1 = jnp.where(has_spread_B1, highest_B1 - lowest_B1, 1.0)
    shares_BT = clean_BT / ranges_B1
    weights_BT = jnp.where(
        shares_BT < threshold,
        jnp.maximum(shares_BT / threshold, floor),
        1.0 + boost * (shares_BT - threshold) / (1.0 - threshold),
    )
    weights_BT = jnp.where(has_spread_B1, weights_BT, 1.0)
    return jax.lax.stop_gradient(mass_preserving(weights_BT, mask_BT))


def mass_preserving(
    weights_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, "B T"]:
    """Returns weights scaled to a mean of 1 over each row's tokens, 0 where masked.

    A row whose weights are all 0 gets uniform credit.

    Args:
      weights_BT: At least 0; anything where masked.
      mask_BT: True at tokens that count.

    Returns:
      The credit.
    """
    weights_BT = jnp.where(mask_BT, weights_BT, 0.0)
    totals_B1 = weights_BT.sum(axis=1, keepdims=True)
    lengths_B1 = mask_BT.sum(axis=1, keepdims=True).astype(jnp.float32)
    has_mass_B1 = totals_B1 > 0
    scaled_BT = weights_BT * (lengths_B1 / jnp.where(has_mass_B1, totals_B1, 1.0))
    return jnp.where(has_mass_B1, scaled_BT, uniform_credit(mask_BT))
