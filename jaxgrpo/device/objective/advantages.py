"""From rewards to one advantage per row, by explicit groups of any size."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.objective.choices import require_one_of

BASELINES = ("mean", "leave_one_out")
SCALES = ("group", "batch", "none")
COMBINES = ("sum_then_normalize", "normalize_then_sum")


def group_advantages(
    rewards_BR: Float[Array, "B R"],
    group_ids_B: Int[Array, " B"],
    *,
    weights_R: Float[Array, " R"] | Sequence[float] | None = None,
    scale: str = "group",
    baseline: str = "mean",
    combine: str = "sum_then_normalize",
    ddof: int = 1,
    epsilon: float = 1e-4,
    is_real_B: Bool[Array, " B"] | None = None,
) -> Float[Array, " B"]:
    """Returns each row's reward, centred within its group and scaled by the spread.

    With r_i = sum_n w_n r_in and the rows of one group g,

        A_i = (r_i - baseline_i) / (std + epsilon)
        baseline_i = mean_g r              ("mean")
                   | mean_{j in g, j != i} r_j   ("leave_one_out")
        std        = std_g r ("group") | std of all rows ("batch")
                   | no division ("none")

    `normalize_then_sum` is GDPO: every reward is normalised within its group first,
    A_in = (r_in - mean_g r_n) / (std_g r_n + epsilon); then S_i = sum_n w_n A_in and
    A_i = (S_i - mean S) / (std S + epsilon) over all rows.

    A group whose rewards are all equal gets exactly 0, and so does a group of one.
    A NaN reward abstains: with summed rewards the row (where that weight is not 0)
    leaves its group's mean and spread and gets 0; with GDPO it leaves only that
    reward's, and a row without any reward gets 0.

    Args:
      rewards_BR: Rewards; unitless, any finite range, NaN abstains.
      group_ids_B: Rows with equal ids share a baseline, in any order; in [0, B).
      weights_R: Factor of each reward; 1 by default. A reward of weight 0 is ignored.
      scale: What centred rewards are divided by: `group`, `batch` or `none`.
      baseline: What rewards are centred on: `mean` or `leave_one_out`.
      combine: `sum_then_normalize` or `normalize_then_sum`.
      ddof: The variance divides by (rows - ddof); 1 is the sample deviation.
      epsilon: Added to the deviation; at least 0.
      is_real_B: False marks padding rows, which are ignored and get 0.

    Returns:
      Advantages. Gradients stop here.

    Example:
      >>> rewards_BR = jnp.array([[1.0], [0.0], [1.0], [1.0]])
      >>> group_ids_B = jnp.array([0, 0, 2, 2])
      >>> [float(a) for a in group_advantages(rewards_BR, group_ids_B, scale="none")]
      [0.5, -0.5, 0.0, 0.0]

    Reference:
      Shao et al., DeepSeekMath, 2024, https://arxiv.org/abs/2402.03300 (GRPO).
      Ahmadian et al., Back to Basics, 2024, https://arxiv.org/abs/2402.14740 (RLOO).
      GDPO, 2026, https://arxiv.org/abs/2601.05242.
      Differs from common code: ties are found by max == min, not by an epsilon, so
      rounding never becomes an advantage.
    """
    require_one_of("scale", scale, SCALES)
    require_one_of("baseline", baseline, BASELINES)
    require_one_of("combine", combine, COMBINES)
    rewards_BR = rewards_BR.astype(jnp.float32)
    weights_R = _weights(weights_R, rewards_BR.shape[1])
    if is_real_B is None:
        is_real_B = jnp.ones(rewards_BR.shape[0], bool)
    if combine == "normalize_then_sum":
        if (scale, baseline) != ("group", "mean"):
            raise ValueError(
                f"combine 'normalize_then_sum' normalises by group mean and spread: "
                f"scale {scale!r}, baseline {baseline!r}. "
                "Set scale='group' and baseline='mean'."
            )
        advantages_B = _gdpo(
            rewards_BR, weights_R, group_ids_B, is_real_B, ddof, epsilon
        )
    else:
        total_B, is_counted_B = weighted_reward(rewards_BR, weights_R, is_real_B)
        is_tied_B = is_tied(total_B, group_ids_B, is_counted_B)
        advantages_B = _normalised(
            total_B, group_ids_B, is_counted_B, is_tied_B,
            scale=scale, baseline=baseline, ddof=ddof, epsilon=epsilon,
        )  # fmt: skip
    return jax.lax.stop_gradient(advantages_B)


def weighted_reward(
    rewards_BR: Float[Array, "B R"],
    weights_R: Float[Array, " R"],
    is_real_B: Bool[Array, " B"],
) -> tuple[Float[Array, " B"], Bool[Array, " B"]]:
    """Returns sum_n w_n r_n of each row, and whether the row counts.

    A row counts if it is real and no reward of non-zero weight is NaN. The sum of a
    row that does not count is 0.

    Args:
      rewards_BR: Rewards; NaN abstains.
      weights_R: Factor of each reward.
      is_real_B: False marks padding rows.

    Returns:
      (total_B, is_counted_B).
    """
    is_used_1R = (weights_R != 0)[None, :]
    is_counted_B = is_real_B & ~jnp.any(is_used_1R & jnp.isnan(rewards_BR), axis=1)
    is_summed_BR = is_used_1R & is_counted_B[:, None]
    parts_BR = jnp.where(is_summed_BR, rewards_BR, 0.0) * weights_R[None, :]
    return parts_BR.sum(axis=1), is_counted_B


def is_tied(
    values_B: Float[Array, " B"],
    group_ids_B: Int[Array, " B"],
    is_counted_B: Bool[Array, " B"],
) -> Bool[Array, " B"]:
    """Returns whether all counted values of each row's group are equal.

    A group with one counted row, or none, is tied.

    Args:
      values_B: Finite where counted.
      group_ids_B: In [0, B).
      is_counted_B: Rows that take part.

    Returns:
      One truth value a row, equal within a group.
    """
    num_groups = values_B.shape[0]
    lowest_B = jax.ops.segment_min(
        jnp.where(is_counted_B, values_B, jnp.inf), group_ids_B, num_groups
    )
    highest_B = jax.ops.segment_max(
        jnp.where(is_counted_B, values_B, -jnp.inf), group_ids_B, num_groups
    )
    return (highest_B <= lowest_B)[group_ids_B]


def _group_sum(
    values_B: Float[Array, " B"], group_ids_B: Int[Array, " B"]
) -> Float[Array, " B"]:
    """Returns the sum over each row's group, at each row."""
    sums_B = jax.ops.segment_sum(values_B, group_ids_B, values_B.shape[0])
    return sums_B[group_ids_B]


