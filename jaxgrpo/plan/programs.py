"""The programs of a training step, ready to be compiled.

They are the very functions that a run calls, with the settings that it gives them; only
the arrays are abstract (`arrays.py`).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from jaxgrpo.assembly import build_optimizer, update_settings
from jaxgrpo.batching import prompt_arrays, update_arrays
from jaxgrpo.config import Config
from jaxgrpo.device.model.cache import PrefixCache
from jaxgrpo.device.model.lora import Adapted, policy_weights
from jaxgrpo.device.placement import BATCH_AXES
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.prefill import Prefilled, insert, prefill
from jaxgrpo.device.sampling.segment import decode_segment
from jaxgrpo.device.sampling.slots import Decoding, SamplerSettings
from jaxgrpo.device.sampling.weights import cast_weights
from jaxgrpo.device.update import update
from jaxgrpo.plan.arrays import (
    abstract_decoding,
    abstract_state,
    abstract_weights,
    key_dtype,
    placed,
    whole,
)
from jaxgrpo.plan.hardware import Platform
from jaxgrpo.policy import Policy
from jaxgrpo.sampling import training_engine
from jaxgrpo.update_shape import update_shape

PREFILL, DECODE, UPDATE = "prefill", "decode", "update"
"""Phases of a step."""

_TEMPERATURE = jax.ShapeDtypeStruct((), jnp.float32)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A jitted function of the loop and what it is called with."""

    name: str
    """Of the function."""
    phase: str
    """PREFILL, DECODE or UPDATE."""
    lower: Callable[..., jax.stages.Lowered]
    """Traces it with the arguments; the result can be compiled."""
    arguments: tuple[Any, ...]
    resident: Any
    """Arrays that lie on the devices besides its arguments, while it runs."""
    has_weights: bool = False
    """Whether the sampler's weights lie there too, or are what it makes."""
    has_cache: bool = False
    """Whether the sampler's cache lies there."""
    calls: float = 1.0
    """How often a step runs it."""
    turns: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    """Turns of its loops that read a part of an array, by the array's dims on a device:
    for loops whose end depends on data."""


class Step(NamedTuple):
    """A step's programs, and the large arrays that they share."""

    state: TrainState
    weights: Any
    """The policy's, as the sampler reads them."""
    are_weights_copied: bool
    """False where those of the state serve as they are."""
    decoding: Decoding
    """The sampler's cache and states."""
    programs: tuple[Program, ...]


def step_programs(
    config: Config, policy: Policy, mesh: Mesh | AbstractMesh, platform: Platform
) -> Step:
    """The programs of one step of a run, in the order in which it calls them.

    Args:
      config: Of a `grpo` run.
      policy: The model.
      mesh: The devices.
      platform: Of the devices.
    """
    optimizer = build_optimizer(config.optimizer, num_updates=config.num_updates)
    state = abstract_state(config, policy, optimizer, mesh)
    engine = training_engine(config, policy, platform=platform)
    settings, constraints = engine.settings, whole(engine.constraints, mesh)
    params = policy_weights(state)
    weights = abstract_weights(params, settings)
    step = Step(
        state=state,
        weights=weights,
        are_weights_copied=jax.tree.leaves(weights) != jax.tree.leaves(params),
        decoding=abstract_decoding(policy, settings, weights, mesh),
        programs=(),
    )
    learner = Program(
        name="update",
        phase=UPDATE,
        lower=partial(
            update.lower,
            architecture=policy.architecture,
            optimizer=optimizer.transformation,
            settings=update_settings(config, policy),
        ),
        arguments=(
            state,
            *_update_arrays(config, mesh),
            _TEMPERATURE,
            constraints,
            jax.ShapeDtypeStruct((len(config.rewards),), jnp.float32),
        ),
        resident=None,
    )
    sampler = (
        *_weight_programs(step, settings),
        *_prefill_programs(config, policy, step, settings, mesh),
        _decode_program(config, policy, step, settings, constraints),
    )
    return step._replace(programs=(*sampler, learner))


def _update_arrays(config: Config, mesh: Mesh | AbstractMesh) -> Any:
    """What `update_arrays` makes of a step's groups."""
    shape = update_shape(config)
    create = partial(
        update_arrays,
        (),
        tuple(config.rewards),
        seed=0,
        purpose=0,
        step=0,
        num_prompts=shape.num_prompts,
        num_positions=config.prompt.max_prompt_tokens,
        num_rows=shape.num_rows,
        num_columns=config.sampling.max_new_tokens,
        has_factors=shape.has_factors,
        has_focus=shape.has_focus,
        has_qualities=shape.has_qualities,
        num_steps=shape.num_steps,
    )
    return placed(create, mesh)


