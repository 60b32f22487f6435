"""The policy against itself, shown a completion of the same problem: SC-GRPO.

Two forward passes over the rollouts, between sampling and update, in parts.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.divergence import sharded_token_divergences
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Decoder, Weights, bind, forward_completions
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.objective.experimental import (
    divergence_scale,
    exploration_advantages,
    self_conditioned_weights,
)
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.records import Prompts, Rollouts
from jaxgrpo.device.update_batch import in_parts


class SelfConditioningSettings(NamedTuple):
    """What fixes the program. Hashable: a static argument of jit."""

    num_tokens: int
    """Length of the tokenizer."""
    scale_floor: float = 1e-6
    """Of `divergence_scale`."""
    exploration: float = 1.0
    """Factor of the advantages in all-wrong groups."""
    num_parts: int = 1
    """Into how many parts the rows are cut, one after the other."""
    forward: ForwardSettings = ForwardSettings()
    logprob_chunk: int = 128
    is_prompt_major: bool = True
    """Promise that row b continues prompt b // (B / P): no gather."""


class Teachers(NamedTuple):
    """What the teacher of each row reads, and what its divergence is for."""

    token_ids_BS: Int[Array, "B S"]
    """The row's problem with another completion of its group in the prompt."""
    lengths_B: Int[Array, " B"]
    """At least 1."""
    is_mixed_B: Bool[Array, " B"]
    """Rows whose tokens are weighed: of groups with two right completions or more, and
    a wrong one."""
    is_explored_B: Bool[Array, " B"]
    """Rows that are told apart by it: of all-wrong groups, without the failure that
    the others are shown."""


class SelfConditioned(NamedTuple):
    """What the divergences come to."""

    divergences_BT: Float[Array, "B T"]
    """KL(teacher || student), nats; 0 for rows without a teacher."""
    scale: Float[Array, ""]
    """c of the weights D / (D + c)."""
    credit_BT: Float[Array, "B T"]
    """Weights of the tokens; 0 outside completions."""
    added_advantages_B: Float[Array, " B"]
    """Of rows that are explored; 0 elsewhere."""


class _Rows(NamedTuple):
    """What a part of the rows needs; every array leads with P or B."""

    prompts: Prompts
    completion_BT: Int[Array, "B T"]
    prompt_index_B: Int[Array, " B"]
    mask_BT: Bool[Array, "B T"]
    """True at tokens of rows that have a teacher."""
    teacher_ids_BS: Int[Array, "B S"]
    teacher_lengths_B: Int[Array, " B"]


@partial(jax.jit, static_argnames=("architecture", "settings"))
def self_conditioned(
    weights: Weights,
    prompts: Prompts,
    rollouts: Rollouts,
    teachers: Teachers,
    temperature: Float[Array, ""],
    *,
    architecture: Architecture,
    settings: SelfConditioningSettings,
) -> SelfConditioned:
    """Returns how far each token's distribution is from that of a policy that knows.

        D_t = KL(policy, shown another completion || policy)    at each token
        weights of mixed groups, advantages of all-wrong ones: `objective.experimental`

    The teacher is the same weights without a gradient. Every row has a prompt of its
    own there, which runs with the rows of its part.

    Args:
      weights: The policy's as it learns.
      prompts: Distinct prompts, of the student.
      rollouts: Completions, ordered by prompt.
      teachers: Of the same rows.
      temperature: The sampling temperature, of both.
      architecture: Sizes of the model.
      settings: What fixes the program.

    Returns:
      Weights and advantages, without a gradient.

    Reference:
      SC-GRPO, 2026, https://arxiv.org/abs/2606.18810. It leaves open, as far as we know
      it: which of the right completions is shown (here the first, and to itself the
      second), how the failed one is picked (here the first), how diversity becomes an
      advantage, and the words of the prompt. Differs from it: the scale c is of all
      rows of the step and not of a microbatch, so that it does not depend on how rows
      are cut; under a token constraint or truncated sampling distributions are whole.
    """
    s = settings
    mask_BT = completion_mask(rollouts.lengths_B, rollouts.completion_BT.shape[1])
    mask_BT &= rollouts.is_real_B[:, None]
    has_teacher_B = teachers.is_mixed_B | teachers.is_explored_B
    rows = _Rows(
        prompts=prompts,
        completion_BT=jnp.where(mask_BT, rollouts.completion_BT, 0),
        prompt_index_B=rollouts.prompt_index_B,
        mask_BT=mask_BT & has_teacher_B[:, None],
        teacher_ids_BS=teachers.token_ids_BS,
        teacher_lengths_B=teachers.lengths_B,
    )
    model = bind(architecture, weights, jnp.dtype(s.forward.dtype))
    values_BT = in_parts(
        partial(_divergences, model, temperature, s),
        rows,
        s.num_parts,
        s.is_prompt_major,
    )
    divergences_BT = jnp.maximum(values_BT, 0.0)
    is_weighed_BT = mask_BT & teachers.is_mixed_B[:, None]
    scale = divergence_scale(divergences_BT, is_weighed_BT, s.scale_floor)
    advantages_B = exploration_advantages(
        divergences_BT, mask_BT, rollouts.group_id_B, teachers.is_explored_B
    )
    return SelfConditioned(
        divergences_BT=divergences_BT,
        scale=scale,
        credit_BT=self_conditioned_weights(
            divergences_BT, mask_BT, scale, teachers.is_mixed_B
        ),
        added_advantages_B=s.exploration * advantages_B,
    )


def _divergences(
    model: Decoder,
    temperature: Float[Array, ""],
    settings: SelfConditioningSettings,
    rows: _Rows,
) -> Float[Array, "B T"]:
    student_BTD = forward_completions(
        model,
        rows.prompts,
        rows.completion_BT,
        rows.prompt_index_B,
        settings.forward,
        is_prompt_major=settings.is_prompt_major,
    )
    num_rows = rows.completion_BT.shape[0]
    teacher_BTD = forward_completions(
        model,
        Prompts(rows.teacher_ids_BS, rows.teacher_lengths_B),
        rows.completion_BT,
        jnp.arange(num_rows),
        settings.forward,
        is_prompt_major=True,
    )
    return sharded_token_divergences(
        teacher_BTD,
        student_BTD,
        model.output_head_VD,
        temperature,
        mask_BT=rows.mask_BT,
        num_tokens=settings.num_tokens,
        chunk=settings.logprob_chunk,
    )
