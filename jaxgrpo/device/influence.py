"""How much each token of a completion matters for its answer: OAR's importance.

One or many forward passes over the rollouts, between sampling and update, in parts.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgrpo.device.divergence import sharded_token_divergences
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Decoder, Weights, bind, forward_completions
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.objective.credit import importance_credit
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.records import Prompts, Rollouts
from jaxgrpo.device.update_batch import in_parts

_NOISE = 0x0A12
"""Folded into a row's key: the noise is none of the draws of sampling."""


class InfluenceSettings(NamedTuple):
    """What fixes the program. Hashable: a static argument of jit."""

    num_tokens: int
    """Length of the tokenizer."""
    form: str = "gradient"
    """One of FORMS."""
    threshold: float = 0.25
    """Of `importance_credit`."""
    boost: float = 1.0
    """Likewise."""
    within_answer: bool = False
    """Weigh the tokens of the answer too, by their influence on the rest of it."""
    noise: float = 1e-3
    """Standard deviation of the noise on embeddings (`gradient`)."""
    mask_id: int = 0
    """Token that takes a token's place (`perturbation`)."""
    at_once: int = 8
    """Tokens masked at a time, each in a copy of its row (`perturbation`)."""
    num_parts: int = 1
    """Into how many parts the rows are cut, one after the other."""
    forward: ForwardSettings = ForwardSettings()
    logprob_chunk: int = 128
    is_prompt_major: bool = True
    """Promise that row b continues prompt b // (B / P): no gather."""


class Influence(NamedTuple):
    """What is found of each token."""

    importances_BT: Float[Array, "B T"]
    """At least 0; 0 where a token is not weighed or cannot influence the answer."""
    is_weighed_BT: Bool[Array, "B T"]
    """Tokens that share advantage among them by importance; the others of a
    completion carry a weight of 1."""
    credit_BT: Float[Array, "B T"]
    """Its mean over a row's tokens is 1; 0 outside completions."""


class _Rows(NamedTuple):
    """What a part of the rows needs; every array leads with P or B."""

    prompts: Prompts
    completion_BT: Int[Array, "B T"]
    prompt_index_B: Int[Array, " B"]
    mask_BT: Bool[Array, "B T"]
    is_answer_BT: Bool[Array, "B T"]
    is_weighed_BT: Bool[Array, "B T"]
    row_key_B: Key[Array, " B"]


@partial(jax.jit, static_argnames=("architecture", "settings"))
def token_influence(
    weights: Weights,
    prompts: Prompts,
    rollouts: Rollouts,
    answers_B2: Int[Array, "B 2"],
    temperature: Float[Array, ""],
    *,
    architecture: Architecture,
    settings: InfluenceSettings,
) -> Influence:
    """Returns each token's importance for the answer, and the credit it makes.

    With P_answer the next-token distributions at the answer's positions, the answer
    itself given as it was written,

        perturbation   I_t = sum_answer KL(P || P with token t masked)
        gradient       I_t = | grad_{e_t} sum_answer KL(P || P with e + noise) |

    where e are the embeddings of the completion's tokens, and the gradient is taken at
    the noisy ones, for at the clean ones it is 0. `importance_credit` turns it into
    weights among the tokens before the answer. The tokens of the answer and those after
    it carry a weight of 1; with `within_answer` the answer's are weighed too, by their
    influence on the answer's later tokens. A row without a token to weigh has uniform
    credit.

    Args:
      weights: The policy's as it learns.
      prompts: Distinct prompts.
      rollouts: Completions, ordered by prompt.
      answers_B2: First token of each row's answer and the one after the last; equal
        for none.
      temperature: The sampling temperature.
      architecture: Sizes of the model.
      settings: What fixes the program.

    Returns:
      Importances and credit, without a gradient.

    Reference:
      OAR, 2026, https://arxiv.org/abs/2601.07408. Its code was not at hand. It leaves
      open, as far as we know it: which token masks, at which point the gradient is
      taken, what the answer's own tokens carry, and how an answer of several tokens is
      summed. Departures: under a token constraint or truncated sampling distributions
      are whole; in bfloat16 rounding is a noise of its own, larger than 1e-3.
    """
    s = settings
    mask_BT = completion_mask(rollouts.lengths_B, rollouts.completion_BT.shape[1])
    mask_BT &= rollouts.is_real_B[:, None]
    positions_1T = jnp.arange(mask_BT.shape[1])[None, :]
    starts_B1, ends_B1 = answers_B2[:, :1], answers_B2[:, 1:]
    limits_B1 = ends_B1 if s.within_answer else starts_B1
    has_answer_B1 = ends_B1 > starts_B1
    rows = _Rows(
        prompts=prompts,
        completion_BT=jnp.where(mask_BT, rollouts.completion_BT, 0),
        prompt_index_B=rollouts.prompt_index_B,
        mask_BT=mask_BT,
        is_answer_BT=mask_BT & (positions_1T >= starts_B1) & (positions_1T < ends_B1),
        is_weighed_BT=mask_BT & has_answer_B1 & (positions_1T < limits_B1),
        row_key_B=jax.vmap(jax.random.fold_in, (0, None))(rollouts.row_key_B, _NOISE),
    )
    model = bind(architecture, weights, jnp.dtype(s.forward.dtype))
    values_BT = in_parts(
        partial(FORMS[s.form], model, temperature, s),
        rows,
        s.num_parts,
        s.is_prompt_major,
    )
    importances_BT = jnp.where(rows.is_weighed_BT, jnp.maximum(values_BT, 0.0), 0.0)
    weighed_BT = importance_credit(
        importances_BT, rows.is_weighed_BT, threshold=s.threshold, boost=s.boost
    )
    plain_BT = mask_BT.astype(jnp.float32)
    credit_BT = jnp.where(rows.is_weighed_BT, weighed_BT, plain_BT)
    return Influence(importances_BT, rows.is_weighed_BT, credit_BT)


