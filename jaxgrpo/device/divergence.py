"""How far two policies' next-token distributions part, over the whole vocabulary."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxgrpo.device.head import head_logits, join_positions, split_positions
from jaxgrpo.device.placement import num_row_shards, per_row_shard


def token_divergences(
    first_BTD: Float[Array, "B T D"],
    second_BTD: Float[Array, "B T D"],
    head_VD: Float[Array, "V D"],
    temperature: float | Float[Array, ""] = 1.0,
    *,
    mask_BT: Bool[Array, "B T"],
    num_tokens: int | None = None,
    chunk: int = 128,
) -> Float[Array, "B T"]:
    """Returns KL(first || second) at each position, a chunk of tokens at a time.

        KL_t = sum_v p_tv (log p_tv - log q_tv)

    with p and q the softmax of both hidden states' logits at the temperature. Logits of
    `chunk` tokens exist at once; the backward pass computes them again. Chunks without
    a token that counts are left out at run time. Rounding may leave a value slightly
    below 0 where the two are equal.

    Args:
      first_BTD: Hidden states after the last norm; no gradient.
      second_BTD: Hidden states likewise; they alone have a gradient.
      head_VD: Output head, one row a token; padded rows are allowed. No gradient.
      temperature: Divides the logits; above 0.
      mask_BT: True at positions that count; others get 0.
      num_tokens: Valid vocabulary size; V if not given.
      chunk: Tokens whose logits exist at a time, over all rows; at least 1. Rounded
        to whole positions, at least one of every row.

    Returns:
      Nats, float32.
    """
    num_rows, num_positions, _ = first_BTD.shape
    width = min(max(chunk // num_rows, 1), num_positions)
    head_VD = jax.lax.stop_gradient(head_VD)

    def distribution(hidden: Array) -> Array:
        return jax.nn.log_softmax(head_logits(hidden, head_VD, temperature, num_tokens))

    def of_chunk(first: Array, second: Array, is_counted: Array) -> Array:
        log_p, log_q = distribution(first), distribution(second)
        # Ids beyond the vocabulary are -inf on both sides.
        gaps = jnp.where(log_p > -jnp.inf, log_p - log_q, 0.0)
        return jnp.where(is_counted, (jnp.exp(log_p) * gaps).sum(axis=-1), 0.0)

    def nothing(first: Array, second: Array, is_counted: Array) -> Array:
        return jnp.where(is_counted, 0.0, 0.0)

    @jax.checkpoint
    def body(carry: None, inputs: Any) -> tuple[None, Array]:
        first, second, is_counted = inputs
        return carry, jax.lax.cond(
            is_counted.any(), of_chunk, nothing, first, second, is_counted
        )

    clean = [
        jnp.where(mask_BT[:, :, None], hidden_BTD, 0)
        for hidden_BTD in (jax.lax.stop_gradient(first_BTD), second_BTD)
    ]
    split = partial(split_positions, width=width)
    _, values = jax.lax.scan(body, None, (*map(split, clean), split(mask_BT)))
    return join_positions(values, num_positions)


def sharded_token_divergences(
    first_BTD: Float[Array, "B T D"],
    second_BTD: Float[Array, "B T D"],
    head_VD: Float[Array, "V D"],
    temperature: float | Float[Array, ""] = 1.0,
    *,
    mask_BT: Bool[Array, "B T"],
    num_tokens: int | None = None,
    chunk: int = 128,
) -> Float[Array, "B T"]:
    """As `token_divergences`, each shard of a mesh's rows on its own.

    Args:
      first_BTD: Traced hidden states, split by rows.
      second_BTD: Likewise.
      head_VD: Output head, whole along the axes that split rows.
      temperature: Divides the logits.
      mask_BT: True at positions that count.
      num_tokens: Valid vocabulary size; V if not given.
      chunk: Tokens whose logits exist at a time, over all shards.

    Returns:
      Nats, float32.
    """
    chunk = max(chunk // num_row_shards(first_BTD), 1)

    def compute(rows: Any, whole: Any) -> Array:
        first_BTD, second_BTD, mask_BT = rows
        head_VD, temperature = whole
        return token_divergences(
            first_BTD, second_BTD, head_VD, temperature,
            mask_BT=mask_BT, num_tokens=num_tokens, chunk=chunk,
        )  # fmt: skip

    return per_row_shard(
        compute,
        (first_BTD, second_BTD, mask_BT),
        (head_VD, jnp.asarray(temperature, jnp.float32)),
    )
