"""The supervised step: imitate reference completions, one jitted update."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from jaxgrpo.device.head import token_logprobs
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Params, bind, forward_prompts
from jaxgrpo.device.placement import kept_in_place
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
    dtype: str = "float32"
    unroll_layers: bool = False
    remat: bool = False
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
        return _loss(params, examples, architecture, settings)

    (loss, num_tokens), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state, update_metrics = apply_gradients(state, loss, grads, optimizer)
    return state, {"loss": loss, "num_tokens": num_tokens} | update_metrics


def apply_gradients(
    state: TrainState,
    loss: Float[Array, ""],
    grads: Any,
    optimizer: optax.GradientTransformation,
) -> tuple[TrainState, dict[str, Float[Array, ""]]]:
    """The state after an update, or the same state if anything is not finite.

    Args:
      state: Before the update.
      loss: Its value decides together with the gradient's norm.
      grads: Tree like the parameters.
      optimizer: What turns gradients into updates.

    Returns:
      The new state (`step` counts attempts) and `grad_norm`, `update_skipped`.
    """
    grad_norm = optax.tree.norm(grads)
    is_finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)

    def keep_if_finite(new: Array, old: Array) -> Array:
        return jnp.where(is_finite, new, old)

    new_state = TrainState(
        step=state.step + 1,
        params=kept_in_place(jax.tree.map(keep_if_finite, params, state.params)),
        opt_state=kept_in_place(
            jax.tree.map(keep_if_finite, opt_state, state.opt_state)
        ),
        ref_params=state.ref_params,
    )
    skipped = (~is_finite).astype(jnp.float32)
    return new_state, {"grad_norm": grad_norm, "update_skipped": skipped}


def _loss(
    params: Params,
    examples: Examples,
    architecture: Architecture,
    settings: SupervisedSettings,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    model = bind(architecture, params, jnp.dtype(settings.dtype))
    prompts = Prompts(examples.token_ids_BS, jnp.maximum(examples.lengths_B, 1))
    hidden_BSD, _ = forward_prompts(
        model, prompts, unroll=settings.unroll_layers, remat=settings.remat
    )
    targets_BT = examples.token_ids_BS[:, 1:]
    position_1T = jnp.arange(1, examples.token_ids_BS.shape[1])[None, :]
    is_learned_BT = (position_1T >= examples.prompt_lengths_B[:, None]) & (
        position_1T < examples.lengths_B[:, None]
    )
    logprobs_BT = token_logprobs(
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
