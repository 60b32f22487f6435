"""The fused step: from rewards and rollouts to a new state, in one jitted program.

    rewards -> advantages of the whole batch
            -> log-probs of the reference, where a divergence is asked for
            -> old log-probs, where more than one update is made
            -> for each pass, for each minibatch:
                   gradient, summed over microbatches with the minibatch's denominator
                   one optimiser update

How rows and prompts are cut into those parts stands in `update_batch.py`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxgrpo.device.batch_logprobs import (
    Conditions,
    LogprobSettings,
    batch_logprobs,
    logprobs_in_parts,
)
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.lora import (
    FrozenBase,
    policy_weights,
    reference_weights,
    with_base,
)
from jaxgrpo.device.objective.loss import grpo_loss, loss_denominator
from jaxgrpo.device.objective.masks import entropy_quantile
from jaxgrpo.device.objective.metrics import Mean, finish_metrics, fraction
from jaxgrpo.device.objective.presets import Objective
from jaxgrpo.device.optimizer import apply_gradients
from jaxgrpo.device.placement import kept_in_place
from jaxgrpo.device.records import Prompts, Rollouts, Scored, TrainState
from jaxgrpo.device.sampling.constraint import ConstraintTables, replayed_states
from jaxgrpo.device.token_advantages import (
    AdvantageSettings,
    TokenAdvantages,
    token_advantages,
)
from jaxgrpo.device.update_batch import Batch, joined_values, split_batch
from jaxgrpo.device.update_metrics import (
    over_updates,
    ratio_extremes,
    rows_of_a_kind,
    sampler_extremes,
)


class UpdateSettings(NamedTuple):
    """What fixes the update's program. Hashable: a static argument of jit."""

    objective: Objective
    num_tokens: int
    """Length of the tokenizer."""
    scale: str = "group"
    baseline: str = "mean"
    combine: str = "sum_then_normalize"
    ddof: int = 1
    epsilon: float = 1e-4
    updates_per_rollout: int = 1
    minibatches: int = 1
    microbatches: int = 1
    masks_dead_groups: bool = False
    """Leave groups of equal rewards out of loss and denominator: without it they
    still feel a divergence, and dilute a mean over tokens."""
    ref_sync_steps: int = 0
    """Updates between moves of the reference towards the policy; 0 keeps it."""
    ref_mixup: float = 1.0
    """Share of the policy in the reference after a move; 1 copies it."""
    logprob_chunk: int = 128
    has_stored_rows: bool = False
    """Rows of earlier policies may be among the others: their ratio is to the policy
    that sampled them."""
    is_prompt_major: bool = True
    """Promise that row b continues prompt b // (B / P): no gather."""
    forward: ForwardSettings = ForwardSettings()
    quality_cap: float = 2.0
    """Of `redistributed_advantages`."""
    intra_coef: float = 0.3
    """Of `bilevel_advantages`."""
    trace_share: float = 0.2
    """Share of tokens, those of highest entropy, that ratio level `trace` traces."""

    @property
    def advantages(self) -> AdvantageSettings:
        """The settings of the advantages alone."""
        return AdvantageSettings(
            scale=self.scale,
            baseline=self.baseline,
            combine=self.combine,
            ddof=self.ddof,
            epsilon=self.epsilon,
            masks_dead_groups=self.masks_dead_groups,
            quality_cap=self.quality_cap,
            intra_coef=self.intra_coef,
        )

    @property
    def logprobs(self) -> LogprobSettings:
        """The settings of the forward pass alone."""
        return LogprobSettings(
            num_tokens=self.num_tokens,
            chunk=self.logprob_chunk,
            is_prompt_major=self.is_prompt_major,
            forward=self.forward,
        )