def _weight_programs(step: Step, settings: SamplerSettings) -> Iterator[Program]:
    """The copy that the sampler reads, if it needs one."""
    params = policy_weights(step.state)
    if isinstance(params, Adapted):
        base, beside = params.base.params, step.state._replace(base_params=None)
    else:
        base, beside = params, step.state._replace(params=None)
    if step.are_weights_copied:
        yield Program(
            name="cast_weights",
            phase=PREFILL,
            lower=partial(
                cast_weights.lower,
                dtype=settings.forward.dtype,
                is_gathered=settings.gathers_weights,
            ),
            arguments=(base,),
            resident=beside,
            has_weights=True,
        )


def _prefill_programs(
    config: Config,
    policy: Policy,
    step: Step,
    settings: SamplerSettings,
    mesh: Mesh | AbstractMesh,
) -> Iterator[Program]:
    """A pass over the longest prompts, and their way into slots."""
    num_shards = mesh.shape["data"] * mesh.shape["fsdp"]
    width = settings.prompt_widths[-1]
    num_prompts = settings.prefill_rows(width, num_shards)
    prompts = partial(prompt_arrays, (), num_prompts=num_prompts, num_positions=width)
    arguments = (step.weights, placed(prompts, mesh))
    fixed = {"architecture": policy.architecture, "settings": settings.forward}
    calls = config.sampling.problems_per_step / num_prompts
    yield Program(
        name="prefill",
        phase=PREFILL,
        lower=partial(prefill.lower, **fixed),
        arguments=arguments,
        resident=(_beside_weights(step), step.decoding),
        has_weights=True,
        has_cache=True,
        calls=calls,
    )
    prefilled = _prefilled(policy, num_prompts, width, mesh)
    source = placed(lambda: jnp.zeros(settings.num_slots, jnp.int32), mesh)
    is_new = jax.ShapeDtypeStruct(source.shape, bool, sharding=source.sharding)
    yield Program(
        name="insert",
        phase=PREFILL,
        lower=partial(insert.lower, num_shards=num_shards),
        arguments=(step.decoding, prefilled, source, is_new),
        resident=(_beside_weights(step), step.weights),
        has_weights=True,
        has_cache=True,
        calls=calls,
    )


def _prefilled(
    policy: Policy, num_prompts: int, width: int, mesh: Mesh | AbstractMesh
) -> Prefilled:
    """What prefill leaves for insert: cut by prompts, and keys by heads too."""
    a, dtype = policy.architecture, jnp.dtype(policy.forward.dtype)

    def array(shape: tuple[int, ...], dtype: Any, *axes: Any) -> Any:
        where = NamedSharding(mesh, PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=where)

    keys = array(
        (a.num_layers, num_prompts, width, a.num_kv_heads, a.head_width),
        dtype, None, BATCH_AXES, None, "tensor",
    )  # fmt: skip
    lengths_P = array((num_prompts,), jnp.int32, BATCH_AXES)
    return Prefilled(
        last_PD=array((num_prompts, a.width), dtype, BATCH_AXES),
        prefix=PrefixCache(k_LPSKH=keys, v_LPSKH=keys, lengths_P=lengths_P),
    )


def _decode_program(
    config: Config,
    policy: Policy,
    step: Step,
    settings: SamplerSettings,
    constraints: Any,
) -> Program:
    """Segments of decoding, if all completions use their budget."""
    s = config.sampling
    in_turn = math.ceil(s.problems_per_step / settings.num_slots)
    in_turn *= math.ceil(s.group_size / settings.rows_per_slot)
    return Program(
        name="decode_segment",
        phase=DECODE,
        lower=partial(
            decode_segment.lower,
            architecture=policy.architecture,
            settings=settings,
            visible_blocks=settings.visible_blocks(settings.num_columns),
        ),
        arguments=(
            step.weights,
            step.decoding,
            jax.ShapeDtypeStruct((), key_dtype()),
            _TEMPERATURE,
            jax.ShapeDtypeStruct((), jnp.int32),
            constraints,
        ),
        resident=_beside_weights(step),
        has_weights=True,
        has_cache=True,
        calls=in_turn * s.max_new_tokens / settings.segment_steps,
        turns=_cache_turns(settings, step.decoding),
    )


def _beside_weights(step: Step) -> TrainState:
    """The part of the state that a sampler's weights are not."""
    if step.are_weights_copied:
        return step.state
    return step.state._replace(params=None, base_params=None)


def _cache_turns(
    settings: SamplerSettings, decoding: Decoding
) -> dict[tuple[int, ...], float]:
    """Blocks of the cache that a token visits, if all completions use their budget.

    Of the prompt all of them; of the completion one more each time a block is full.
    """
    cache, blocks = decoding.cache, settings.blocks
    prompt, ring = (
        kept.values.sharding.shard_shape(kept.values.shape)
        for kept in (cache.prefix_k, cache.suffix_k)
    )
    return {
        ring: (settings.num_columns / blocks.ring + 1) / 2,
        prompt: settings.prompt_widths[-1] / blocks.prefix,
    }
