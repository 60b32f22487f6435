"""The arrays of a run as shapes, types and layouts: nothing is loaded or allocated.

They are laid out as `assembly.initial_state`, `sampling_weights`, `start_decoding` and
`placed_like` lay out the real ones, so that a program can be compiled for devices that
are elsewhere.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from jaxgrpo.assembly import Optimizer, lora_settings
from jaxgrpo.config import Config
from jaxgrpo.device.mesh import batch_sharding, replicated
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.lora import Adapted, FrozenBase, initial_adapters
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.slots import (
    Decoding,
    SamplerSettings,
    decoding_specs,
    start_decoding,
)
from jaxgrpo.evaluate import evaluation_engine
from jaxgrpo.plan.hardware import Platform
from jaxgrpo.policy import Policy


def abstract_state(
    config: Config, policy: Policy, optimizer: Optimizer, mesh: Mesh | AbstractMesh
) -> TrainState:
    """Shapes, types and layout of the state that a run starts from.

    Args:
      config: Of the run.
      policy: The model; its weights are not loaded.
      optimizer: Of what is trained.
      mesh: What the state is laid out over.

    Raises:
      ValueError: If an axis of the mesh does not divide a dim that it splits.
    """
    lora = lora_settings(config)

    def create() -> TrainState:
        key = jax.random.key(0)
        params = initial_params(policy.architecture, key)
        base, reference = None, None
        if lora is not None:
            dtype = policy.forward.dtype
            base = FrozenBase(
                jax.tree.map(lambda x: x.astype(dtype), params),
                jnp.float32(lora.scale),
            )
            params = initial_adapters(policy.architecture, lora, key)
        elif config.run.mode == "grpo" and config.objective.kl_coef:
            reference = params
        return TrainState(
            step=jnp.int32(0),
            params=params,
            opt_state=optimizer.transformation.init(params),
            ref_params=reference,
            base_params=base,
        )

    shapes = jax.eval_shape(create)
    return jax.tree.map(
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
        shapes,
        state_shardings(shapes, mesh),
    )


def abstract_weights(params: Any, settings: SamplerSettings) -> Any:
    """The weights as the sampler reads them: as `sampling_weights` makes them.

    Args:
      params: Abstract weights of the policy.
      settings: Of the sampler.
    """
    if isinstance(params, Adapted):
        base = abstract_weights(params.base.params, settings)
        return params._replace(base=params.base._replace(params=base))
    dtype = jnp.dtype(settings.forward.dtype)

    def read(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        where = leaf.sharding
        assert isinstance(where, NamedSharding), "laid out by `state_shardings`"
        if settings.gathers_weights and where.mesh.shape["fsdp"] > 1:
            axes = (None if axis == "fsdp" else axis for axis in where.spec)
            where = NamedSharding(where.mesh, PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(leaf.shape, dtype, sharding=where)

    return jax.tree.map(read, params)


def abstract_decoding(
    policy: Policy,
    settings: SamplerSettings,
    weights: Any,
    mesh: Mesh | AbstractMesh,
) -> Decoding:
    """A sampler in motion: its cache and states, laid out as `start_decoding` does."""
    start = partial(start_decoding, policy.architecture, settings, weights)
    shapes = jax.eval_shape(start)
    return jax.tree.map(
        lambda x, spec: jax.ShapeDtypeStruct(
            x.shape, x.dtype, sharding=NamedSharding(mesh, spec)
        ),
        shapes,
        decoding_specs(shapes),
    )


def evaluation_cache_bytes(
    config: Config,
    policy: Policy,
    weights: Any,
    mesh: Mesh | AbstractMesh,
    platform: Platform,
) -> int:
    """The larger cache of an evaluation's two passes, on one device.

    Args:
      config: Of the run.
      policy: The model.
      weights: As from `abstract_weights`.
      mesh: The devices.
      platform: Of the devices.
    """
    sizes = []
    for is_greedy in (True, False):
        engine = evaluation_engine(
            config, policy, is_greedy=is_greedy, platform=platform
        )
        decoding = abstract_decoding(policy, engine.settings, weights, mesh)
        sizes.append(device_bytes(decoding.cache))
    return max(sizes)


def device_bytes(tree: Any) -> int:
    """Bytes of a tree's arrays on one device.

    Args:
      tree: Of `jax.ShapeDtypeStruct` with shardings; those without are whole.
    """
    return sum(_array_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _array_bytes(leaf: Any) -> int:
    shape, dtype = leaf.shape, leaf.dtype
    if getattr(leaf, "sharding", None) is not None:
        shape = leaf.sharding.shard_shape(shape)
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
        shape, dtype = data.shape, data.dtype
    return math.prod(shape) * dtype.itemsize


def key_dtype() -> Any:
    """The type of random keys."""
    return jax.eval_shape(lambda: jax.random.key(0)).dtype


def placed(create: Callable[[], Any], mesh: Mesh | AbstractMesh) -> Any:
    """What the loop makes on the host, where `placed_like` would put it.

    Args:
      create: Returns a tree of arrays that lead with P or B.
      mesh: The devices.
    """
    where = replicated(mesh) if mesh.size == 1 else batch_sharding(mesh)
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
        jax.eval_shape(create),
    )


def whole(tree: Any, mesh: Mesh | AbstractMesh) -> Any:
    """What the loop makes on the host, where `replicated_like` would put it.

    Args:
      tree: Of arrays.
      mesh: The devices.
    """
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=replicated(mesh)),
        tree,
    )