def _perturbed(
    model: Decoder,
    temperature: Float[Array, ""],
    settings: InfluenceSettings,
    rows: _Rows,
) -> Float[Array, "B T"]:
    """OAR-P: a forward pass a token, `at_once` of them side by side.

    A masked token changes nothing before it, so only answer tokens after it are
    compared. Positions that no row weighs are left out at run time.
    """
    num_rows, num_positions = rows.mask_BT.shape
    size = min(settings.at_once, num_positions)
    num_groups = -(-num_positions // size)
    columns_T = jnp.arange(num_positions)
    clean_BTD = _hidden(model, settings, rows)
    repeated = rows._replace(
        prompt_index_B=jnp.repeat(rows.prompt_index_B, size),
        is_answer_BT=jnp.repeat(rows.is_answer_BT, size, axis=0),
    )
    padding = ((0, 0), (0, num_groups * size - num_positions))
    is_weighed_nBK = jnp.moveaxis(
        jnp.pad(rows.is_weighed_BT, padding).reshape(num_rows, num_groups, size), 1, 0
    )

    def compared(first: Array) -> Array:
        masked_K = first + jnp.arange(size)
        is_masked_1KT = (columns_T[None, :] == masked_K[:, None])[None]
        tokens_BKT = jnp.where(
            is_masked_1KT, settings.mask_id, rows.completion_BT[:, None, :]
        )
        copies = repeated._replace(completion_BT=tokens_BKT.reshape(-1, num_positions))
        is_later_KT = columns_T[None, :] > masked_K[:, None]
        divergences = sharded_token_divergences(
            jnp.repeat(clean_BTD, size, axis=0),
            _hidden(model, settings, copies),
            model.output_head_VD,
            temperature,
            mask_BT=repeated.is_answer_BT & jnp.tile(is_later_KT, (num_rows, 1)),
            num_tokens=settings.num_tokens,
            chunk=settings.logprob_chunk,
        )
        return divergences.sum(axis=1).reshape(num_rows, size)

    def of_group(inputs: tuple[Array, Array]) -> Array:
        first, is_weighed_BK = inputs
        nothing_BK = jnp.where(is_weighed_BK, 0.0, 0.0)
        return jax.lax.cond(is_weighed_BK.any(), compared, lambda _: nothing_BK, first)

    firsts_n = jnp.arange(num_groups) * size
    values_nBK = jax.lax.map(of_group, (firsts_n, is_weighed_nBK))
    return jnp.moveaxis(values_nBK, 0, 1).reshape(num_rows, -1)[:, :num_positions]


def _slopes(
    model: Decoder,
    temperature: Float[Array, ""],
    settings: InfluenceSettings,
    rows: _Rows,
) -> Float[Array, "B T"]:
    """OAR-G: two forward passes and one backward, up to the embeddings."""
    clean_BTD = _hidden(model, settings, rows)
    shape = clean_BTD.shape[1:]
    noise_BTD = settings.noise * jax.vmap(
        lambda key: jax.random.normal(key, shape, jnp.float32)
    )(rows.row_key_B)

    def divergence(shift_BTD: Array) -> Array:
        divergences_BT = sharded_token_divergences(
            clean_BTD,
            _hidden(model, settings, rows, shift_BTD),
            model.output_head_VD,
            temperature,
            mask_BT=rows.is_answer_BT,
            num_tokens=settings.num_tokens,
            chunk=settings.logprob_chunk,
        )
        return divergences_BT.sum()  # no row sees another: each has its own gradient

    slopes_BTD = jax.grad(divergence)(noise_BTD)
    return jnp.sqrt(jnp.square(slopes_BTD).sum(axis=-1))


def _hidden(
    model: Decoder,
    settings: InfluenceSettings,
    rows: _Rows,
    shift_BTD: Float[Array, "B T D"] | None = None,
) -> Float[Array, "B T D"]:
    return forward_completions(
        model,
        rows.prompts,
        rows.completion_BT,
        rows.prompt_index_B,
        settings.forward,
        is_prompt_major=settings.is_prompt_major,
        embedding_shift_BTD=shift_BTD,
    )


Form = Callable[[Decoder, Array, InfluenceSettings, _Rows], Array]

FORMS: dict[str, Form] = {"perturbation": _perturbed, "gradient": _slopes}
"""How importance is measured, by the name that the configuration gives it."""
