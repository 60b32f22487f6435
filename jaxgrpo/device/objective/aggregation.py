"""From token losses to one number. Every denominator is global and has a name.

    aggregation      loss                                denominator counts
    sequence_mean    sum_i (1/|o_i|) sum_t l_it / N      rows with a token
    token_mean       sum_i sum_t l_it / N                tokens
    constant         sum_i sum_t l_it / N                rows with a token * length_cap
    sequence_sum     sum_i sum_t l_it / N                rows with a token

Numerators add up over rows, so any split of the rows gives the same loss if each part
divides by the denominator of all.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.device.objective.ratios import row_means

AGGREGATIONS = ("sequence_mean", "token_mean", "constant", "sequence_sum")


def loss_numerator(
    losses_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"], aggregation: str
) -> Float[Array, ""]:
    """Returns the sum that an aggregation divides by its denominator.

    Args:
      losses_BT: Anything where masked.
      mask_BT: True at tokens that count.
      aggregation: One of AGGREGATIONS.

    Returns:
      A sum over rows.
    """
    if aggregation == "sequence_mean":
        return row_means(losses_BT, mask_BT).sum()
    return jnp.where(mask_BT, losses_BT, 0.0).sum()


def aggregation_denominator(
    mask_BT: Bool[Array, "B T"], aggregation: str, length_cap: int | None = None
) -> Float[Array, ""]:
    """Returns what an aggregation divides by; 0 for a batch without tokens.

    Additive over rows: the denominator of all microbatches is the sum of theirs.

    Args:
      mask_BT: True at tokens that count. Rows without any are not counted.
      aggregation: One of AGGREGATIONS.
      length_cap: The constant length, tokens; for `constant` only.

    Returns:
      A count.
    """
    if aggregation == "token_mean":
        return mask_BT.sum().astype(jnp.float32)
    num_rows = mask_BT.any(axis=1).sum().astype(jnp.float32)
    if aggregation != "constant":
        return num_rows
    if length_cap is None:
        raise ValueError(
            "aggregation 'constant' needs length_cap: None. "
            "Set it to the longest completion allowed, in tokens."
        )
    return num_rows * length_cap