class UpdateOutputs(NamedTuple):
    """What the update says of each row, for the rollout table."""

    advantages_B: Float[Array, " B"]
    logprobs_BT: Float[Array, "B T"]
    """Of the trainer, before the first update; 0 outside completions."""
    entropies_BT: Float[Array, "B T"]
    """Likewise."""
    credit_BT: Float[Array, "B T"] | None = None
    """Each token's share of the advantage; None where all have the same."""
    token_advantages_BT: Float[Array, "B T"] | None = None
    """Advantage of each token, where steps have advantages of their own."""


@partial(
    jax.jit,
    static_argnames=("architecture", "optimizer", "settings"),
    donate_argnames=("state",),
)
def update(
    state: TrainState,
    prompts: Prompts,
    rollouts: Rollouts,
    scored: Scored,
    temperature: Float[Array, ""],
    constraints: ConstraintTables | None = None,
    weights_R: Float[Array, " R"] | None = None,
    *,
    architecture: Architecture,
    optimizer: optax.GradientTransformation,
    settings: UpdateSettings,
) -> tuple[TrainState, dict[str, Float[Array, ""]], UpdateOutputs]:
    """The state after learning from one batch of scored rollouts.

    Rows that only pad, and rows that abstain, take no part: not in the loss and not in
    its denominator. With one update per rollout the policy that sampled is the policy
    that learns, so the old log-probs are its own and no extra forward pass is made.

    Args:
      state: Donated.
      prompts: Distinct prompts.
      rollouts: Completions, ordered by prompt.
      scored: Rewards and credit of the same rows.
      temperature: The sampling temperature.
      constraints: Tables of the constraints that rows were sampled under; None
        without any.
      weights_R: Factor of each reward, 1 by default. They may change from update to
        update.
      architecture: Sizes of the model.
      optimizer: From `optimizer.py`.
      settings: What fixes the program.

    Returns:
      The new state; metrics, means over the updates made (`update_skipped` and
      `update_empty` count those that were not); and values per row.
    """
    s = settings
    if weights_R is None:
        weights_R = jnp.ones(scored.rewards_BR.shape[1], jnp.float32)
    found = token_advantages(rollouts, scored, weights_R, settings.advantages)
    batch = _batch(prompts, rollouts, found, constraints)
    if s.has_stored_rows:
        batch = batch._replace(is_stored_B=rollouts.policy_step_B != state.step)
    conditions = Conditions(temperature, constraints)
    evaluate = partial(
        logprobs_in_parts, batch=batch, architecture=architecture,
        conditions=conditions, settings=settings.logprobs,
        num_parts=s.minibatches * s.microbatches,
    )  # fmt: skip
    if s.objective.kl_coef:
        ref_logprobs_BT, _ = evaluate(reference_weights(state))
        batch = batch._replace(ref_logprobs_BT=ref_logprobs_BT)
    num_updates = s.updates_per_rollout * s.minibatches
    before = None
    is_traced = s.objective.ratio_level == "trace"
    if num_updates > 1 or is_traced:
        before = evaluate(policy_weights(state))
    if num_updates > 1:
        assert before is not None
        batch = batch._replace(old_logprobs_BT=_old_logprobs(before[0], batch))
    of_traces: dict[str, Array] = {}
    if is_traced:
        assert before is not None
        batch, of_traces = _traced(batch, before[1], s.trace_share)
    step = partial(
        _minibatch_update, architecture=architecture, optimizer=optimizer,
        conditions=conditions, settings=settings,
    )  # fmt: skip
    if num_updates == 1:
        state, (metrics, after) = step(state, batch)
        logprobs_BT, entropies_BT = after
    else:
        parts = split_batch(batch, s.minibatches, s.is_prompt_major)
        many = jax.tree.map(
            lambda x: jnp.concatenate([x] * s.updates_per_rollout), parts
        )
        state, (stacked, _) = jax.lax.scan(step, state, many)
        metrics = over_updates(stacked)
        assert before is not None
        logprobs_BT, entropies_BT = before
    metrics |= found.metrics | of_traces
    is_new_BT = batch.mask_BT
    if batch.is_stored_B is not None:
        is_new_BT &= ~batch.is_stored_B[:, None]
    metrics |= sampler_extremes(
        s.objective, logprobs_BT, rollouts.sampler_logprobs_BT, is_new_BT
    )
    outputs = UpdateOutputs(
        advantages_B=found.advantages_B,
        logprobs_BT=logprobs_BT,
        entropies_BT=entropies_BT,
        credit_BT=found.credit_BT,
        token_advantages_BT=None if scored.steps is None else found.advantages_BT,
    )
    return state, metrics, outputs


