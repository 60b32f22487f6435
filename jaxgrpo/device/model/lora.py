"""Low-rank adapters: two thin matrices beside each frozen kernel they are asked for.

    y = x W + (alpha / rank) (x a) b        a: in x rank, b: rank x out

`b` starts at zero, so that training starts from the base. The product stays beside the
kernel, in the dtype of the computation: added into a bfloat16 kernel, all of it that is
smaller than 2^-9 of the weight would be rounded away. `merge_lora` adds it in float32,
for an export.

Adapters are a tree like the parameters, {"layers": {"q_a_DZ": [L, D, Z], ...}}, and the
only thing that is trained: the optimiser knows nothing else, and the frozen base is at
the same time the reference policy.

Reference:
  Hu et al., LoRA, 2021, https://arxiv.org/abs/2106.09685. Differs from it in the draws
  of `a`: uniform up to 1 / sqrt(in), as `peft` has them, instead of normal. There is no
  dropout.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.records import TrainState


class AdapterNames(NamedTuple):
    """What an adapter stands beside, and what its two matrices are called."""

    kernel: str
    a: str
    b: str


ADAPTERS = {
    "q": AdapterNames("q_DNH", "q_a_DZ", "q_b_ZNH"),
    "k": AdapterNames("k_DKH", "k_a_DZ", "k_b_ZKH"),
    "v": AdapterNames("v_DKH", "v_a_DZ", "v_b_ZKH"),
    "o": AdapterNames("o_NHD", "o_a_NHZ", "o_b_ZD"),
    "gate": AdapterNames("gate_DF", "gate_a_DZ", "gate_b_ZF"),
    "up": AdapterNames("up_DF", "up_a_DZ", "up_b_ZF"),
    "down": AdapterNames("down_FD", "down_a_FZ", "down_b_ZD"),
}
"""By target: the kernels of a layer that can have an adapter."""


class LoraSettings(NamedTuple):
    """Which adapters there are. Hashable: a static argument of jit."""

    rank: int
    """Z; at least 1."""
    alpha: float
    """What the adapters add is scaled by alpha / rank."""
    targets: tuple[str, ...] = tuple(ADAPTERS)
    """Names in `ADAPTERS`, at least one."""

    @property
    def scale(self) -> float:
        """Factor of what the adapters add."""
        return self.alpha / self.rank


class FrozenBase(NamedTuple):
    """What adapters stand on; never changed, and not part of a checkpoint."""

    params: Any
    """Tree of weights in the dtype of the computation."""
    scale: Float[Array, ""]
    """alpha / rank."""


class Adapted(NamedTuple):
    """Weights of a policy with adapters; `decoder.bind` takes them like plain ones."""

    adapters: Any
    base: FrozenBase


def initial_adapters(
    architecture: Architecture, settings: LoraSettings, key: Array
) -> dict[str, Any]:
    """Random float32 adapters that change nothing yet: b is zero.

    a is uniform in +- 1 / sqrt(in). An adapter's draws depend on its own target only.

    Args:
      architecture: Sizes of the model.
      settings: Rank and targets.
      key: Random key.

    Returns:
      {"layers": {name: array}}, stacked along L.
    """
    layers = {}
    for index, (target, names) in enumerate(ADAPTERS.items()):
        if target not in settings.targets:
            continue
        a_shape, b_shape = adapter_shapes(architecture, target, settings.rank)
        own_key = jax.random.fold_in(key, index)
        draws = jax.random.uniform(own_key, a_shape, minval=-1.0, maxval=1.0)
        layers[names.a] = math.prod(a_shape[1:-1]) ** -0.5 * draws
        layers[names.b] = jnp.zeros(b_shape, jnp.float32)
    return {"layers": layers}


def adapter_shapes(
    architecture: Architecture, target: str, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of a target's two matrices, stacked along L.

    Example:
      >>> from jaxgrpo.device.model.presets import PRESETS
      >>> adapter_shapes(PRESETS["qwen3-tiny"], "o", rank=8)
      ((2, 4, 16, 8), (2, 8, 32))
    """
    a = architecture
    sizes = {
        "D": a.width,
        "N": a.num_heads,
        "K": a.num_kv_heads,
        "H": a.head_width,
        "F": a.mlp_width,
        "Z": rank,
    }
    names = ADAPTERS[target]
    of_a, of_b = (
        (a.num_layers, *(sizes[dim] for dim in name.rpartition("_")[2]))
        for name in (names.a, names.b)
    )
    return of_a, of_b


