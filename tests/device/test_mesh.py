"""Eight devices compute what one computes, wherever the weights lie."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from jaxgrpo.device.mesh import (
    batch_sharding,
    make_mesh,
    param_shardings,
    replicated,
)
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.optimizer import adamw, muon
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import Prompts, TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN, row_keys
from jaxgrpo.device.sampling.sample import SamplerSettings, sample
from jaxgrpo.device.supervised import (
    Examples,
    SupervisedSettings,
    supervised_update,
)

P, S, G, T = 8, 6, 2, 5
B = P * G
SHAPES = [(8, 1, 1), (2, 2, 2), (1, 4, 2)]
SAMPLER = SamplerSettings(group_size=G, max_new_tokens=T, eos_ids=(7,), num_tokens=300)
SUPERVISED = SupervisedSettings(num_tokens=300, logprob_chunk=32)
OPTIMIZER = adamw(
    optax.constant_schedule(1e-2), beta1=0.9, beta2=0.99, weight_decay=0.0,
    clip_norm=1e9,
)  # fmt: skip


@pytest.fixture(scope="module")
def inputs() -> tuple[Prompts, Any, Examples]:
    """Prompts, keys of their rows, and examples to imitate."""
    rng = np.random.default_rng(4)
    prompts = Prompts(
        jnp.asarray(rng.integers(0, 300, (P, S))), jnp.asarray(rng.integers(1, 7, P))
    )
    hash_B2 = np.repeat(np.stack([np.arange(P)] * 2, axis=1), G, axis=0)
    key_B = row_keys(
        0, PURPOSE_TRAIN, 0, jnp.asarray(hash_B2, jnp.uint32),
        jnp.zeros(B, int), jnp.asarray(np.tile(np.arange(G), P)),
    )  # fmt: skip
    examples = Examples(
        jnp.asarray(rng.integers(0, 300, (P, S + T))),
        prompts.lengths_P,
        prompts.lengths_P + jnp.asarray(rng.integers(0, T + 1, P)),
    )
    return prompts, key_B, examples


def computed(tiny: Any, state: TrainState, inputs: Any) -> Any:
    """Rollouts; state and metrics after one supervised update, and its program."""
    prompts, key_B, examples = inputs
    rollouts = sample(
        state.params, prompts, key_B, jnp.float32(1.0), jnp.int32(0),
        architecture=tiny, settings=SAMPLER,
    )  # fmt: skip
    step = supervised_update.lower(
        state, examples, architecture=tiny, optimizer=OPTIMIZER, settings=SUPERVISED
    ).compile()
    after, metrics = step(state, examples)
    return rollouts, after, metrics, step


def first_state(params: Any) -> TrainState:
    """A state of one's own: the update takes it."""
    params = jax.tree.map(jnp.copy, params)
    return TrainState(jnp.int32(0), params, OPTIMIZER.init(params), None)


@pytest.fixture(scope="module")
def on_one_device(tiny: Any, tiny_params: Any, inputs: Any) -> Any:
    return computed(tiny, first_state(tiny_params), inputs)


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def on_eight_devices(request: Any, tiny: Any, tiny_params: Any, inputs: Any) -> Any:
    mesh = make_mesh(*request.param)
    state = first_state(tiny_params)
    state = jax.device_put(state, state_shardings(state, mesh))
    return computed(tiny, state, jax.device_put(inputs, batch_sharding(mesh)))


def moments(state: TrainState) -> tuple[Any, Any]:
    """First and second moments; after one update, the gradient and its square."""
    adam_state = state.opt_state[1][0]
    return adam_state.mu, adam_state.nu


def test_sampled_tokens_are_those_of_one_device(
    on_one_device: Any, on_eight_devices: Any
) -> None:
    expected, rollouts = on_one_device[0], on_eight_devices[0]
    np.testing.assert_array_equal(rollouts.completion_BT, expected.completion_BT)
    np.testing.assert_array_equal(rollouts.lengths_B, expected.lengths_B)
    np.testing.assert_allclose(
        rollouts.sampler_logprobs_BT, expected.sampler_logprobs_BT, atol=1e-5
    )


def test_loss_and_gradient_are_those_of_one_device(
    on_one_device: Any, on_eight_devices: Any
) -> None:
    _, expected_state, expected, _ = on_one_device
    _, state, metrics, _ = on_eight_devices
    assert float(metrics["loss"]) == pytest.approx(float(expected["loss"]), rel=1e-5)
    norm = float(expected["grad_norm"])
    assert float(metrics["grad_norm"]) == pytest.approx(norm, rel=1e-5)
    jax.tree.map(
        lambda left, right: np.testing.assert_allclose(left, right, atol=1e-6 * norm),
        moments(state)[0],
        moments(expected_state)[0],
    )


def test_every_mesh_divides_the_arithmetic(
    on_one_device: Any, on_eight_devices: Any
) -> None:
    # An eighth, and on (8, 1, 1) the optimiser's on whole weights.
    flops = [
        run[3].cost_analysis()["flops"] for run in (on_eight_devices, on_one_device)
    ]
    assert flops[0] < flops[1] / 4


def test_no_device_sees_the_states_of_all_rows(on_eight_devices: Any) -> None:
    program = on_eight_devices[3].as_text()
    assert f"f32[{P},{S + T}," not in program


def test_state_stays_where_it_was(on_eight_devices: Any) -> None:
    state = on_eight_devices[1]
    mesh = state.params["embedding_VD"].sharding.mesh
    places = jax.tree.map(
        lambda array, sharding: array.sharding.is_equivalent_to(sharding, array.ndim),
        state,
        state_shardings(state, mesh),
    )
    assert jax.tree.all(places)


