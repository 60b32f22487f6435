"""The policy's weights as the sampler reads them, made from the training layout."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxgrpo.device.model.decoder import Params, Weights
from jaxgrpo.device.model.lora import Adapted
from jaxgrpo.device.placement import gathered_weights, kept_in_place


def sampling_weights(params: Weights, dtype: str, *, is_gathered: bool) -> Weights:
    """The weights in the sampler's dtype and layout, by one program.

    Made once a step: a program of decoding would cast and gather all of them anew.
    Where dtype and layout are those of the training weights there is no copy. Adapters
    are left as they are, next to their base: the trainer scales them in float32.

    Args:
      params: Weights of the policy, or a base with adapters.
      dtype: Of the sampler's arithmetic.
      is_gathered: Make them whole along the mesh's `fsdp` axis: faster, and each device
        holds all that its part of `tensor` reads.
    """
    if isinstance(params, Adapted):
        base = sampling_weights(params.base.params, dtype, is_gathered=is_gathered)
        return params._replace(base=params.base._replace(params=base))
    wanted = jnp.dtype(dtype)
    has_dtype = all(leaf.dtype == wanted for leaf in jax.tree.leaves(params))
    if has_dtype and not (is_gathered and _is_split(params)):
        return params
    return cast_weights(params, dtype=dtype, is_gathered=is_gathered)


@partial(jax.jit, static_argnames=("dtype", "is_gathered"))
def cast_weights(params: Params, *, dtype: str, is_gathered: bool) -> Params:
    """The program of `sampling_weights`."""
    cast = jax.tree.map(lambda leaf: leaf.astype(jnp.dtype(dtype)), params)
    return gathered_weights(cast) if is_gathered else kept_in_place(cast)


def _is_split(params: Any) -> bool:
    """Whether any of the weights is cut along `fsdp`."""

    def is_cut(leaf: jax.Array) -> bool:
        mesh = getattr(leaf.sharding, "mesh", None)
        spec = getattr(leaf.sharding, "spec", ())
        return mesh is not None and "fsdp" in spec and mesh.shape["fsdp"] > 1

    return any(is_cut(leaf) for leaf in jax.tree.leaves(params))
