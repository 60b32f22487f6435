"""Advantage moved among the passing rollouts of a group by a grader's judgement."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def redistributed_advantages(
    advantages_B: Float[Array, " B"],
    qualities_B: Float[Array, " B"],
    is_passing_B: Bool[Array, " B"],
    group_ids_B: Int[Array, " B"],
    *,
    cap: float = 2.0,
    is_counted_B: Bool[Array, " B"] | None = None,
) -> Float[Array, " B"]:
    """Returns advantages shifted from poorer to better passing rollouts.

        A'_i = q_i A_i                  for passing rows with A_i > 0, A_i otherwise
        c    = min(cap, sum A / sum q A)   over those rows of the group
        A''  = c A' on those rows; then minus the group's mean

    Before centring, the sum of positive advantage is kept up to the cap. A group in
    which a passing row has no quality keeps its advantages.

    Args:
      advantages_B: From `group_advantages`.
      qualities_B: In (0, 1]; NaN where the grader gave none. Ignored where not passing.
      is_passing_B: Rows that passed.
      group_ids_B: In [0, B).
      cap: Largest common scale; at least 1.
      is_counted_B: False marks rows that pad or abstain, which are ignored and get 0:
        the others are moved as if these had not been drawn.

    Returns:
      Advantages. Gradients stop here.

    Reference:
      Groupwise Agentic Grading, 2026, https://arxiv.org/abs/2609.32577, section on
      advantage redistribution. The map to qualities and the cap are not published.
    """
    num_rows = advantages_B.shape[0]
    if is_counted_B is None:
        is_counted_B = jnp.ones(num_rows, bool)

    def group_sum(values_B: Array) -> Array:
        return jax.ops.segment_sum(values_B, group_ids_B, num_rows)[group_ids_B]

    is_shared_B = is_counted_B & is_passing_B & (advantages_B > 0)
    is_ungraded_B = is_counted_B & is_passing_B & jnp.isnan(qualities_B)
    is_kept_B = group_sum(is_ungraded_B.astype(jnp.float32)) > 0
    clean_B = jnp.where(is_counted_B, advantages_B, 0.0)
    scaled_B = jnp.where(is_shared_B & ~is_kept_B, qualities_B * clean_B, 0.0)
    mass_B = group_sum(jnp.where(is_shared_B, clean_B, 0.0))
    left_B = group_sum(scaled_B)
    has_mass_B = left_B > 0
    scale_B = jnp.minimum(cap, mass_B / jnp.where(has_mass_B, left_B, 1.0))
    moved_B = jnp.where(is_shared_B, scale_B * scaled_B, clean_B)
    counts_B = group_sum(is_counted_B.astype(jnp.float32))
    centred_B = moved_B - group_sum(moved_B) / jnp.maximum(counts_B, 1.0)
    is_changed_B = is_counted_B & has_mass_B & ~is_kept_B
    return jax.lax.stop_gradient(jnp.where(is_changed_B, centred_B, clean_B))
