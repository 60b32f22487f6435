"""Samples groups of completions in one program: prefill once, decode in a loop."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jaxgrpo.device.head import head_logits
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.cache import PrefixCache, SuffixCache, empty_suffix
from jaxgrpo.device.model.decoder import (
    Decoder,
    Params,
    bind,
    decode_token,
    forward_prompts,
    last_states,
)
from jaxgrpo.device.records import FINISH_EOS, FINISH_LENGTH, Prompts, Rollouts
from jaxgrpo.device.sampling.keys import sampled_tokens


class SamplerSettings(NamedTuple):
    """What fixes the sampler's program. Hashable: a static argument of jit."""

    group_size: int
    """G: completions per prompt."""
    max_new_tokens: int
    """T: token budget, the end-of-sequence token included."""
    eos_ids: tuple[int, ...]
    """Every id that ends a completion."""
    num_tokens: int
    """Length of the tokenizer; ids from here on are padding of V, never sampled."""
    dtype: str = "float32"
    """Arithmetic of the forward pass and of the cache."""
    is_greedy: bool = False
    """Exact argmax instead of a draw; log-probs are then those at temperature 1."""
    unroll_layers: bool = False


class _Decoding(NamedTuple):
    column: Int[Array, ""]
    token_B: Int[Array, " B"]
    is_done_B: Array
    completion_BT: Int[Array, "B T"]
    logprobs_BT: Float[Array, "B T"]
    suffix: SuffixCache


@partial(jax.jit, static_argnames=("architecture", "settings"))
def sample(
    params: Params,
    prompts: Prompts,
    row_key_B: Key[Array, " B"],
    temperature: Float[Array, ""],
    policy_step: Int[Array, ""],
    *,
    architecture: Architecture,
    settings: SamplerSettings,
) -> Rollouts:
    """G completions of each prompt.

    Each prompt is prefilled once; its keys and values are shared by its rows. The loop
    ends when every row has ended or the budget is spent.

    Args:
      params: Weights of the policy.
      prompts: Distinct prompts, P of them.
      row_key_B: Random key of each of the B = P * G rows, prompt-major.
      temperature: Softmax temperature, above 0; without effect on greedy decoding.
      policy_step: Updates the policy has seen; recorded.
      architecture: Sizes of the model.
      settings: What fixes the program.

    Returns:
      Rollouts in prompt-major order; each prompt is a group of its own.
    """
    P = prompts.lengths_P.shape[0]
    B, G, T = row_key_B.shape[0], settings.group_size, settings.max_new_tokens
    assert B == P * G, f"{B} row keys for {P} prompts * {G} samples"
    if settings.is_greedy:
        temperature = jnp.ones_like(temperature)
    dtype = jnp.dtype(settings.dtype)
    model = bind(architecture, params, dtype, is_gathered=True)
    hidden_PSD, prefix = forward_prompts(model, prompts, unroll=settings.unroll_layers)
    last_PD = last_states(hidden_PSD, prompts.lengths_P)
    hidden_BD = jnp.repeat(last_PD, G, axis=0, total_repeat_length=B)
    token_B, logprob_B = _choose(
        model, hidden_BD, row_key_B, jnp.int32(0), temperature, settings
    )
    start = _Decoding(
        column=jnp.int32(1),
        token_B=token_B,
        is_done_B=_is_eos(token_B, settings.eos_ids),
        completion_BT=jnp.zeros((B, T), jnp.int32).at[:, 0].set(token_B),
        logprobs_BT=jnp.zeros((B, T), jnp.float32).at[:, 0].set(logprob_B),
        suffix=empty_suffix(architecture, B, T, dtype),
    )
    end = jax.lax.while_loop(
        lambda d: (d.column < T) & ~jnp.all(d.is_done_B),
        partial(_decode_step, model, prefix, row_key_B, temperature, settings),
        start,
    )
    return _rollouts(end, row_key_B, policy_step, settings)


def _decode_step(
    model: Decoder,
    prefix: PrefixCache,
    row_key_B: Key[Array, " B"],
    temperature: Float[Array, ""],
    settings: SamplerSettings,
    d: _Decoding,
) -> _Decoding:
    """Feeds the last token of every row and draws the next one."""
    hidden_BD, suffix = decode_token(
        model, d.token_B, d.column - 1, prefix, d.suffix,
        unroll=settings.unroll_layers,
    )  # fmt: skip
    token_B, logprob_B = _choose(
        model, hidden_BD, row_key_B, d.column, temperature, settings
    )
    token_B = jnp.where(d.is_done_B, 0, token_B)
    logprob_B = jnp.where(d.is_done_B, 0.0, logprob_B)
    at = (0, d.column)
    return _Decoding(
        column=d.column + 1,
        token_B=token_B,
        is_done_B=d.is_done_B | _is_eos(token_B, settings.eos_ids),
        completion_BT=jax.lax.dynamic_update_slice(
            d.completion_BT, token_B[:, None], at
        ),
        logprobs_BT=jax.lax.dynamic_update_slice(d.logprobs_BT, logprob_B[:, None], at),
        suffix=suffix,
    )


def _choose(
    model: Decoder,
    hidden_BD: Float[Array, "B D"],
    row_key_B: Key[Array, " B"],
    position: Int[Array, ""],
    temperature: Float[Array, ""],
    settings: SamplerSettings,
) -> tuple[Int[Array, " B"], Float[Array, " B"]]:
    """The next token of each row and its log-prob, both from fp32 logits."""
    logits_BV = head_logits(
        hidden_BD, model.output_head_VD, temperature, settings.num_tokens
    )
    if settings.is_greedy:
        token_B = jnp.argmax(logits_BV, axis=-1).astype(jnp.int32)
    else:
        token_B = sampled_tokens(row_key_B, position, logits_BV).astype(jnp.int32)
    chosen_B = jnp.take_along_axis(logits_BV, token_B[:, None], axis=-1)[:, 0]
    return token_B, chosen_B - jax.nn.logsumexp(logits_BV, axis=-1)


def _is_eos(tokens: Int[Array, "*any"], eos_ids: tuple[int, ...]) -> Array:
    return jnp.isin(tokens, jnp.array(eos_ids, jnp.int32))


def _rollouts(
    end: _Decoding,
    row_key_B: Key[Array, " B"],
    policy_step: Int[Array, ""],
    settings: SamplerSettings,
) -> Rollouts:
    B, T = end.completion_BT.shape
    is_eos_BT = _is_eos(end.completion_BT, settings.eos_ids)
    # Columns never reached hold 0; a row that ended has its first EOS before them.
    is_written_T = jnp.arange(T) < end.column
    is_eos_BT &= is_written_T[None, :]
    has_eos_B = jnp.any(is_eos_BT, axis=-1)
    lengths_B = jnp.where(has_eos_B, jnp.argmax(is_eos_BT, axis=-1) + 1, T)
    prompt_index_B = jnp.arange(B, dtype=jnp.int32) // settings.group_size
    return Rollouts(
        completion_BT=end.completion_BT,
        lengths_B=lengths_B.astype(jnp.int32),
        sampler_logprobs_BT=end.logprobs_BT,
        finish_reason_B=jnp.where(has_eos_B, FINISH_EOS, FINISH_LENGTH).astype(
            jnp.int32
        ),
        prompt_index_B=prompt_index_B,
        group_id_B=prompt_index_B,
        row_key_B=row_key_B,
        policy_step_B=jnp.broadcast_to(policy_step, (B,)).astype(jnp.int32),
        constraint_id_B=jnp.zeros((B,), jnp.int32),
        is_real_B=jnp.ones((B,), bool),
    )
