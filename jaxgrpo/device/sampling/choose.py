"""The next token of each row from its logits, with the log-prob it was drawn at.

In order: temperature (the caller divides by it), top-k, top-p of what top-k left, min-p
of what top-p left. What is left is renormalised; the token is drawn from it, and its
log-prob is under it. Ids that were left are returned, so that the trainer renormalises
over the same ones.

A token is drawn by inverting the cumulative distribution, in two stages: first a block
of the vocabulary by the blocks' total mass, then a token within the block, each with a
uniform number of its own. Nothing is sorted, and no random number per token is made: at
a vocabulary of 151,936 both would cost more than the head itself.

Reference:
  Fan et al., Hierarchical Neural Story Generation, 2018, https://arxiv.org/abs/1805.04833
  (top-k); Holtzman et al., The Curious Case of Neural Text Degeneration, 2020,
  https://arxiv.org/abs/1904.09751 (top-p); Nguyen et al., Turning Up the Heat, 2024,
  https://arxiv.org/abs/2407.01082 (min-p). The order is that of `transformers`; vLLM
  applies min-p before top-k and top-p, which leaves other tokens where both bind.
  Differs from both in keeping exactly k tokens where several tie for the last place,
  those of the lowest ids.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


class Choice(NamedTuple):
    """How tokens are chosen. Hashable: a static argument of jit."""

    is_greedy: bool = False
    """Exact argmax instead of a draw, without truncation."""
    top_k: int = 0
    """Most likely tokens to draw from; 0 draws from all."""
    top_p: float = 1.0
    """Of those, the fewest most likely whose mass reaches this; in (0, 1]. Needs
    top_k, which bounds the ids that are stored."""
    min_p: float = 0.0
    """Of those, the ones at least this times as likely as the likeliest; in [0, 1).
    Needs top_k."""

    @property
    def num_kept(self) -> int:
        """Ids stored for each token; 0 where all tokens can be drawn."""
        return 0 if self.is_greedy else self.top_k


class Chosen(NamedTuple):
    """One token of each row."""

    token_B: Int[Array, " B"]
    logprob_B: Float[Array, " B"]
    """Nats, among the tokens that could be drawn."""
    kept_Bk: Int[Array, "B k"] | None
    """Ids that could be drawn, the first one repeated where fewer than k could; None
    where all could."""


def chosen_tokens(
    logits_BV: Float[Array, "B V"],
    row_key_B: Key[Array, " B"],
    position_B: Int[Array, " B"],
    choice: Choice,
) -> Chosen:
    """One token per row, keyed by the row and the position.

    Args:
      logits_BV: fp32 logits, already divided by the temperature; -inf where a token is
        not allowed. At least one of a row is finite.
      row_key_B: From `keys.row_keys`.
      position_B: Index of each token within its completion.
      choice: How to choose.

    Returns:
      Tokens with their log-probs. A token of log-prob -inf is never chosen.
    """
    if choice.is_greedy:
        token_B = jnp.argmax(logits_BV, axis=-1).astype(jnp.int32)
        logprob_B = _taken(logits_BV, token_B) - jax.nn.logsumexp(logits_BV, axis=-1)
        return Chosen(token_B, logprob_B, None)
    uniform_B2 = _uniform_pairs(row_key_B, position_B)
    if not choice.top_k:
        token_B, log_total_B = _drawn(logits_BV, uniform_B2)
        return Chosen(token_B, _taken(logits_BV, token_B) - log_total_B, None)
    kept_logits_Bk, kept_Bk = kept_tokens(logits_BV, choice)
    place_B, log_total_B = _drawn(kept_logits_Bk, uniform_B2)
    logprob_B = _taken(kept_logits_Bk, place_B) - log_total_B
    return Chosen(_taken(kept_Bk, place_B), logprob_B, kept_Bk)


def kept_tokens(
    logits_BV: Float[Array, "B V"], choice: Choice
) -> tuple[Float[Array, "B k"], Int[Array, "B k"]]:
    """The tokens that truncation leaves, likeliest first.

    Args:
      logits_BV: As for `chosen_tokens`.
      choice: With top_k, at most V.

    Returns:
      Logits, -inf where a token is not kept, and ids, there the likeliest one's.
    """
    logits_Bk, ids_Bk = jax.lax.top_k(logits_BV, choice.top_k)
    probs_Bk = jax.nn.softmax(logits_Bk, axis=-1)
    mass_before_Bk = jnp.cumsum(probs_Bk, axis=-1) - probs_Bk
    is_kept_Bk = probs_Bk >= choice.min_p * probs_Bk[:, :1]
    if choice.top_p < 1.0:
        is_kept_Bk &= mass_before_Bk < choice.top_p
    is_kept_Bk &= logits_Bk > -jnp.inf
    is_kept_Bk = is_kept_Bk.at[:, 0].set(True)
    return (
        jnp.where(is_kept_Bk, logits_Bk, -jnp.inf),
        jnp.where(is_kept_Bk, ids_Bk, ids_Bk[:, :1]).astype(jnp.int32),
    )


def _uniform_pairs(
    row_key_B: Key[Array, " B"], position_B: Int[Array, " B"]
) -> Float[Array, "B 2"]:
    def one(key: Array, position: Array) -> Array:
        return jax.random.uniform(jax.random.fold_in(key, position), (2,))

    return jax.vmap(one)(row_key_B, position_B)


def _drawn(
    logits_BV: Float[Array, "B V"], uniform_B2: Float[Array, "B 2"]
) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
    """One index per row from softmax(logits), and the log of the softmax's total."""
    B, V = logits_BV.shape
    width = _block_width(V)
    highest_B1 = logits_BV.max(axis=-1, keepdims=True)
    powers_BV = jnp.exp(logits_BV - highest_B1)
    padded_BV = jnp.pad(powers_BV, ((0, 0), (0, -V % width)))
    powers_BMX = padded_BV.reshape(B, -1, width)
    mass_BM = powers_BMX.sum(axis=-1)
    block_B = _inverted(mass_BM, uniform_B2[:, 0])
    block_B11 = block_B[:, None, None]
    powers_BX = jnp.take_along_axis(powers_BMX, block_B11, axis=1)[:, 0]
    index_B = block_B * width + _inverted(powers_BX, uniform_B2[:, 1])
    return index_B, highest_B1[:, 0] + jnp.log(mass_BM.sum(axis=-1))


