"""Metrics that add up: a total and a weight each, divided once at the end.

Totals and weights are sums over rows or tokens. Add them over microbatches with
`jax.tree.map(jnp.add, a, b)`, or sum a scan's stacked outputs over axis 0; over devices
with `jax.lax.psum`; then call `finish_metrics` once on the result.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.objective.advantages import is_tied


class Mean(NamedTuple):
    """A mean in the making."""

    total: Float[Array, ""]
    """Sum of the values."""
    weight: Float[Array, ""]
    """How many there were."""


def masked_mean(values_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]) -> Mean:
    """Returns total and weight of the values that count.

    Args:
      values_BT: Anything where masked.
      mask_BT: True at values that count.

    Returns:
      A mean in the making. Gradients stop here.
    """
    total = jnp.where(mask_BT, values_BT, 0.0).sum()
    weight = mask_BT.sum().astype(jnp.float32)
    return Mean(jax.lax.stop_gradient(total), weight)


def fraction(is_true_BT: Bool[Array, "B T"], mask_BT: Bool[Array, "B T"]) -> Mean:
    """Returns total and weight of a share.

    Args:
      is_true_BT: Anything where masked.
      mask_BT: True at values that count.

    Returns:
      A mean in the making, in [0, 1].
    """
    return masked_mean(is_true_BT.astype(jnp.float32), mask_BT)


def finish_metrics(metrics: dict[str, Mean]) -> dict[str, Float[Array, ""]]:
    """Returns total / weight of each metric; 0 where the weight is 0.

    Args:
      metrics: Sums over all microbatches and devices.

    Returns:
      One number a name.

    Example:
      >>> finish_metrics({"kl": Mean(jnp.float32(3.0), jnp.float32(2.0))})["kl"].item()
      1.5
    """
    return {
        name: jnp.where(
            mean.weight > 0, mean.total / jnp.where(mean.weight > 0, mean.weight, 1), 0
        )
        for name, mean in metrics.items()
    }


def extremes(
    values_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the smallest and largest value that counts.

    Combine them over parts with min and max. Without any value they are inf and -inf.

    Args:
      values_BT: Anything where masked.
      mask_BT: True at values that count.

    Returns:
      (lowest, highest). Gradients stop here.
    """
    values_BT = jax.lax.stop_gradient(values_BT)
    return (
        jnp.where(mask_BT, values_BT, jnp.inf).min(),
        jnp.where(mask_BT, values_BT, -jnp.inf).max(),
    )


def reward_metrics(
    rewards_B: Float[Array, " B"],
    group_ids_B: Int[Array, " B"],
    is_counted_B: Bool[Array, " B"],
) -> dict[str, Float[Array, ""]]:
    """Returns `reward`, `reward_std` and `frac_reward_zero_std` of a whole batch.

    `frac_reward_zero_std` is the share of groups whose rewards are all equal, whatever
    the advantages were scaled by.

    Args:
      rewards_B: The weighted sum that makes advantages, `weighted_reward`.
      group_ids_B: In [0, B).
      is_counted_B: False for padding rows and rows that abstain.

    Returns:
      One number a name; 0 without counted rows.

    Reference:
      Differs from TRL, whose `frac_reward_zero_std` tests the deviation that was
      divided by: with batch scaling or GDPO it is 0 or 1 there.
    """
    column_B1 = is_counted_B[:, None]
    mean = masked_mean(rewards_B[:, None], column_B1)
    average = mean.total / jnp.maximum(mean.weight, 1.0)
    squares = masked_mean(jnp.square(rewards_B - average)[:, None], column_B1)
    is_tied_B = is_tied(rewards_B, group_ids_B, is_counted_B)
    tied = fraction(is_tied_B[:, None], _first_rows(group_ids_B, is_counted_B)[:, None])
    return finish_metrics({"reward": mean, "frac_reward_zero_std": tied}) | {
        "reward_std": jnp.sqrt(squares.total / jnp.maximum(mean.weight - 1.0, 1.0))
    }


def dead_group_metrics(
    is_exact_B: Bool[Array, " B"],
    group_ids_B: Int[Array, " B"],
    is_judged_B: Bool[Array, " B"],
) -> dict[str, Float[Array, ""]]:
    """Returns the shares of groups that are all wrong, mixed, and all correct.

    They come from raw verdicts, so no reward, weight or scaling moves them, and add up
    to 1. Rows without a verdict are left out, and groups without any.

    Args:
      is_exact_B: Judged correct; ignored without a verdict.
      group_ids_B: In [0, B).
      is_judged_B: False for padding rows and rows that abstain.

    Returns:
      `frac_reward_all_zero`, `frac_reward_mixed` and `frac_reward_all_one`.
    """
    values_B = is_exact_B.astype(jnp.float32)
    is_tied_B = is_tied(values_B, group_ids_B, is_judged_B)
    is_first_B1 = _first_rows(group_ids_B, is_judged_B)[:, None]
    shares = {
        "frac_reward_all_zero": is_tied_B & ~is_exact_B,
        "frac_reward_mixed": ~is_tied_B,
        "frac_reward_all_one": is_tied_B & is_exact_B,
    }
    return finish_metrics(
        {
            name: fraction(is_it_B[:, None], is_first_B1)
            for name, is_it_B in shares.items()
        }
    )


def _first_rows(
    group_ids_B: Int[Array, " B"], is_counted_B: Bool[Array, " B"]
) -> Bool[Array, " B"]:
    """Returns True at one counted row of each group that has any."""
    num_rows = group_ids_B.shape[0]
    rows_B = jnp.arange(num_rows)
    first_B = jax.ops.segment_min(
        jnp.where(is_counted_B, rows_B, num_rows), group_ids_B, num_rows
    )
    return is_counted_B & (first_B[group_ids_B] == rows_B)
