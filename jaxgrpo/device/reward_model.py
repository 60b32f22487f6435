"""The learned reward model: a decoder whose last state gives one number.

    s = w . h_last

with h the final-normed states of a conversation (the problem asked, code alone as the
answer) and `last` the place of its last token. Nothing else is read.

Reference:
  CodeScaler, 2026, https://arxiv.org/abs/2602.17684; the layout is that of
  `Qwen3ForSequenceClassification` in transformers, with one label.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Params, bind, forward_prompts, last_states
from jaxgrpo.device.model.forward_settings import PLAIN_FORWARD, ForwardSettings
from jaxgrpo.device.objective.preferences import bradley_terry_loss
from jaxgrpo.device.optimizer import apply_gradients
from jaxgrpo.device.records import Prompts, TrainState

BACKBONE = "backbone"
SCORE = "score_1D"


class Pairs(NamedTuple):
    """Two conversations on one problem a row: first the preferred, then the other."""

    token_ids_B2S: Int[Array, "B 2 S"]
    """Right-padded."""
    lengths_B2: Int[Array, "B 2"]
    """Tokens of each; 0 for a row that only pads B."""


def backbone_of(architecture: Architecture) -> Architecture:
    """The architecture without an output head: a reward model predicts no token."""
    return architecture._replace(is_tied=True)


def reward_params(params: Params) -> Params:
    """A reward model on a policy's weights, which scores everything 0 at first.

    Args:
      params: Of a decoder; its output head, if it has one of its own, is left out.

    Returns:
      A tree {"backbone": decoder, "score_1D": zeros}.
    """
    backbone = {name: leaf for name, leaf in params.items() if name != "head_VD"}
    width = params["embedding_VD"].shape[1]
    return {BACKBONE: backbone, SCORE: jnp.zeros((1, width), jnp.float32)}


@partial(jax.jit, static_argnames=("architecture", "forward"))
def reward_scores(
    params: Any,
    rows: Prompts,
    *,
    architecture: Architecture,
    forward: ForwardSettings = PLAIN_FORWARD,
) -> Float[Array, " P"]:
    """Returns the score of each conversation, float32 and unbounded.

    Args:
      params: As from `reward_params`.
      rows: Conversations, right-padded.
      architecture: Of the backbone, without a head.
      forward: What fixes the program.
    """
    model = bind(architecture, params[BACKBONE], jnp.dtype(forward.dtype))
    hidden_PSD, _ = forward_prompts(model, rows, forward)
    last_PD = last_states(hidden_PSD, rows.lengths_P).astype(jnp.float32)
    # A sum of products and no matrix product: full float32 on every backend.
    return (last_PD * params[SCORE].astype(jnp.float32)).sum(axis=1)


@partial(
    jax.jit,
    static_argnames=("architecture", "optimizer", "forward"),
    donate_argnames=("state",),
)
def preference_update(
    state: TrainState,
    pairs: Pairs,
    *,
    architecture: Architecture,
    optimizer: optax.GradientTransformation,
    forward: ForwardSettings = PLAIN_FORWARD,
) -> tuple[TrainState, dict[str, Float[Array, ""]]]:
    """One update towards scoring the preferred above the other.

        loss = mean_b -ln sigmoid(s_b - s'_b)

    A non-finite loss or gradient leaves the state as it was and is reported.

    Args:
      state: Donated; its parameters are those of `reward_params`.
      pairs: Preferred and other, on the same problem.
      architecture: Of the backbone, without a head.
      optimizer: From `optimizer.py`.
      forward: What fixes the program.

    Returns:
      The new state and metrics: `loss` in nats, `accuracy` (share of the pairs in the
      right order), `margin` (mean difference of scores), `grad_norm`,
      `update_skipped` (0 or 1).
    """

    def loss_fn(params: Any) -> tuple[Array, dict[str, Array]]:
        scores_B2 = pair_scores(params, pairs, architecture, forward)
        is_real_B = pairs.lengths_B2[:, 0] > 0
        loss = bradley_terry_loss(scores_B2[:, 0], scores_B2[:, 1], is_real_B)
        return loss, _order(scores_B2, is_real_B)

    (loss, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    state, update_metrics = apply_gradients(state, loss, grads, optimizer)
    return state, {"loss": loss} | metrics | update_metrics


def pair_scores(
    params: Any, pairs: Pairs, architecture: Architecture, forward: ForwardSettings
) -> Float[Array, "B 2"]:
    """Scores of both conversations of each pair; meaningless for rows that only pad."""
    B, _, S = pairs.token_ids_B2S.shape
    lengths_P = jnp.maximum(pairs.lengths_B2.reshape(2 * B), 1)
    rows = Prompts(pairs.token_ids_B2S.reshape(2 * B, S), lengths_P)
    scores_P = reward_scores(params, rows, architecture=architecture, forward=forward)
    return scores_P.reshape(B, 2)


def _order(scores_B2: Array, is_real_B: Array) -> dict[str, Array]:
    gaps_B = jnp.where(is_real_B, scores_B2[:, 0] - scores_B2[:, 1], 0.0)
    count = jnp.maximum(is_real_B.sum(), 1)
    return {"accuracy": (gaps_B > 0).sum() / count, "margin": gaps_B.sum() / count}
