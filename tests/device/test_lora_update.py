"""Training adapters: the same objective as with all weights, and nothing else moves."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.device.mesh import batch_sharding, make_mesh, param_shardings, replicated
from jaxgrpo.device.model.lora import (
    Adapted,
    FrozenBase,
    LoraSettings,
    initial_adapters,
    merge_lora,
)
from jaxgrpo.device.objective.presets import resolve_objective
from jaxgrpo.device.optimizer import adamw, muon
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import Prompts, Rollouts, Scored, TrainState
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.device.supervised import Examples, SupervisedSettings, supervised_update
from jaxgrpo.device.update import UpdateSettings, update
from tests.drawn import drawn_rollouts

P, G, S, T = 8, 4, 10, 6
B = P * G
NUM_TOKENS = 440
LORA = LoraSettings(rank=4, alpha=8.0)
SETTINGS = UpdateSettings(
    objective=resolve_objective("dapo", kl_coef=0.3, divergence="k3"),
    num_tokens=NUM_TOKENS,
    logprob_chunk=64,
)
REWARDS_B1 = np.random.default_rng(5).choice([0.0, 0.3, 1.0], (B, 1)).astype(np.float32)


def _keep(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
    del state, params
    return jax.tree.map(jnp.zeros_like, updates), updates


# Moves nothing and keeps the gradient, exactly, as its state.
KEEP_GRADIENT = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params), _keep
)
ADAM = adamw(
    optax.constant_schedule(3e-3),
    beta1=0.9, beta2=0.99, weight_decay=0.0, clip_norm=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def adapters(tiny: Any) -> Any:
    """As training starts from them."""
    return initial_adapters(tiny, LORA, jax.random.key(1))


@pytest.fixture(scope="module")
def trained(adapters: Any) -> Any:
    """Away from the start: b is not zero."""
    rng = np.random.default_rng(4)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            jnp.asarray(rng.normal(0, 0.03, leaf.shape), jnp.float32)
            if "_b_" in path[-1].key
            else leaf
        ),
        adapters,
    )


@pytest.fixture(scope="module")
def base(tiny_params: Any) -> FrozenBase:
    return FrozenBase(tiny_params, jnp.float32(LORA.scale))


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    rng = np.random.default_rng(3)
    lengths_P = rng.integers(2, S + 1, P).astype(np.int32)
    token_ids_PS = rng.integers(0, NUM_TOKENS, (P, S)).astype(np.int32)
    return Prompts(jnp.asarray(token_ids_PS), jnp.asarray(lengths_P))


@pytest.fixture(scope="module")
def sampled(tiny: Any, prompts: Prompts) -> Callable[[Any], Rollouts]:
    """Returns rollouts of a policy with the same keys each time."""
    settings = SamplerSettings(
        group_size=G,
        num_slots=P,
        rows_per_slot=G,
        max_prompt_tokens=S,
        max_new_tokens=T,
        segment_steps=T,
        eos_ids=tuple(range(44)),
        num_tokens=NUM_TOKENS,
    )
    return lambda weights: drawn_rollouts(tiny, weights, prompts, settings)


@pytest.fixture(scope="module")
def rollouts(sampled: Any, trained: Any, base: FrozenBase) -> Rollouts:
    return sampled(Adapted(trained, base))


@pytest.fixture(scope="module")
def run(tiny: Any, prompts: Prompts, rollouts: Rollouts) -> Any:
    """Returns what one update makes of parameters on a base, or with a reference."""

    def run(
        params: Any,
        *,
        base: Any = None,
        reference: Any = None,
        optimizer: Any = KEEP_GRADIENT,
        settings: UpdateSettings = SETTINGS,
    ) -> Any:
        params, base, reference = jax.tree.map(jnp.copy, (params, base, reference))
        state = TrainState(
            jnp.int32(0), params, optimizer.init(params), reference, base
        )
        return update(
            state, prompts, rollouts, Scored(jnp.asarray(REWARDS_B1), None),
            jnp.float32(1.0), architecture=tiny, optimizer=optimizer,
            settings=settings,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def with_adapters(run: Any, trained: Any, base: FrozenBase) -> Any:
    return run(trained, base=base)


@pytest.fixture(scope="module")
def with_merged(run: Any, trained: Any, base: FrozenBase) -> Any:
    """The same policy and reference in full: merged weights, the base beside them."""
    merged = merge_lora(base.params, trained, base.scale)
    return run(merged, reference=base.params)


def test_adapters_sample_what_merged_weights_do(
    sampled: Any, trained: Any, base: FrozenBase, rollouts: Rollouts
) -> None:
    merged = sampled(merge_lora(base.params, trained, base.scale))
    np.testing.assert_array_equal(merged.completion_BT, rollouts.completion_BT)
    np.testing.assert_allclose(
        merged.sampler_logprobs_BT, rollouts.sampler_logprobs_BT, atol=1e-4
    )
    plain = sampled(base.params)
    assert (np.asarray(plain.completion_BT) != rollouts.completion_BT).any()


def test_the_sampler_s_log_probs_are_the_trainer_s(
    with_adapters: Any, rollouts: Rollouts
) -> None:
    is_real_BT = np.arange(T) < np.asarray(rollouts.lengths_B)[:, None]
    np.testing.assert_allclose(
        np.asarray(with_adapters[2].logprobs_BT)[is_real_BT],
        np.asarray(rollouts.sampler_logprobs_BT)[is_real_BT],
        atol=5e-5,
    )


def test_the_objective_and_its_reference_are_those_of_merged_weights(
    with_adapters: Any, with_merged: Any
) -> None:
    _, metrics, outputs = with_adapters
    _, expected, expected_outputs = with_merged
    assert float(expected["kl"]) > 1e-3
    for name in expected:
        if name != "grad_norm":
            assert float(metrics[name]) == pytest.approx(
                float(expected[name]), rel=2e-4, abs=1e-5
            ), name
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=5e-5),
        outputs, expected_outputs,
    )  # fmt: skip


def test_the_gradient_is_that_of_the_kernels_by_the_chain_rule(
    with_adapters: Any, with_merged: Any, trained: Any
) -> None:
    grads = with_adapters[0].opt_state["layers"]
    of_kernels = with_merged[0].opt_state["layers"]
    layers = trained["layers"]
    expected = {
        "q_a_DZ": np.einsum("ldnh,lznh->ldz", of_kernels["q_DNH"], layers["q_b_ZNH"]),
        "q_b_ZNH": np.einsum("ldz,ldnh->lznh", layers["q_a_DZ"], of_kernels["q_DNH"]),
        "o_a_NHZ": np.einsum("lnhd,lzd->lnhz", of_kernels["o_NHD"], layers["o_b_ZD"]),
        "o_b_ZD": np.einsum("lnhz,lnhd->lzd", layers["o_a_NHZ"], of_kernels["o_NHD"]),
        "down_a_FZ": np.einsum("lfd,lzd->lfz", of_kernels["down_FD"],
                               layers["down_b_ZD"]),
        "up_b_ZF": np.einsum("ldz,ldf->lzf", layers["up_a_DZ"], of_kernels["up_DF"]),
    }  # fmt: skip
    for name, product in expected.items():
        size = np.abs(product).max()
        np.testing.assert_allclose(
            grads[name], LORA.scale * product, rtol=0, atol=2e-4 * LORA.scale * size
        )
        assert size > 1e-4


def test_at_the_start_only_b_has_a_gradient(
    run: Any, adapters: Any, base: FrozenBase
) -> None:
    state, metrics, _ = run(adapters, base=base)
    for name, grad in state.opt_state["layers"].items():
        assert np.asarray(grad).any() == ("_b_" in name), name
    assert float(metrics["kl"]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_an_optimiser_holds_nothing_of_the_base_and_moves_the_adapters(
    run: Any, trained: Any, base: FrozenBase, name: str
) -> None:
    rate = optax.constant_schedule(1e-2)
    how = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "clip_norm": 1.0}
    optimizer = adamw(rate, **how) if name == "adamw" else muon(rate, rate, **how)
    state, metrics, _ = run(trained, base=base, optimizer=optimizer)
    num_params = sum(leaf.size for leaf in jax.tree.leaves(trained))
    num_moments = sum(
        leaf.size for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim > 1
    )
    # Two moments with AdamW; Muon keeps one of a matrix, and all adapters are such.
    assert num_moments == (2 if name == "adamw" else 1) * num_params
    assert float(metrics["update_skipped"]) == 0.0
    for key, before in trained["layers"].items():
        assert not np.array_equal(state.params["layers"][key], before), key
    jax.tree.map(np.testing.assert_array_equal, state.base_params, base)
    assert state.ref_params is None


def test_updates_raise_the_objective(
    tiny: Any, prompts: Prompts, rollouts: Rollouts, adapters: Any, base: FrozenBase
) -> None:
    settings = SETTINGS._replace(
        objective=resolve_objective("dapo"), updates_per_rollout=2, minibatches=2
    )
    start, frozen = jax.tree.map(jnp.copy, (adapters, base))
    state = TrainState(jnp.int32(0), start, ADAM.init(start), None, frozen)
    gains = []
    for _ in range(4):
        state, _, outputs = update(
            state, prompts, rollouts, Scored(jnp.asarray(REWARDS_B1), None),
            jnp.float32(1.0), architecture=tiny, optimizer=ADAM, settings=settings,
        )  # fmt: skip
        weighted_BT = outputs.advantages_B[:, None] * outputs.logprobs_BT
        gains.append(float(weighted_BT.sum()))
    assert int(state.step) == 16
    assert gains == sorted(gains) and gains[-1] > gains[0] + 1.0
    jax.tree.map(np.testing.assert_array_equal, state.base_params, base)


def test_imitation_lowers_its_loss(
    tiny: Any, prompts: Prompts, adapters: Any, base: FrozenBase
) -> None:
    examples = Examples(prompts.token_ids_PS, jnp.ones(P, jnp.int32), prompts.lengths_P)
    start, frozen = jax.tree.map(jnp.copy, (adapters, base))
    state = TrainState(jnp.int32(0), start, ADAM.init(start), None, frozen)
    losses = []
    for _ in range(5):
        state, metrics = supervised_update(
            state, examples, architecture=tiny, optimizer=ADAM,
            settings=SupervisedSettings(num_tokens=NUM_TOKENS, logprob_chunk=64),
        )  # fmt: skip
        losses.append(float(metrics["loss"]))
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0] - 0.1
    jax.tree.map(np.testing.assert_array_equal, state.base_params, base)


def test_a_mesh_computes_the_same(
    tiny: Any,
    prompts: Prompts,
    rollouts: Rollouts,
    trained: Any,
    base: FrozenBase,
    with_adapters: Any,
) -> None:
    mesh = make_mesh(data=2, fsdp=2, tensor=2)
    params = jax.device_put(jax.tree.map(jnp.copy, trained),
                            state_shardings(trained, mesh))  # fmt: skip
    frozen = FrozenBase(
        jax.device_put(jax.tree.map(jnp.copy, base.params),
                       param_shardings(tiny, mesh)),
        jax.device_put(base.scale, replicated(mesh)),
    )  # fmt: skip
    opt_state = jax.tree.map(jnp.zeros_like, params)
    step = jax.device_put(jnp.int32(0), replicated(mesh))
    state = TrainState(step, params, opt_state, None, frozen)
    placed = jax.device_put(
        (prompts, rollouts, Scored(jnp.asarray(REWARDS_B1), None)),
        batch_sharding(mesh),
    )
    shardings = [leaf.sharding for leaf in jax.tree.leaves((params, frozen))]
    state, metrics, outputs = update(
        state, *placed, jnp.float32(1.0),
        architecture=tiny, optimizer=KEEP_GRADIENT, settings=SETTINGS,
    )  # fmt: skip
    expected, expected_metrics, expected_outputs = with_adapters
    leaves = jax.tree.leaves((state.params, state.base_params))
    for leaf, sharding in zip(leaves, shardings, strict=True):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim)
    for name, value in expected_metrics.items():
        assert float(metrics[name]) == pytest.approx(float(value), rel=1e-4, abs=1e-5)
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=3e-6)
    jax.tree.map(close, state.opt_state, expected.opt_state)
    jax.tree.map(close, outputs, expected_outputs)
