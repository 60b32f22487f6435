"""Prompts into slots: prefilled in buckets of length, then inserted where one is free.

Every prompt goes through the program of its bucket, which has a fixed number of rows:
its keys, values and last state are the same whatever else is prefilled with it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.cache import Kept, PrefixCache, kept_like
from jaxgrpo.device.model.decoder import Weights, bind, forward_prompts, last_states
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.sampling.slots import Decoding, laid_out


class Prefilled(NamedTuple):
    """What a slot takes over from the pass over its prompt."""

    last_PD: Float[Array, "P D"]
    """Final-normed state of each prompt's last token."""
    prefix: PrefixCache


@partial(jax.jit, static_argnames=("architecture", "settings"))
def prefill(
    params: Weights,
    prompts: Prompts,
    *,
    architecture: Architecture,
    settings: ForwardSettings,
) -> Prefilled:
    """Runs prompts through the decoder once; all their samples share the result.

    Args:
      params: Weights of the policy.
      prompts: Of one bucket.
      architecture: Sizes of the model.
      settings: How the decoder is computed.
    """
    # Weights that are split are gathered a layer at a time: each is used once here.
    model = bind(architecture, params, jnp.dtype(settings.dtype))
    hidden_PSD, prefix = forward_prompts(model, prompts, settings)
    return Prefilled(last_states(hidden_PSD, prompts.lengths_P), prefix)


@partial(jax.jit, static_argnames=("num_shards",), donate_argnames=("decoding",))
def insert(
    decoding: Decoding,
    prefilled: Prefilled,
    source_C: Int[Array, " C"],
    is_new_C: Bool[Array, " C"],
    *,
    num_shards: int,
) -> Decoding:
    """Puts prefilled prompts into slots.

    Slots and prefilled prompts are each cut into as many shards as the mesh cuts rows
    into, and a slot takes a prompt of its own shard: no device sends its keys away.

    Args:
      decoding: Donated; slots and rows are the caller's to set.
      prefilled: P prompts.
      source_C: Which prompt of its shard a slot takes; in [0, P / num_shards).
      is_new_C: True for slots that take one.
      num_shards: Divides C and P.
    """
    prefix, cache = prefilled.prefix, decoding.cache

    def chosen(old: Array, new: Array, axis: int) -> Array:
        taken = _of_shards(new, source_C, axis, num_shards)
        shape = [1] * old.ndim
        shape[axis] = -1
        return jnp.where(is_new_C.reshape(shape), taken.astype(old.dtype), old)

    def filled(old: Kept, new_LPSKH: Array) -> Kept:
        # Transposed first: the few new prompts, not the slots.
        new = kept_like(new_LPSKH.swapaxes(2, 3), old)
        width = new_LPSKH.shape[2]

        def written(kept: Array, values: Array) -> Array:
            head = chosen(kept[:, :, :, :width], values, axis=1)
            return kept.at[:, :, :, :width].set(head)

        return Kept(*jax.tree.map(written, tuple(old), tuple(new)))

    decoding = decoding._replace(
        last_CD=chosen(decoding.last_CD, prefilled.last_PD, axis=0),
        cache=cache._replace(
            prefix_k=filled(cache.prefix_k, prefix.k_LPSKH),
            prefix_v=filled(cache.prefix_v, prefix.v_LPSKH),
            lengths_C=chosen(cache.lengths_C, prefix.lengths_P, axis=0),
        ),
    )
    return laid_out(decoding)


def _of_shards(new: Array, source_C: Array, axis: int, num_shards: int) -> Array:
    """For each slot its source among the prompts of its own shard, along an axis."""
    before, after = new.shape[:axis], new.shape[axis + 1 :]
    shards = new.reshape(*before, num_shards, -1, *after)
    index = source_C.reshape(*[1] * len(before), num_shards, -1, *[1] * len(after))
    taken = jnp.take_along_axis(shards, index, axis=axis + 1)
    return taken.reshape(*before, -1, *after)
