"""Rewards from the tests a program passed. Dimension `J` counts a problem's tests."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def binary_reward(
    is_passed_BJ: Bool[Array, "B J"], has_test_BJ: Bool[Array, "B J"]
) -> Float[Array, " B"]:
    """Returns 1 for a row that passed all its tests, else 0; NaN without tests.

    Args:
      is_passed_BJ: Undefined where there is no test.
      has_test_BJ: False pads problems with fewer tests.

    Returns:
      One reward a row.
    """
    rewards_B = (is_passed_BJ | ~has_test_BJ).all(axis=1).astype(jnp.float32)
    return jnp.where(has_test_BJ.any(axis=1), rewards_B, jnp.nan)


def pass_rate_reward(
    is_passed_BJ: Bool[Array, "B J"], has_test_BJ: Bool[Array, "B J"]
) -> Float[Array, " B"]:
    """Returns the share of its tests that a row passed; NaN without tests.

    Args:
      is_passed_BJ: Undefined where there is no test.
      has_test_BJ: False pads problems with fewer tests.

    Returns:
      One reward a row, in [0, 1].

    Reference:
      Pass-rate rewards, 2026, https://arxiv.org/abs/2605.02944: they do not beat the
      binary reward, which is why that is the default.
    """
    return _weighted_share(is_passed_BJ & has_test_BJ, has_test_BJ.astype(jnp.float32))


def reweighted_pass_rate_reward(
    is_passed_BJ: Bool[Array, "B J"],
    has_test_BJ: Bool[Array, "B J"],
    group_ids_B: Int[Array, " B"],
    is_real_B: Bool[Array, " B"] | None = None,
) -> Float[Array, " B"]:
    """Returns the pass rate with tests weighted by how seldom the group passes them.

        weight_j = 1 - (share of the group's rows that passed test j), normalised

    Where every row passes every test the weights would all be 0: the plain pass rate
    is returned. NaN without tests.

    Args:
      is_passed_BJ: Undefined where there is no test.
      has_test_BJ: False pads problems with fewer tests; equal within a group.
      group_ids_B: Rows of one problem; in [0, B).
      is_real_B: False marks padding rows, which do not count.

    Returns:
      One reward a row, in [0, 1]. A row that passes all tests gets 1.

    Reference:
      Pass-rate rewards, 2026, https://arxiv.org/abs/2605.02944. The weights' formula is
      not given there; this is our reading.
    """
    num_rows = group_ids_B.shape[0]
    if is_real_B is None:
        is_real_B = jnp.ones(num_rows, bool)

    def group_sum(values_BJ: Array) -> Array:
        return jax.ops.segment_sum(values_BJ, group_ids_B, num_rows)[group_ids_B]

    is_passed_BJ = is_passed_BJ & has_test_BJ
    is_counted_BJ = has_test_BJ & is_real_B[:, None]
    counts_BJ = group_sum(is_counted_BJ.astype(jnp.float32))
    passes_BJ = group_sum((is_passed_BJ & is_counted_BJ).astype(jnp.float32))
    failures_BJ = 1.0 - passes_BJ / jnp.maximum(counts_BJ, 1.0)
    weights_BJ = jnp.where(has_test_BJ & (counts_BJ > 0), failures_BJ, 0.0)
    has_weight_B1 = (weights_BJ > 0).any(axis=1, keepdims=True)
    weights_BJ = jnp.where(has_weight_B1, weights_BJ, has_test_BJ.astype(jnp.float32))
    return _weighted_share(is_passed_BJ, weights_BJ)


def two_stage_reward(
    is_passed_BJ: Bool[Array, "B J"],
    has_test_BJ: Bool[Array, "B J"],
    step: int | Int[Array, ""],
    binary_from_step: int,
) -> Float[Array, " B"]:
    """Returns the pass rate before a step, the binary reward from it on.

    Args:
      is_passed_BJ: Undefined where there is no test.
      has_test_BJ: False pads problems with fewer tests.
      step: Updates made so far.
      binary_from_step: First step of the second stage.

    Returns:
      One reward a row.

    Reference:
      Pass-rate rewards, 2026, https://arxiv.org/abs/2605.02944.
    """
    return jnp.where(
        jnp.asarray(step) >= binary_from_step,
        binary_reward(is_passed_BJ, has_test_BJ),
        pass_rate_reward(is_passed_BJ, has_test_BJ),
    )


def _weighted_share(
    is_passed_BJ: Bool[Array, "B J"], weights_BJ: Float[Array, "B J"]
) -> Float[Array, " B"]:
    totals_B = weights_BJ.sum(axis=1)
    shares_B = jnp.where(is_passed_BJ, weights_BJ, 0.0).sum(axis=1)
    return jnp.where(
        totals_B > 0, shares_B / jnp.where(totals_B > 0, totals_B, 1.0), jnp.nan
    )
