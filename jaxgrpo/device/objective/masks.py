"""Which tokens and rows take part. True always means: takes part.

Lengths, verdicts and rewards decide; token values only where repetition is asked for.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgrpo.device.objective.advantages import is_tied
from jaxgrpo.device.objective.choices import require_one_of

VERDICT_RULES = ("non_incorrect", "correct", "incorrect", "any")


def completion_mask(
    lengths_B: Int[Array, " B"], num_positions: int
) -> Bool[Array, "B T"]:
    """Returns True at the tokens of each completion, its end token included.

    Position t takes part if t < length. A length of 0 gives a row of False.

    Args:
      lengths_B: Tokens of each completion, in [0, num_positions].
      num_positions: Width T of the result.

    Returns:
      The mask, from lengths alone: token values play no part.

    Example:
      >>> completion_mask(jnp.array([2, 0]), 3).tolist()
      [[True, True, False], [False, False, False]]
    """
    return jnp.arange(num_positions)[None, :] < lengths_B[:, None]


def live_rows(
    rewards_B: Float[Array, " B"],
    group_ids_B: Int[Array, " B"],
    is_counted_B: Bool[Array, " B"],
) -> Bool[Array, " B"]:
    """Returns True for rows of groups whose rewards differ.

    And-ed into the mask, it keeps dead groups out of the loss altogether, divergence
    and denominator included; otherwise their advantage is 0 but their divergence pulls.

    Args:
      rewards_B: The weighted reward that makes advantages; finite where counted.
      group_ids_B: Rows with equal ids share a baseline; in [0, B).
      is_counted_B: False for padding rows and rows that abstain.

    Returns:
      One truth value a row, False where not counted.
    """
    return is_counted_B & ~is_tied(rewards_B, group_ids_B, is_counted_B)


def untruncated_rows(is_truncated_B: Bool[Array, " B"]) -> Bool[Array, " B"]:
    """Returns False for every truncated row: DAPO's overlong filtering.

    Args:
      is_truncated_B: Rows cut off at the length limit, without an end token.

    Returns:
      Rows that keep their tokens in the loss.

    Reference:
      Yu et al., DAPO, 2025, section 3.4, https://arxiv.org/abs/2503.14476.
    """
    return ~is_truncated_B


def conditionally_untruncated_rows(
    is_truncated_B: Bool[Array, " B"],
    is_allowed_B: Bool[Array, " B"],
    is_repeating_B: Bool[Array, " B"],
    row_key_B: Key[Array, " B"],
    probability: float = 0.1,
) -> Bool[Array, " B"]:
    """Returns False for truncated rows that all four conditions pick out.

        dropped = truncated and allowed and not repeating and U(0, 1) < probability

    The method sets the advantage of a dropped row to 0 after the group's statistics:
    multiply advantages by the result. And-ed into the mask instead, the row also
    leaves the divergence and the denominator.

    Args:
      is_truncated_B: Rows cut off at the length limit.
      is_allowed_B: The condition on the verdict, see `verdict_allows`.
      is_repeating_B: See `repeats_its_tail`.
      row_key_B: One random key a row.
      probability: Share of such rows that are dropped, in [0, 1].

    Returns:
      Rows that keep their advantage.

    Reference:
      MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777. The paper's curve named
      as its own uses 10 %.
    """
    draws_B = jax.vmap(jax.random.uniform)(row_key_B)
    is_dropped_B = is_truncated_B & is_allowed_B & ~is_repeating_B
    return ~(is_dropped_B & (draws_B < probability))


def verdict_allows(
    rule: str, is_correct_B: Bool[Array, " B"], has_verdict_B: Bool[Array, " B"]
) -> Bool[Array, " B"]:
    """Returns whether a row's verdict satisfies a rule.

        non_incorrect   correct, or no verdict was possible
        correct         correct
        incorrect       judged, and not correct
        any             always

    Args:
      rule: One of VERDICT_RULES.
      is_correct_B: Judged correct; ignored without a verdict.
      has_verdict_B: False where nothing could be judged, as when the code was cut.

    Returns:
      One truth value a row.

    Reference:
      MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777. Its equation says
      "non-incorrect" and other texts of its authors differ, hence the choice.
    """
    require_one_of("rule", rule, VERDICT_RULES)
    is_right_B = has_verdict_B & is_correct_B
    if rule == "non_incorrect":
        return is_right_B | ~has_verdict_B
    if rule == "correct":
        return is_right_B
    if rule == "incorrect":
        return has_verdict_B & ~is_correct_B
    return jnp.ones_like(is_correct_B)


def repeats_its_tail(
    token_ids_BT: Int[Array, "B T"], lengths_B: Int[Array, " B"], num_tokens: int = 128
) -> Bool[Array, " B"]:
    """Returns whether the last m tokens equal the m before them, token by token.

    A row shorter than 2 m does not repeat.

    Args:
      token_ids_BT: Undefined beyond the length.
      lengths_B: Tokens of each completion.
      num_tokens: m, at least 1.

    Returns:
      One truth value a row.

    Reference:
      MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777 (m = 128).
    """
    num_positions = token_ids_BT.shape[1]
    if 2 * num_tokens > num_positions:
        return jnp.zeros(lengths_B.shape, bool)
    offsets_1m = jnp.arange(num_tokens)[None, :]
    last_Bm = jnp.maximum(lengths_B[:, None] - num_tokens + offsets_1m, 0)
    before_Bm = jnp.maximum(lengths_B[:, None] - 2 * num_tokens + offsets_1m, 0)
    is_equal_Bm = jnp.take_along_axis(
        token_ids_BT, last_Bm, axis=1
    ) == jnp.take_along_axis(token_ids_BT, before_Bm, axis=1)
    return is_equal_Bm.all(axis=1) & (lengths_B >= 2 * num_tokens)


def overlong_penalty(
    lengths_B: Int[Array, " B"], max_length: int, buffer_length: int
) -> Float[Array, " B"]:
    """Returns DAPO's soft punishment of length, a reward between -1 and 0.

        0                                      if L <= max - buffer
        ((max - buffer) - L) / buffer          if L <= max
        -1                                     beyond

    Args:
      lengths_B: Tokens of each completion.
      max_length: Longest allowed, tokens.
      buffer_length: Stretch before it over which the penalty grows, tokens; at least 1
        and at most max_length.

    Returns:
      A reward to add, by a weight of its own.

    Example:
      >>> overlong_penalty(jnp.array([14336, 16384, 20000]), 16384, 4096).tolist()
      [-0.5, -1.0, -1.0]

    Reference:
      Yu et al., DAPO, 2025, equation 13, https://arxiv.org/abs/2503.14476.
    """
    if not 1 <= buffer_length <= max_length:
        raise ValueError(
            f"buffer_length {buffer_length} with max_length {max_length}. "
            "Set it between 1 and max_length."
        )
    excess_B = lengths_B.astype(jnp.float32) - (max_length - buffer_length)
    return jnp.clip(-excess_B / buffer_length, -1.0, 0.0)


def entropy_quantile(
    entropies_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"], top_fraction: float
) -> Float[Array, ""]:
    """Returns the entropy that the given share of tokens reaches or exceeds.

    The (1 - top_fraction) quantile, linear between order statistics. Give it all rows
    of an update, not one microbatch, or the result depends on the split.

    Args:
      entropies_BT: Nats; anything where masked.
      mask_BT: True at tokens that count.
      top_fraction: Share of tokens to keep, in (0, 1].

    Returns:
      The `entropy_threshold` of `grpo_loss`; infinite without tokens.

    Reference:
      Wang et al., Beyond the 80/20 Rule, 2025, https://arxiv.org/abs/2506.01939.
    """
    if not 0 < top_fraction <= 1:
        raise ValueError(f"top_fraction {top_fraction}. Set it in (0, 1].")
    ascending_N = jnp.sort(jnp.where(mask_BT, entropies_BT, jnp.inf).reshape(-1))
    num_tokens = mask_BT.sum()
    position = (1.0 - top_fraction) * (num_tokens - 1).astype(jnp.float32)
    lower = jnp.clip(jnp.floor(position).astype(jnp.int32), 0, ascending_N.size - 1)
    upper = jnp.clip(lower + 1, 0, jnp.maximum(num_tokens - 1, 0))
    share = position - lower.astype(jnp.float32)
    # A share of 0 must not touch an upper neighbour that is infinite.
    step = jnp.where(share > 0, ascending_N[upper] - ascending_N[lower], 0.0)
    threshold = ascending_N[lower] + share * step
    return jax.lax.stop_gradient(jnp.where(num_tokens > 0, threshold, jnp.inf))
