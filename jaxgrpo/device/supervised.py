"""The supervised step: imitate reference completions, one jitted update."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from jaxgrpo.device.head import sharded_token_logprobs
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Params, Weights, bind, forward_prompts
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.lora import with_base
from jaxgrpo.device.optimizer import apply_gradients
from jaxgrpo.device.records import Prompts, TrainState


class Examples(NamedTuple):
    """Prompts with their completions in one right-padded row each."""

    token_ids_BS: Int[Array, "B S"]
    prompt_lengths_B: Int[Array, " B"]
    """Tokens of the prompt; these are read, not learned."""
    lengths_B: Int[Array, " B"]
    """Tokens of prompt and completion together; 0 for a row that only pads B."""


class SupervisedSettings(NamedTuple):
    """What fixes the program of the supervised step. Static under jit."""

    num_tokens: int
    """Length of the tokenizer."""
    forward: ForwardSettings = ForwardSettings()
    logprob_chunk: int = 128


@partial(
    jax.jit,
    static_argnames=("architecture", "optimizer", "settings"),
    donate_argnames=("state",),
)
def supervised_update(
    state: TrainState,
    examples: Examples,
    *,
    architecture: Architecture,
    optimizer: optax.GradientTransformation,
    settings: SupervisedSettings,
) -> tuple[TrainState, dict[str, Float[Array, ""]]]:
    """One update towards the completions' tokens.

        loss = -sum(logprob of completion tokens) / number of completion tokens

    A non-finite loss or gradient leaves the state as it was and is reported.

    Args:
      state: Donated.
      examples: Rows to imitate.
      architecture: Sizes of the model.
      optimizer: From `optimizer.py`.
      settings: What fixes the program.

    Returns:
      The new state and metrics: `loss` in nats per token, `grad_norm`,
      `update_skipped` (0 or 1), `num_tokens`.
    """

    def loss_fn(params: Params) -> tuple[Array, Array]:
        weights = with_base(params, state.base_params)
        return _loss(weights, examples, architecture, settings)

    (loss, num_tokens), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state, update_metrics = apply_gradients(state, loss, grads, optimizer)
    return state, {"loss": loss, "num_tokens": num_tokens} | update_metrics


def _loss(
    weights: Weights,
    examples: Examples,
    architecture: Architecture,
    settings: SupervisedSettings,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    model = bind(architecture, weights, jnp.dtype(settings.forward.dtype))
    prompts = Prompts(examples.token_ids_BS, jnp.maximum(examples.lengths_B, 1))
    hidden_BSD, _ = forward_prompts(model, prompts, settings.forward)
    targets_BT = examples.token_ids_BS[:, 1:]
    position_1T = jnp.arange(1, examples.token_ids_BS.shape[1])[None, :]
    is_learned_BT = (position_1T >= examples.prompt_lengths_B[:, None]) & (
        position_1T < examples.lengths_B[:, None]
    )
    logprobs_BT = sharded_token_logprobs(
        hidden_BSD[:, :-1],
        model.output_head_VD,
        targets_BT,
        num_tokens=settings.num_tokens,
        mask_BT=is_learned_BT,
        chunk=settings.logprob_chunk,
    ).logprobs_BT
    total = jnp.where(is_learned_BT, logprobs_BT, 0.0).sum()
    num_tokens = is_learned_BT.sum().astype(jnp.float32)
    return -total / jnp.maximum(num_tokens, 1.0), num_tokens
