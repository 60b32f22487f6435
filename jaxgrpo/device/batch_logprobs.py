"""Log-probs and entropies of a batch's completions, as they were sampled."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxgrpo.device.head import (
    KeptTokens,
    TokenConstraint,
    sharded_token_logprobs,
)
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Weights, bind, forward_completions
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.sampling.constraint import ConstraintTables
from jaxgrpo.device.update_batch import Batch, in_parts


class LogprobSettings(NamedTuple):
    """What fixes the forward pass. Hashable: a static argument of jit."""

    num_tokens: int
    """Length of the tokenizer."""
    chunk: int = 128
    """Tokens whose logits exist at a time."""
    is_prompt_major: bool = True
    """Promise that row b continues prompt b // (B / P): no gather."""
    forward: ForwardSettings = ForwardSettings()


class Conditions(NamedTuple):
    """What all tokens were sampled under."""

    temperature: Float[Array, ""]
    constraints: ConstraintTables | None


def batch_logprobs(
    weights: Weights,
    *,
    batch: Batch,
    architecture: Architecture,
    conditions: Conditions,
    settings: LogprobSettings,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """Returns log-probs and entropies of the completions under these weights.

    Under constraints and truncation they are of the policy that sampled: renormalised
    over the tokens that could be drawn. So are the reference's: of the same support.

    Args:
      weights: Of the policy or of another.
      batch: The rows.
      architecture: Sizes of the model.
      conditions: What they were sampled under.
      settings: What fixes the program.

    Returns:
      Nats; 0 outside completions.
    """
    constraint = None
    if conditions.constraints is not None:
        assert batch.registers is not None
        constraint = TokenConstraint(conditions.constraints, batch.registers)
    model = bind(architecture, weights, jnp.dtype(settings.forward.dtype))
    hidden_BTD = forward_completions(
        model,
        batch.prompts,
        batch.completion_BT,
        batch.prompt_index_B,
        settings.forward,
        is_prompt_major=settings.is_prompt_major,
    )
    tokens = sharded_token_logprobs(
        hidden_BTD,
        model.output_head_VD,
        batch.completion_BT,
        conditions.temperature,
        num_tokens=settings.num_tokens,
        constraint=constraint,
        kept=None if batch.kept_BTk is None else KeptTokens(batch.kept_BTk),
        mask_BT=batch.mask_BT,
        chunk=settings.chunk,
    )
    return tokens.logprobs_BT, tokens.entropies_BT


def logprobs_in_parts(
    weights: Weights,
    *,
    batch: Batch,
    architecture: Architecture,
    conditions: Conditions,
    settings: LogprobSettings,
    num_parts: int,
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """Returns the same, one part of the rows after the other, without a gradient.

    Args:
      weights: As for `batch_logprobs`.
      batch: Likewise.
      architecture: Likewise.
      conditions: Likewise.
      settings: Likewise.
      num_parts: All of one size.

    Returns:
      In the order of the batch.
    """

    def of_part(part: Batch) -> tuple[Array, Array]:
        return batch_logprobs(
            weights, batch=part, architecture=architecture,
            conditions=conditions, settings=settings,
        )  # fmt: skip

    return in_parts(of_part, batch, num_parts, settings.is_prompt_major)
