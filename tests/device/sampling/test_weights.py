"""The sampler's weights: cast and gathered by one program, or not copied at all."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.lora import (
    Adapted,
    FrozenBase,
    LoraSettings,
    initial_adapters,
)
from jaxgrpo.device.sampling.weights import cast_weights, sampling_weights


def placed(
    tiny: Architecture, params: Any, data: int, fsdp: int = 1, tensor: int = 1
) -> Any:
    mesh = make_mesh(data, fsdp, tensor)
    return jax.device_put(params, param_shardings(tiny, mesh))


def specs(params: Any) -> dict[str, PartitionSpec]:
    """Layouts by name; trailing dims that are whole are left out."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {
        str(path[-2 if path[-1].key == "scale" else -1].key): leaf.sharding.spec
        for path, leaf in leaves
    }


def test_weights_of_the_right_dtype_and_layout_are_not_copied(
    tiny: Architecture, tiny_params: Any
) -> None:
    for params in (tiny_params, placed(tiny, tiny_params, 8)):
        ours = sampling_weights(params, "float32", is_gathered=True)
        assert ours is params
    split = placed(tiny, tiny_params, 1, 4, 2)
    assert sampling_weights(split, "float32", is_gathered=False) is split


def test_one_program_casts_and_gathers(tiny: Architecture, tiny_params: Any) -> None:
    program: Any = cast_weights
    before = program._cache_size()
    split = placed(tiny, tiny_params, 1, 4, 2)
    whole = sampling_weights(split, "bfloat16", is_gathered=True)
    doubled = jax.tree.map(lambda x: 2 * x, tiny_params)
    again = sampling_weights(
        placed(tiny, doubled, 1, 4, 2), "bfloat16", is_gathered=True
    )
    assert program._cache_size() == before + 1
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_array_equal(
            ours, theirs.astype(jnp.bfloat16)
        ),
        (whole, again),
        (tiny_params, doubled),
    )
    # Whole along fsdp, still cut along tensor.
    layouts = specs(whole)
    assert layouts["embedding_VD"] == PartitionSpec("tensor")
    assert layouts["q_DNH"] == PartitionSpec(None, None, "tensor")
    assert layouts["down_FD"] == PartitionSpec(None, "tensor")
    assert layouts["mlp_norm"] == PartitionSpec()


def test_weights_stay_split_where_asked(tiny: Architecture, tiny_params: Any) -> None:
    split = placed(tiny, tiny_params, 1, 4, 2)
    cast = sampling_weights(split, "bfloat16", is_gathered=False)
    assert specs(cast)["embedding_VD"] == PartitionSpec("tensor", "fsdp")
    assert {leaf.dtype for leaf in jax.tree.leaves(cast)} == {jnp.dtype("bfloat16")}


def test_adapters_keep_their_precision_beside_a_cast_base(
    tiny: Architecture, tiny_params: Any
) -> None:
    adapters = initial_adapters(tiny, LoraSettings(2, 4.0), jax.random.key(0))
    policy = Adapted(adapters, FrozenBase(tiny_params, jnp.float32(2.0)))
    ours = sampling_weights(policy, "bfloat16", is_gathered=True)
    assert isinstance(ours, Adapted)
    assert ours.adapters is adapters
    assert ours.base.scale is policy.base.scale
    types = {leaf.dtype for leaf in jax.tree.leaves(ours.base.params)}
    assert types == {jnp.dtype("bfloat16")}
