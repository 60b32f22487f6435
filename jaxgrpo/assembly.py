"""From the tables of a configuration to the objects and settings of a run."""

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxgrpo.config import (
    Config,
    DataConfig,
    ObjectiveConfig,
    OptimizerConfig,
    ScorerConfig,
)
from jaxgrpo.device import optimizer as optimizers
from jaxgrpo.device.mesh import (
    make_mesh,
    param_shardings,
    replicated,
    state_shardings,
)
from jaxgrpo.device.model.decoder import Params
from jaxgrpo.device.objective.presets import PRESETS, resolve_objective
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.update import UpdateSettings
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.records import Problem
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.policy import Policy
from jaxgrpo.problems.datasets import load_problems
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
    parts: dict[str, Any] = dict(o.loss_parts)
    if o.kl_coef:
        parts |= {"kl_coef": o.kl_coef, "divergence": o.divergence}
    if preset.objective.aggregation == "constant":
        parts["length_cap"] = config.sampling.max_new_tokens
    advantages = {"scale": preset.scale, "baseline": preset.baseline}
    advantages |= o.advantage_parts
    _check_decoupled(o, advantages)
    return UpdateSettings(
        objective=resolve_objective(o.preset, **parts),
        weights_R=tuple(reward.weight for reward in config.rewards.values()),
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
        dtype=policy.dtype,
        unroll_layers=policy.unroll_layers,
        remat=policy.remat,
        scale=advantages["scale"],
        baseline=advantages["baseline"],
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


def build_scorer(s: ScorerConfig, reward_names: Sequence[str]) -> Scorer:
    """The scorer. Build it before jax is first used."""
    box = s.sandbox
    return Scorer(
        num_workers=s.num_workers,
        rewards=list(reward_names),
        deadline_s=s.deadline_s,
        sandbox=SandboxSettings(
            level=box.level,
            minimum_level=box.minimum_level,
            allow_unsafe=box.allow_unsafe,
            cpu_s=box.cpu_s,
            wall_s=box.wall_s,
            memory_bytes=box.memory_mb * 2**20,
            output_bytes=box.output_kb * 2**10,
        ),
    )


def problems_of(
    data: DataConfig,
    split: str,
    *,
    limit: int = 0,
    report: Callable[[int, int], None] | None = None,
) -> Sequence[Problem]:
    """A split of the configured data set; its first `limit` problems, 0 for all."""
    problems = load_problems(
        data.dataset,
        split,
        cache_dir=Path(data.cache_dir),
        seed=data.seed,
        num_train=data.num_train,
        num_validation=data.num_validation,
        num_test=data.num_test,
        build_workers=data.build_workers,
        report=report,
    )
    return problems[:limit] if limit else problems


def initial_state(
    params: Params, optimizer: Optimizer, policy: Policy, config: Config
) -> TrainState:
    """The state before the first update, laid out over the configured mesh.

    Raises:
      ValueError: If the mesh does not fit the devices, the model or the batch.
    """
    m = config.mesh
    mesh = make_mesh(m.data, m.fsdp, m.tensor)
    _check_batch_fits(config, mesh.shape["data"] * mesh.shape["fsdp"])
    params = jax.device_put(params, param_shardings(policy.architecture, mesh))
    init = optimizer.transformation.init
    shardings = state_shardings(jax.eval_shape(init, params), mesh)
    opt_state = jax.jit(init, out_shardings=shardings)(params)
    step = jax.device_put(jnp.int32(0), replicated(mesh))
    needs_reference = config.run.mode == "grpo" and config.objective.kl_coef
    reference = jax.tree.map(jnp.copy, params) if needs_reference else None
    return TrainState(
        step=step, params=params, opt_state=opt_state, ref_params=reference
    )


def placed_weights(params: Params, policy: Policy, config: Config) -> Params:
    """The weights, laid out over the configured mesh."""
    m = config.mesh
    mesh = make_mesh(m.data, m.fsdp, m.tensor)
    return jax.device_put(params, param_shardings(policy.architecture, mesh))


def _check_batch_fits(config: Config, num_parts: int) -> None:
    """Refuses batches that the mesh cannot split by whole prompts."""
    o = config.objective
    if config.run.mode == "supervised":
        name, size = (
            "supervised.problems_per_batch",
            (config.supervised.problems_per_batch),
        )
    else:
        name = (
            "sampling.problems_per_step / (objective.minibatches * "
            "objective.microbatches)"
        )
        size = config.sampling.problems_per_step // (o.minibatches * o.microbatches)
    sizes = {name: size, "evaluation.batch_problems": config.evaluation.batch_problems}
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


def export_checkpoint(
    folder: Path, policy: Policy, params: Params, *, dtype: str
) -> None:
    """Writes weights and tokenizer as a folder that `transformers` loads too."""
    save_checkpoint(
        folder, params, policy.architecture, dtype=dtype, eos_ids=policy.eos_ids
    )
    for file in policy.tokenizer_folder.iterdir():
        is_tokenizer = "token" in file.name or file.name.startswith("chat_template")
        if is_tokenizer or file.name in ("vocab.json", "merges.txt"):
            shutil.copyfile(file, folder / file.name)
