"""From the tables of a configuration to the objects and settings of a run."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from jaxgrpo.checkpoint import Checkpointer, LoopState
from jaxgrpo.config import (
    Config,
    DataConfig,
    ObjectiveConfig,
    OptimizerConfig,
    check_cuts,
)
from jaxgrpo.device import optimizer as optimizers
from jaxgrpo.device.mesh import (
    make_mesh,
    param_shardings,
    replicated,
    state_shardings,
)
from jaxgrpo.device.model.decoder import Params, Weights
from jaxgrpo.device.model.lora import (
    FrozenBase,
    LoraSettings,
    initial_adapters,
    weights_checksum,
    without_base,
)
from jaxgrpo.device.objective.presets import PRESETS, resolve_objective
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_ADAPTERS
from jaxgrpo.device.update import UpdateSettings
from jaxgrpo.engine import Engine
from jaxgrpo.host.records import Problem
from jaxgrpo.policy import Policy
from jaxgrpo.problems.datasets import load_problems, load_splits
from jaxgrpo.update_shape import update_shape
from jaxgrpo.weights import save_checkpoint


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """An optimiser with the schedule that its AdamW part follows."""

    transformation: optax.GradientTransformation
    schedule: optax.Schedule

    def learning_rate_at(self, num_updates: int) -> float:
        """The learning rate of the update that follows `num_updates` others."""
        return np.asarray(self.schedule(num_updates)).item()


def build_optimizer(
    o: OptimizerConfig, *, num_updates: int, scale: float = 1.0
) -> Optimizer:
    """The optimiser of a run of `num_updates`, learning rates times `scale`."""

    def schedule(peak: float) -> optax.Schedule:
        return optimizers.learning_rate_schedule(
            peak * scale,
            shape=o.schedule,
            num_updates=num_updates,
            warmup_updates=o.warmup_steps,
            decay_fraction=o.decay_fraction,
            final_scale=o.final_scale,
        )

    learning_rate = schedule(o.learning_rate)
    common = {
        "beta1": o.beta1,
        "beta2": o.beta2,
        "weight_decay": o.weight_decay,
        "clip_norm": o.clip_norm,
    }
    if o.name == "muon":
        chain = optimizers.muon(learning_rate, schedule(o.muon_learning_rate), **common)
    else:
        chain = optimizers.adamw(learning_rate, **common)
    return Optimizer(transformation=chain, schedule=learning_rate)


def update_settings(config: Config, policy: Policy) -> UpdateSettings:
    """What fixes the program of the update.

    Raises:
      ValueError: If decoupled rewards meet a preset that centres them otherwise.
    """
    o = config.objective
    preset = PRESETS[o.preset]
    parts: dict[str, Any] = dict(o.loss_parts) | o.correction_parts
    if o.kl_coef:
        parts |= {"kl_coef": o.kl_coef, "divergence": o.divergence}
    if preset.objective.aggregation == "constant":
        parts["length_cap"] = config.sampling.max_new_tokens
    if config.experimental.method == "s_trace":
        parts |= {
            "ratio_level": "trace",
            "trace_decay": config.experimental.trace_decay,
        }
    advantages = {"scale": preset.scale, "baseline": preset.baseline}
    advantages |= o.advantage_parts
    _check_decoupled(o, advantages)
    return UpdateSettings(
        objective=resolve_objective(o.preset, **parts),
        num_tokens=policy.num_tokens,
        combine=o.combine,
        ddof=o.ddof,
        epsilon=o.epsilon,
        updates_per_rollout=o.updates_per_rollout,
        minibatches=o.minibatches,
        microbatches=o.microbatches,
        masks_dead_groups=o.mask_dead_groups,
        ref_sync_steps=o.ref_sync_steps,
        ref_mixup=o.ref_mixup,
        logprob_chunk=o.logprob_chunk,
        has_stored_rows=update_shape(config).has_stored_rows,
        forward=policy.forward,
        scale=advantages["scale"],
        baseline=advantages["baseline"],
        intra_coef=config.credit.intra_coef,
        quality_cap=config.redistribution.cap,
        trace_share=config.experimental.trace_share,
    )


def _check_decoupled(o: ObjectiveConfig, advantages: dict[str, str]) -> None:
    is_by_group = advantages == {"scale": "group", "baseline": "mean"}
    if o.combine == "normalize_then_sum" and not is_by_group:
        raise ValueError(
            f"objective.combine is {o.combine!r}, which is defined by mean and spread "
            f"of the group, but with preset {o.preset!r} advantages have scale "
            f"{advantages['scale']!r} and baseline {advantages['baseline']!r}. Set "
            "objective.advantage_scale to 'group' and objective.advantage_baseline to "
            "'mean'."
        )


def problems_of(
    data: DataConfig,
    split: str,
    *,
    limit: int = 0,
    report: Callable[[int, int], None] | None = None,
) -> Sequence[Problem]:
    """A split of the configured data set; its first `limit` problems, 0 for all."""
    problems = load_problems(data, split, report=report)
    return problems[:limit] if limit else problems


def validation_problems(config: Config) -> Sequence[Problem]:
    """What is measured during training; nothing if a set without such a split is not.

    Args:
      config: Of the run.

    Raises:
      ValueError: The data set has no such split, and something is measured on it.
    """
    limit = config.evaluation.num_validation_problems
    is_used = config.evaluation.every_steps or config.temperature.calibration_problems
    if not is_used and "validation" not in load_splits(config.data):
        return ()
    return problems_of(config.data, "validation", limit=limit)


def expected_programs(engine: Engine, config: Config) -> dict[str, int]:
    """How many programs each function of a step may have.

    Args:
      engine: Draws the completions.
      config: Of the run.
    """
    # One sample at a time is drawn with hints, by an engine of its own.
    num_engines = 2 if config.scaffold.tiers else 1
    num_widths = num_engines * len(engine.settings.prompt_widths)
    return {
        "prefill": num_widths,
        "insert": num_widths,
        "decode_segment": num_engines * engine.settings.num_segment_programs,
        "update": 2,  # with and without a gather of prompts
        "intrinsic_rewards": 2,  # likewise
        "token_influence": 2,  # likewise
        "self_conditioned": 2,  # likewise
    }


def initial_state(
    params: Params, optimizer: Optimizer, policy: Policy, config: Config
) -> TrainState:
    """The state before the first update, laid out over the configured mesh.

    Args:
      params: The first weights; with adapters, what these stand on.
      optimizer: Of what is trained.
      policy: The model.
      config: Of the run.

    Raises:
      ValueError: If the mesh does not fit the devices, the model or the batch.
    """
    mesh = run_mesh(config)
    check_batch_fits(config, mesh.shape["data"] * mesh.shape["fsdp"])
    params = jax.device_put(params, param_shardings(policy.architecture, mesh))
    needs_reference = config.run.mode == "grpo" and config.objective.kl_coef
    lora, base, reference = lora_settings(config), None, None
    if lora is not None:
        scale = jax.device_put(jnp.float32(lora.scale), replicated(mesh))
        dtype = policy.forward.dtype
        base = FrozenBase(jax.tree.map(lambda x: x.astype(dtype), params), scale)
        params = _adapters(lora, policy, config, mesh)
    elif needs_reference:
        reference = jax.tree.map(jnp.copy, params)
    return TrainState(
        step=jax.device_put(jnp.int32(0), replicated(mesh)),
        params=params,
        opt_state=_initial_moments(params, optimizer, mesh),
        ref_params=reference,
        base_params=base,
    )


def restarted_state(state: TrainState, optimizer: Optimizer, step: int) -> TrainState:
    """The same weights with an optimiser that has seen nothing.

    Args:
      state: What has been trained so far.
      optimizer: Of what follows.
      step: Updates made so far.
    """
    mesh = jax.tree.leaves(state.params)[0].sharding.mesh
    return state._replace(
        step=jax.device_put(jnp.int32(step), replicated(mesh)),
        opt_state=_initial_moments(state.params, optimizer, mesh),
    )


def lora_settings(config: Config) -> LoraSettings | None:
    """Which adapters are trained; None where all weights are."""
    table = config.lora
    if not table.rank:
        return None
    return LoraSettings(rank=table.rank, alpha=table.alpha, targets=table.targets)


def _adapters(
    lora: LoraSettings, policy: Policy, config: Config, mesh: Mesh
) -> dict[str, Any]:
    """Adapters that change nothing yet, each born where it belongs."""
    key = jax.random.fold_in(jax.random.key(config.run.seed), PURPOSE_ADAPTERS)
    create = partial(initial_adapters, policy.architecture, lora)
    shardings = state_shardings(jax.eval_shape(create, key), mesh)
    return jax.jit(create, out_shardings=shardings)(key)


def _initial_moments(params: Any, optimizer: Optimizer, mesh: Mesh) -> Any:
    init = optimizer.transformation.init
    shardings = state_shardings(jax.eval_shape(init, params), mesh)
    return jax.jit(init, out_shardings=shardings)(params)


def run_mesh(config: Config) -> Mesh:
    """The devices as the configuration arranges them.

    Raises:
      ValueError: If it does not fit their number.
    """
    m = config.mesh
    return make_mesh(m.data, m.fsdp, m.tensor)


def check_batch_fits(config: Config, num_parts: int) -> None:
    """Refuses batches that the mesh cannot split by whole prompts."""
    sizes = {"evaluation.batch_problems": config.evaluation.batch_problems}
    if config.run.mode == "supervised":
        name = "supervised.problems_per_batch"
        sizes[name] = config.supervised.problems_per_batch
    else:
        check_cuts(config, num_parts)
        if config.distill.at_steps:
            sizes["distill.hits_per_batch"] = config.distill.hits_per_batch
    for name, size in sizes.items():
        if size % num_parts:
            raise ValueError(
                f"{name} is {size}, which does not divide by mesh.data * mesh.fsdp = "
                f"{num_parts}. Make it a multiple of {num_parts}."
            )


def abstract_state(state: TrainState) -> TrainState:
    """Shapes, types and shardings of a state: what a checkpoint is restored into."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