def test_rows_stay_with_their_prompts(on_eight_devices: Any) -> None:
    rollouts = on_eight_devices[0]
    expected = batch_sharding(rollouts.completion_BT.sharding.mesh)
    assert rollouts.completion_BT.sharding.is_equivalent_to(expected, 2)


def test_a_device_holds_its_share_of_the_cache(
    tiny: Any, tiny_params: Any, inputs: Any
) -> None:
    mesh = make_mesh(8)
    params = jax.device_put(tiny_params, param_shardings(tiny, mesh))
    prompts, key_B, _ = jax.device_put(inputs, batch_sharding(mesh))
    settings = SAMPLER._replace(max_new_tokens=512)
    memory: Any = (
        sample.lower(
            params, prompts, key_B, jnp.float32(1.0), jnp.int32(0),
            architecture=tiny, settings=settings,
        )
        .compile()
        .memory_analysis()
    )  # fmt: skip
    row_bytes = 2 * 4 * tiny.num_layers * tiny.num_kv_heads * tiny.head_width * 512
    assert memory.temp_size_in_bytes < B * row_bytes / 3


def test_names_say_where_parameters_lie(tiny: Any) -> None:
    shardings = param_shardings(tiny._replace(is_tied=False), make_mesh(1, 4, 2))
    spec = jax.tree.map(lambda sharding: sharding.spec, shardings)
    assert spec["embedding_VD"] == PartitionSpec("tensor", "fsdp")
    assert spec["head_VD"] == PartitionSpec("tensor", "fsdp")
    assert spec["final_norm"]["scale"] == PartitionSpec()
    layers = spec["layers"]
    assert layers["q_DNH"] == PartitionSpec(None, "fsdp", "tensor", None)
    assert layers["v_DKH"] == PartitionSpec(None, "fsdp", "tensor", None)
    assert layers["o_NHD"] == PartitionSpec(None, "tensor", None, "fsdp")
    assert layers["gate_DF"] == PartitionSpec(None, "fsdp", "tensor")
    assert layers["down_FD"] == PartitionSpec(None, "tensor", "fsdp")
    assert layers["q_norm"]["scale"] == PartitionSpec()


def test_moments_of_every_optimiser_lie_with_their_parameters(
    tiny: Any, tiny_params: Any
) -> None:
    rate = optax.constant_schedule(1e-3)
    optimizer = muon(rate, rate, beta1=0.9, beta2=0.99, weight_decay=0.0, clip_norm=1.0)
    state = jax.eval_shape(optimizer.init, tiny_params)
    shardings = state_shardings(state, make_mesh(1, 4, 2))
    specs: dict[str, set] = {}
    for path, sharding in jax.tree_util.tree_leaves_with_path(shardings):
        specs.setdefault(getattr(path[-1], "key", "count"), set()).add(sharding.spec)
    assert specs["q_DNH"] == {PartitionSpec(None, "fsdp", "tensor", None)}
    assert specs["embedding_VD"] == {PartitionSpec("tensor", "fsdp")}
    assert specs["count"] == {PartitionSpec()}


def test_parameters_can_be_made_where_they_belong(tiny: Any) -> None:
    shardings = param_shardings(tiny, make_mesh(2, 2, 2))
    create = jax.jit(initial_params, static_argnums=0, out_shardings=shardings)
    params = create(tiny, jax.random.key(0))
    shard = params["layers"]["down_FD"].addressable_shards[0].data
    assert shard.shape == (tiny.num_layers, tiny.mlp_width // 2, tiny.width // 2)


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({}, (8, 1, 1)),
        ({"fsdp": 4}, (2, 4, 1)),
        ({"fsdp": 2, "tensor": 4}, (1, 2, 4)),
        ({"data": 2, "fsdp": 2, "tensor": 2}, (2, 2, 2)),
    ],
)
def test_auto_takes_the_devices_that_are_left(
    axes: dict[str, Any], expected: tuple[int, ...]
) -> None:
    mesh = make_mesh(**axes)
    assert tuple(mesh.shape[name] for name in ("data", "fsdp", "tensor")) == expected


def test_a_mesh_can_be_made_of_some_devices() -> None:
    devices = jax.devices()[2:4]
    mesh = make_mesh(tensor=2, devices=devices)
    assert list(mesh.devices.ravel()) == devices
    assert replicated(mesh).is_fully_replicated


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"fsdp": 3}, r"mesh.fsdp 3 \* mesh.tensor 1 = 3 .* 8 .*\[1, 2, 4, 8\]"),
        ({"data": 2, "fsdp": 2}, r"2 \* mesh.fsdp 2 \* mesh.tensor 1 = 4, .* 8"),
        ({"data": 16}, r"= 16, but there are 8 devices"),
    ],
)
def test_a_mesh_that_does_not_fit_the_devices_is_refused_with_the_arithmetic(
    axes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_mesh(**axes)


@pytest.mark.parametrize(
    ("change", "axes", "message"),
    [
        ({}, {"tensor": 4}, r"k_DKH has K = 2, .*tensor = 4.*\(2 left.*\[1, 2\]"),
        ({"width": 20}, {"fsdp": 8}, r"embedding_VD has D = 20, .*fsdp = 8.*\(4 left"),
        ({"vocab_size": 449}, {"tensor": 2}, r"V = 449, .*tensor = 2.*\[1, 449\]"),
    ],
)
def test_a_model_that_does_not_fit_the_mesh_is_refused_with_the_arithmetic(
    tiny: Any, change: dict[str, int], axes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        param_shardings(tiny._replace(**change), make_mesh(**axes))
