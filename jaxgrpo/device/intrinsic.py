"""Rewards that the policy gives itself: how sure it is of what it wrote.

They need logits, so they are computed here, in one forward pass without a gradient
between sampling and update, and join the host's rewards by name.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.head import sharded_token_logprobs
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Decoder, Weights, bind, forward_completions
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.records import Prompts, Rollouts
from jaxgrpo.device.update_batch import in_parts


class IntrinsicSettings(NamedTuple):
    """What fixes the program. Hashable: a static argument of jit."""

    num_tokens: int
    """Length of the tokenizer."""
    num_parts: int = 1
    """Into how many parts the rows are cut, one after the other: those of an update's
    microbatches need no more memory than the update."""
    forward: ForwardSettings = ForwardSettings()
    logprob_chunk: int = 128
    is_prompt_major: bool = True
    """Promise that row b continues prompt b // (B / P): no gather."""


class IntrinsicRewards(NamedTuple):
    """One value a row; NaN for rows that only pad, and for empty completions."""

    self_certainty_B: Float[Array, " B"]
    entropy_B: Float[Array, " B"]
    """The mean entropy, negated: more is surer."""


class _Rows(NamedTuple):
    """What a part of the rows needs; every array leads with P or B."""

    prompts: Prompts
    completion_BT: Int[Array, "B T"]
    prompt_index_B: Int[Array, " B"]
    mask_BT: Bool[Array, "B T"]


@partial(jax.jit, static_argnames=("architecture", "settings"))
def intrinsic_rewards(
    weights: Weights,
    prompts: Prompts,
    rollouts: Rollouts,
    temperature: Float[Array, ""],
    *,
    architecture: Architecture,
    settings: IntrinsicSettings,
) -> IntrinsicRewards:
    """Returns self-certainty and negative entropy of each completion.

    With z the logits over the vocabulary divided by the temperature, p = softmax(z) and
    T the completion's tokens, its end token included,

        self-certainty = 1/T sum_t (logsumexp(z_t) - mean_v z_tv)
        entropy        = -1/T sum_t H(p_t)

    The first is KL(uniform || p) averaged over tokens, plus log V, which no comparison
    within a group sees.

    Args:
      weights: The policy's as it learns, also where an older one sampled.
      prompts: Distinct prompts.
      rollouts: Completions, ordered by prompt.
      temperature: The sampling temperature, by which both sources divide too.
      architecture: Sizes of the model.
      settings: What fixes the program.

    Returns:
      Rewards in nats per token, without a gradient.

    Reference:
      Self-certainty: Zhao et al., Learning to Reason without External Rewards, 2025,
      https://arxiv.org/abs/2505.19590 (Intuitor). Entropy: Prabhudesai et al.,
      Maximizing Confidence Alone Improves Reasoning, 2025,
      https://arxiv.org/abs/2505.22660 (RENT). Departures: under a token constraint or
      truncated sampling p is still the whole distribution, for a token that had to
      come says nothing about certainty; RENT's fixed reward for texts without an
      answer is left to the weights of other rewards.
    """
    mask_BT = completion_mask(rollouts.lengths_B, rollouts.completion_BT.shape[1])
    mask_BT &= rollouts.is_real_B[:, None]
    model = bind(architecture, weights, jnp.dtype(settings.forward.dtype))
    rows = _Rows(
        prompts=prompts,
        completion_BT=jnp.where(mask_BT, rollouts.completion_BT, 0),
        prompt_index_B=rollouts.prompt_index_B,
        mask_BT=mask_BT,
    )
    certainties_BT, entropies_BT = in_parts(
        partial(_of_tokens, model, temperature, settings),
        rows,
        settings.num_parts,
        settings.is_prompt_major,
    )
    return IntrinsicRewards(
        self_certainty_B=_mean_over_tokens(certainties_BT, mask_BT),
        entropy_B=-_mean_over_tokens(entropies_BT, mask_BT),
    )


def _of_tokens(
    model: Decoder,
    temperature: Float[Array, ""],
    settings: IntrinsicSettings,
    rows: _Rows,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    hidden_BTD = forward_completions(
        model,
        rows.prompts,
        rows.completion_BT,
        rows.prompt_index_B,
        settings.forward,
        is_prompt_major=settings.is_prompt_major,
    )
    tokens = sharded_token_logprobs(
        hidden_BTD,
        model.output_head_VD,
        rows.completion_BT,
        temperature,
        num_tokens=settings.num_tokens,
        mask_BT=rows.mask_BT,
        chunk=settings.logprob_chunk,
        with_self_certainty=True,
    )
    assert tokens.self_certainties_BT is not None
    return tokens.self_certainties_BT, tokens.entropies_BT


def _mean_over_tokens(
    values_BT: Float[Array, "B T"], mask_BT: Bool[Array, "B T"]
) -> Float[Array, " B"]:
    counts_B = mask_BT.sum(axis=1)
    sums_B = jnp.where(mask_BT, values_BT, 0.0).sum(axis=1)
    return jnp.where(counts_B > 0, sums_B / jnp.maximum(counts_B, 1), jnp.nan)