def restored_state(
    checkpointer: Checkpointer, step: int, state: TrainState
) -> tuple[TrainState, LoopState]:
    """What a checkpoint holds, and the loop state beside it.

    A frozen base is in no checkpoint: it is the given state's, and has to be the one
    that the adapters were trained on.

    Args:
      checkpointer: Of the run.
      step: One of the saved steps.
      state: As `initial_state` makes it.

    Raises:
      ValueError: If the checkpoint is of another tree or of another base.
    """
    saved, loop = checkpointer.restore(step, abstract_state(without_base(state)))
    check_base(state.base_params, loop, step)
    return saved._replace(base_params=state.base_params), loop


def check_base(base: FrozenBase | None, loop: LoopState, step: int) -> None:
    """Refuses adapters that were trained on other weights.

    Args:
      base: What they are to stand on; None without adapters.
      loop: Saved beside them.
      step: Of the checkpoint.

    Raises:
      ValueError: If the base is not the one that the checkpoint was made on.
    """
    if base is not None and loop.get("base_checksum") != base_checksum(base):
        raise ValueError(
            f"the adapters of step {step} were trained on other base weights than "
            "those that model.checkpoint now holds. Bring back what the run began "
            "with, or choose another run folder."
        )


def base_checksum(base: FrozenBase | None) -> int | None:
    """Tells one frozen base from another; None where there is none."""
    return None if base is None else int(jax.jit(weights_checksum)(base))


def export_checkpoint(
    folder: Path, policy: Policy, weights: Weights, *, dtype: str
) -> None:
    """Writes weights and tokenizer as a folder that `transformers` loads too."""
    save_checkpoint(
        folder,
        weights,
        policy.architecture,
        dtype=dtype,
        eos_ids=policy.eos_ids,
        tokenizer_folder=policy.tokenizer_folder,
    )