def _batch(
    prompts: Prompts,
    rollouts: Rollouts,
    found: TokenAdvantages,
    constraints: ConstraintTables | None,
) -> Batch:
    mask_BT = found.mask_BT
    completion_BT = jnp.where(mask_BT, rollouts.completion_BT, 0)
    registers = None
    if constraints is not None:
        registers = replayed_states(
            constraints, rollouts.constraint_id_B, rollouts.budget_B, completion_BT
        )
    return Batch(
        prompts=prompts,
        completion_BT=completion_BT,
        prompt_index_B=rollouts.prompt_index_B,
        mask_BT=mask_BT,
        advantages_BT=found.advantages_BT,
        sampler_logprobs_BT=rollouts.sampler_logprobs_BT,
        old_logprobs_BT=None,
        ref_logprobs_BT=None,
        kept_BTk=rollouts.kept_BTk,
        registers=registers,
    )


def _traced(
    batch: Batch, entropies_BT: Float[Array, "B T"], share: float
) -> tuple[Batch, dict[str, Array]]:
    """The batch with the tokens that are traced, and what tells of them.

    Once for all updates: later policies have other entropies.

    Args:
      batch: Of the step.
      entropies_BT: Under the policy before the first update.
      share: Of the tokens, those of highest entropy.
    """
    threshold = entropy_quantile(entropies_BT, batch.mask_BT, share)
    is_traced_BT = (entropies_BT >= threshold) & batch.mask_BT
    traced = finish_metrics({"share": fraction(is_traced_BT, batch.mask_BT)})
    return batch._replace(is_traced_BT=is_traced_BT), {
        "experimental/s_trace/entropy_threshold": threshold,
        "experimental/s_trace/traced_share": traced["share"],
    }


def _minibatch_update(
    state: TrainState,
    batch: Batch,
    *,
    architecture: Architecture,
    optimizer: optax.GradientTransformation,
    conditions: Conditions,
    settings: UpdateSettings,
) -> tuple[TrainState, tuple[dict[str, Array], tuple[Array, Array]]]:
    """One optimiser update, its gradient accumulated over microbatches."""
    denominator = loss_denominator(batch.mask_BT, preset=settings.objective)
    loss_fn = partial(
        _microbatch_loss, base=state.base_params, denominator=denominator,
        architecture=architecture, conditions=conditions, settings=settings,
    )  # fmt: skip
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    if settings.microbatches == 1:
        (loss, (means, values)), grads = grad_fn(state.params, batch)
    else:
        parts = split_batch(batch, settings.microbatches, settings.is_prompt_major)

        def accumulate(carry: Any, part: Batch):
            (loss, (means, values)), grads = grad_fn(state.params, part)
            return jax.tree.map(jnp.add, carry, (loss, grads)), (means, values)

        zeros = jax.tree.map(jnp.zeros_like, state.params)
        (loss, grads), (means, values) = jax.lax.scan(
            accumulate, (jnp.float32(0.0), zeros), parts
        )
        means = jax.tree.map(lambda x: x.sum(axis=0), means)
        values = joined_values(
            values, batch, settings.microbatches, settings.is_prompt_major
        )
    has_tokens = batch.mask_BT.any()
    state, update_metrics = apply_gradients(
        state, loss, grads, optimizer, has_tokens=has_tokens
    )
    update_metrics["update_empty"] = 1.0 - has_tokens.astype(jnp.float32)
    state = state._replace(ref_params=_moved_reference(state, settings))
    metrics = {"loss": loss} | finish_metrics(means) | update_metrics
    old_logprobs_BT = batch.old_logprobs_BT
    if old_logprobs_BT is None:
        old_logprobs_BT = _old_logprobs(values[0], batch)
    metrics |= ratio_extremes(
        settings.objective, values[0], old_logprobs_BT, batch.advantages_BT,
        batch.mask_BT, batch.is_traced_BT,
    )  # fmt: skip
    return state, (metrics, values)