def _normalised(
    values_B: Float[Array, " B"],
    group_ids_B: Int[Array, " B"],
    is_counted_B: Bool[Array, " B"],
    is_tied_B: Bool[Array, " B"],
    *,
    scale: str,
    baseline: str,
    ddof: int,
    epsilon: float,
) -> Float[Array, " B"]:
    """Returns values centred by group and divided by their spread; 0 where tied."""
    counts_B = _group_sum(is_counted_B.astype(jnp.float32), group_ids_B)
    finite_B = jnp.where(is_counted_B, values_B, 0.0)
    means_B = _group_sum(finite_B, group_ids_B) / jnp.maximum(counts_B, 1.0)
    centred_B = jnp.where(is_counted_B, finite_B - means_B, 0.0)
    if scale == "group":
        squares_B = _group_sum(jnp.square(centred_B), group_ids_B)
        divisor_B = jnp.sqrt(squares_B / jnp.maximum(counts_B - ddof, 1.0)) + epsilon
    elif scale == "batch":
        divisor_B = _batch_std(finite_B, is_counted_B, ddof) + epsilon
    else:
        divisor_B = 1.0
    if baseline == "leave_one_out":
        centred_B = centred_B * counts_B / jnp.maximum(counts_B - 1.0, 1.0)
    is_zero_B = is_tied_B | ~is_counted_B
    return jnp.where(is_zero_B, 0.0, centred_B / jnp.where(is_zero_B, 1.0, divisor_B))


def _batch_std(
    values_B: Float[Array, " B"], is_counted_B: Bool[Array, " B"], ddof: int
) -> Float[Array, ""]:
    count = is_counted_B.sum().astype(jnp.float32)
    mean = jnp.where(is_counted_B, values_B, 0.0).sum() / jnp.maximum(count, 1.0)
    squares_B = jnp.where(is_counted_B, jnp.square(values_B - mean), 0.0)
    return jnp.sqrt(squares_B.sum() / jnp.maximum(count - ddof, 1.0))


def _gdpo(
    rewards_BR: Float[Array, "B R"],
    weights_R: Float[Array, " R"],
    group_ids_B: Int[Array, " B"],
    is_real_B: Bool[Array, " B"],
    ddof: int,
    epsilon: float,
) -> Float[Array, " B"]:
    """Returns GDPO's advantages: normalise each reward, sum, normalise the batch."""

    def one_reward(rewards_B, weight):
        is_counted_B = is_real_B & ~jnp.isnan(rewards_B) & (weight != 0)
        is_tied_B = is_tied(rewards_B, group_ids_B, is_counted_B)
        normalised_B = _normalised(
            rewards_B, group_ids_B, is_counted_B, is_tied_B,
            scale="group", baseline="mean", ddof=ddof, epsilon=epsilon,
        )  # fmt: skip
        return weight * normalised_B, is_counted_B, is_tied_B

    parts_RB, is_counted_RB, is_tied_RB = jax.vmap(one_reward)(rewards_BR.T, weights_R)
    sums_B = parts_RB.sum(axis=0)
    is_scored_B = is_counted_RB.any(axis=0)
    count = is_scored_B.sum().astype(jnp.float32)
    mean = jnp.where(is_scored_B, sums_B, 0.0).sum() / jnp.maximum(count, 1.0)
    divisor = _batch_std(sums_B, is_scored_B, ddof) + epsilon
    is_zero_B = is_tied_RB.all(axis=0) | ~is_scored_B
    # A batch of tied groups has no spread: keep 0 / 0 out when epsilon is 0.
    safe_divisor = jnp.where(is_zero_B.all(), 1.0, divisor)
    return jnp.where(is_zero_B, 0.0, (sums_B - mean) / safe_divisor)


def _weights(
    weights_R: Float[Array, " R"] | Sequence[float] | None, num_rewards: int
) -> Float[Array, " R"]:
    if weights_R is None:
        return jnp.ones(num_rewards, jnp.float32)
    weights_R = jnp.asarray(weights_R, jnp.float32)
    if weights_R.shape != (num_rewards,):
        raise ValueError(
            f"weights_R has shape {weights_R.shape} for {num_rewards} rewards. "
            "Give one weight a reward."
        )
    return weights_R