def with_base(params: Any, base: FrozenBase | None) -> Any:
    """The weights of a policy: the parameters themselves, or adapters on their base."""
    return params if base is None else Adapted(params, base)


def policy_weights(state: TrainState) -> Any:
    """The weights of the policy that a training state holds; `bind` takes them."""
    return with_base(state.params, state.base_params)


def without_base(state: TrainState) -> TrainState:
    """The state without the frozen base: all of it that changes."""
    return state._replace(base_params=None)


def plain_weights(weights: Any) -> Any:
    """Weights of a policy without adapters: where it has some, they are merged.

    Merged kernels are float32 (see `merge_lora`).
    """
    if not isinstance(weights, Adapted):
        return weights
    return merge_lora(weights.base.params, weights.adapters, weights.base.scale)


def reference_weights(state: TrainState) -> Any:
    """The weights of the frozen reference: with adapters, those they stand on."""
    if state.base_params is None:
        return state.ref_params
    return state.base_params.params


def adapter_arrays(adapted: Adapted) -> dict[str, Array]:
    """The adapters of all layers by name, each b times alpha / rank.

    Scaled here, once per program and in float32, a layer need not know the factor.
    """
    of_b = {names.b for names in ADAPTERS.values()}
    return {
        name: value * adapted.base.scale if name in of_b else value
        for name, value in adapted.adapters["layers"].items()
    }


def merge_lora(
    params: Any, adapters: Any, scale: float | Float[Array, ""]
) -> dict[str, Any]:
    """Plain weights that compute what base and adapters do together.

        W + scale a b

    Args:
      params: The base, of any float dtype.
      adapters: As from `initial_adapters`.
      scale: alpha / rank.

    Returns:
      Parameters in which adapted kernels are new and float32; all else is the base's.
    """
    layers, added = dict(params["layers"]), adapters["layers"]
    for names in ADAPTERS.values():
        if names.a in added:
            layers[names.kernel] = merged_kernel(
                layers[names.kernel], added[names.a], added[names.b], scale
            )
    return params | {"layers": layers}


def merged_kernel(
    kernel: Array, a: Array, b: Array, scale: float | Float[Array, ""]
) -> Array:
    """Kernel + scale a b in float32.

    Args:
      kernel: Weights of all layers, stacked along L.
      a: Likewise; its last dim is Z.
      b: Likewise; its first dim after L is Z.
      scale: alpha / rank.
    """
    L, Z = a.shape[0], a.shape[-1]
    product_LXY = jnp.matmul(
        a.astype(jnp.float32).reshape(L, -1, Z),
        b.astype(jnp.float32).reshape(L, Z, -1),
        precision="highest",
    )
    return kernel.astype(jnp.float32) + scale * product_LXY.reshape(kernel.shape)


def weights_checksum(params: Any) -> UInt[Array, ""]:
    """A number that tells weights from others, wherever they lie.

    The bits of each array are summed as integers modulo 2^32, which no order of
    summation changes, and so no mesh. They are those of bfloat16: a base has the same
    number in float32 and in bfloat16.

    Args:
      params: Tree of arrays of floats.
    """
    total = jnp.uint32(0)
    for leaf in jax.tree.leaves(params):
        words = jax.lax.bitcast_convert_type(leaf.astype(jnp.bfloat16), jnp.uint16)
        total = total * 31 + jnp.sum(words, dtype=jnp.uint32)
    return total