def _block_width(num_choices: int) -> int:
    """A power of two near the square root: both stages are then short."""
    return 2 ** round(math.log2(max(num_choices, 2)) / 2)


def _inverted(
    mass_BX: Float[Array, "B X"], uniform_B: Float[Array, " B"]
) -> Int[Array, " B"]:
    """The first index whose cumulative mass exceeds uniform * total."""
    X = mass_BX.shape[1]
    # As a product: one operation on every backend, where a scan is a chain of them.
    is_counted_XX = jnp.arange(X)[:, None] <= jnp.arange(X)[None, :]
    cumulative_BX = jnp.matmul(
        mass_BX, is_counted_XX.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST
    )
    is_beyond_BX = cumulative_BX > (uniform_B * cumulative_BX[:, -1])[:, None]
    # Sums may round down past an index: one without mass is never taken.
    is_taken_BX = is_beyond_BX & (mass_BX > 0)
    found_B = jnp.argmax(is_taken_BX, axis=-1)
    likeliest_B = jnp.argmax(mass_BX, axis=-1)
    has_any_B = jnp.any(is_taken_BX, axis=-1)
    return jnp.where(has_any_B, found_B, likeliest_B).astype(jnp.int32)


def _taken(values_BX: Array, index_B: Array) -> Array:
    return jnp.take_along_axis(values_BX, index_B[:, None], axis=-1)[:, 0]