def _moved_reference(state: TrainState, settings: UpdateSettings) -> Any:
    """The reference, moved towards the policy if this update is due to.

    ref <- mixup * policy + (1 - mixup) * ref, every `ref_sync_steps` updates.

    Reference:
      Gorbatovski et al., Learn Your Reference Model, 2024,
      https://arxiv.org/abs/2404.09656 (TR-DPO); TRL's `sync_ref_model`.
    """
    if state.ref_params is None or not settings.ref_sync_steps:
        return state.ref_params
    is_due = state.step % settings.ref_sync_steps == 0
    mixup = settings.ref_mixup

    def moved(policy: Array, reference: Array) -> Array:
        mixed = mixup * policy + (1.0 - mixup) * reference
        return jnp.where(is_due, mixed, reference)

    return kept_in_place(jax.tree.map(moved, state.params, state.ref_params))


def _microbatch_loss(
    params: Params,
    batch: Batch,
    *,
    base: FrozenBase | None,
    denominator: Float[Array, ""],
    architecture: Architecture,
    conditions: Conditions,
    settings: UpdateSettings,
) -> tuple[Float[Array, ""], tuple[dict[str, Mean], tuple[Array, Array]]]:
    logprobs_BT, entropies_BT = batch_logprobs(
        with_base(params, base), batch=batch, architecture=architecture,
        conditions=conditions, settings=settings.logprobs,
    )  # fmt: skip
    old_logprobs_BT = batch.old_logprobs_BT
    if old_logprobs_BT is None and batch.is_stored_B is not None:
        old_logprobs_BT = _old_logprobs(logprobs_BT, batch)
    of_loss = partial(
        grpo_loss,
        advantages_BT=batch.advantages_BT,
        old_logprobs_BT=old_logprobs_BT,
        ref_logprobs_BT=batch.ref_logprobs_BT,
        sampler_logprobs_BT=batch.sampler_logprobs_BT,
        entropies_BT=entropies_BT,
        is_traced_BT=batch.is_traced_BT,
        denominator=denominator,
        preset=settings.objective,
    )
    loss, means = of_loss(logprobs_BT, mask_BT=batch.mask_BT)
    if batch.is_stored_B is not None:
        for name, is_meant_B in (
            ("on", ~batch.is_stored_B),
            ("off", batch.is_stored_B),
        ):
            mask_BT = batch.mask_BT & is_meant_B[:, None]
            _, of_rows = of_loss(jax.lax.stop_gradient(logprobs_BT), mask_BT=mask_BT)
            means |= rows_of_a_kind(name, of_rows, means["policy_loss"].weight)
    values = jax.lax.stop_gradient((logprobs_BT, entropies_BT))
    return loss, (means, values)


def _old_logprobs(logprobs_BT: Float[Array, "B T"], batch: Batch) -> Array:
    """Log-probs of the policy that sampled: the sampler's own for stored rows.

    Args:
      logprobs_BT: Under the policy before the first update.
      batch: Of the same rows.
    """
    if batch.is_stored_B is None:
        return logprobs_BT
    return jnp.where(
        batch.is_stored_B[:, None],
        batch.sampler_logprobs_BT,
        jax.lax.stop_gradient(logprobs_BT),
    )
