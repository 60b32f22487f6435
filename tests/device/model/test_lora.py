"""Adapters beside frozen kernels: what they compute, and what they leave alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.device.model.decoder import bind, forward_prompts
from jaxgrpo.device.model.lora import (
    ADAPTERS,
    Adapted,
    FrozenBase,
    LoraSettings,
    initial_adapters,
    merge_lora,
    weights_checksum,
)
from jaxgrpo.device.records import Prompts

SETTINGS = LoraSettings(rank=4, alpha=12.0)
TOKENS = Prompts(
    jnp.asarray(np.random.default_rng(2).integers(0, 440, (3, 7))),
    jnp.array([7, 3, 5]),
)


@pytest.fixture(scope="module")
def adapters(tiny: Any) -> Any:
    """As training starts from them."""
    return jax.jit(initial_adapters, static_argnums=(0, 1))(
        tiny, SETTINGS, jax.random.key(1)
    )


@pytest.fixture(scope="module")
def trained(adapters: Any) -> Any:
    """With a `b` that matters as much as the kernels do."""
    rng = np.random.default_rng(4)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            jnp.asarray(rng.normal(0, 0.05, leaf.shape), jnp.float32)
            if "_b_" in path[-1].key
            else leaf
        ),
        adapters,
    )


def adapted(params: Any, adapters: Any, dtype: Any = jnp.float32) -> Adapted:
    base = jax.tree.map(lambda x: x.astype(dtype), params)
    return Adapted(adapters, FrozenBase(base, jnp.float32(SETTINGS.scale)))


@pytest.fixture(scope="module")
def states(tiny: Any) -> Any:
    """Hidden states of weights, plain or adapted, in a dtype."""

    def run(weights: Any, dtype: str = "float32") -> jax.Array:
        model = bind(tiny, weights, jnp.dtype(dtype))
        return forward_prompts(model, TOKENS)[0].astype(jnp.float32)

    compiled = jax.jit(run, static_argnames="dtype")
    return lambda *arguments: np.asarray(compiled(*arguments))


def test_new_adapters_change_nothing(
    tiny_params: Any, adapters: Any, states: Any
) -> None:
    with_adapters_PSD = states(adapted(tiny_params, adapters))
    np.testing.assert_allclose(
        with_adapters_PSD, states(tiny_params), rtol=1e-6, atol=1e-6
    )


def test_adapters_compute_what_merged_weights_do(
    tiny_params: Any, trained: Any, states: Any
) -> None:
    merged = merge_lora(tiny_params, trained, SETTINGS.scale)
    expected_PSD = states(merged)
    # Hidden states of size 1 to 4 in float32, summed in another order.
    np.testing.assert_allclose(
        states(adapted(tiny_params, trained)), expected_PSD, rtol=0, atol=5e-5
    )
    assert np.abs(expected_PSD - states(tiny_params)).mean() > 0.1


@pytest.mark.parametrize("target", ADAPTERS)
def test_every_target_is_applied_and_merged_where_it_belongs(
    tiny_params: Any, trained: Any, states: Any, target: str
) -> None:
    names = ADAPTERS[target]
    of_target = {"layers": {name: trained["layers"][name] for name in names[1:]}}
    merged = merge_lora(tiny_params, of_target, SETTINGS.scale)
    changed = {
        name
        for name in merged["layers"]
        if merged["layers"][name] is not tiny_params["layers"][name]
    }
    assert changed == {names.kernel}
    states_PSD = states(adapted(tiny_params, of_target))
    np.testing.assert_allclose(states_PSD, states(merged), rtol=0, atol=5e-5)
    assert np.abs(states_PSD - states(tiny_params)).max() > 1e-2


def test_a_merged_kernel_is_the_base_and_the_scaled_product(
    tiny_params: Any, trained: Any
) -> None:
    layers, added = tiny_params["layers"], trained["layers"]
    merged = merge_lora(tiny_params, trained, SETTINGS.scale)["layers"]
    for layer in range(2):
        product_NHD = 3.0 * np.einsum(
            "nhz,zd->nhd", added["o_a_NHZ"][layer], added["o_b_ZD"][layer]
        )
        np.testing.assert_allclose(
            merged["o_NHD"][layer], layers["o_NHD"][layer] + product_NHD, atol=1e-6
        )
        product_DKH = 3.0 * np.einsum(
            "dz,zkh->dkh", added["k_a_DZ"][layer], added["k_b_ZKH"][layer]
        )
        np.testing.assert_allclose(
            merged["k_DKH"][layer], layers["k_DKH"][layer] + product_DKH, atol=1e-6
        )


def test_a_small_change_survives_beside_a_bfloat16_kernel_and_not_in_it(
    tiny_params: Any, trained: Any, states: Any
) -> None:
    small = jax.tree_util.tree_map_with_path(
        lambda path, leaf: 1e-3 * leaf if "_b_" in path[-1].key else leaf, trained
    )
    base = jax.tree.map(lambda x: x.astype(jnp.bfloat16), tiny_params)
    plain_PSD = states(base, "bfloat16")
    merged = merge_lora(base, small, SETTINGS.scale)
    rounded = jax.tree.map(lambda x: x.astype(jnp.bfloat16), merged)
    kernels = [names.kernel for names in ADAPTERS.values()]
    num_changed = sum(
        int((rounded["layers"][name] != base["layers"][name]).sum()) for name in kernels
    )
    size = sum(base["layers"][name].size for name in kernels)
    num_beside = int((states(adapted(base, small, jnp.bfloat16), "bfloat16")
                      != plain_PSD).sum())  # fmt: skip
    assert num_changed < 0.1 * size
    assert num_beside > 0.1 * plain_PSD.size


def test_a_starts_uniform_and_b_at_zero(tiny: Any) -> None:
    settings = LoraSettings(rank=64, alpha=64.0)
    layers = initial_adapters(tiny, settings, jax.random.key(0))["layers"]
    assert set(layers) == {name for names in ADAPTERS.values() for name in names[1:]}
    num_inputs = {
        "q_a_DZ": tiny.width,
        "o_a_NHZ": tiny.num_heads * tiny.head_width,
        "down_a_FZ": tiny.mlp_width,
    }
    for name, number in num_inputs.items():
        a = np.asarray(layers[name])
        bound = number**-0.5
        assert 0.99 * bound < np.abs(a).max() <= bound
        # The deviation of a uniform draw in [-1, 1] is 1 / sqrt(3).
        assert a.std() == pytest.approx(bound / 3**0.5, rel=0.05)
        assert not np.array_equal(a[0], a[1])
    for names in ADAPTERS.values():
        assert not np.asarray(layers[names.b]).any()
    assert layers["q_b_ZNH"].shape == (2, 64, 4, 16)


def test_a_target_s_draws_do_not_depend_on_the_others(tiny: Any, adapters: Any) -> None:
    only = LoraSettings(SETTINGS.rank, SETTINGS.alpha, ("v", "down"))
    layers = jax.jit(initial_adapters, static_argnums=(0, 1))(
        tiny, only, jax.random.key(1)
    )["layers"]
    assert set(layers) == {"v_a_DZ", "v_b_ZKH", "down_a_FZ", "down_b_ZD"}
    for name, value in layers.items():
        np.testing.assert_array_equal(value, adapters["layers"][name])


def test_a_checksum_tells_weights_apart_wherever_they_lie(
    tiny: Any, tiny_params: Any
) -> None:
    checksum = jax.jit(weights_checksum)
    whole = int(checksum(tiny_params))
    mesh = make_mesh(data=1, fsdp=2, tensor=2, devices=jax.devices()[:4])
    spread = jax.device_put(tiny_params, param_shardings(tiny, mesh))
    assert int(checksum(spread)) == whole
    halved = jax.tree.map(lambda x: x.astype(jnp.bfloat16), tiny_params)
    assert int(checksum(halved)) == whole
    embedding_VD = tiny_params["embedding_VD"]
    nudged_VD = embedding_VD.at[3, 5].multiply(1.01)
    assert int(checksum(tiny_params | {"embedding_VD": nudged_VD})) != whole
