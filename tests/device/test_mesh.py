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
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.supervised import (
    Examples,
    SupervisedSettings,
    supervised_update,
)

P, S, T = 8, 6, 5
SHAPES = [(8, 1, 1), (2, 2, 2), (1, 4, 2)]
SUPERVISED = SupervisedSettings(num_tokens=300, logprob_chunk=32)
OPTIMIZER = adamw(
    optax.constant_schedule(1e-2), beta1=0.9, beta2=0.99, weight_decay=0.0,
    clip_norm=1e9,
)  # fmt: skip


@pytest.fixture(scope="module")
def examples() -> Examples:
    """What is imitated."""
    rng = np.random.default_rng(4)
    lengths_P = jnp.asarray(rng.integers(1, 7, P))
    return Examples(
        jnp.asarray(rng.integers(0, 300, (P, S + T))),
        lengths_P,
        lengths_P + jnp.asarray(rng.integers(0, T + 1, P)),
    )


def computed(tiny: Any, state: TrainState, examples: Examples) -> Any:
    """State and metrics after one supervised update, and its program."""
    step = supervised_update.lower(
        state, examples, architecture=tiny, optimizer=OPTIMIZER, settings=SUPERVISED
    ).compile()
    after, metrics = step(state, examples)
    return after, metrics, step


def first_state(params: Any) -> TrainState:
    """A state of one's own: the update takes it."""
    params = jax.tree.map(jnp.copy, params)
    return TrainState(jnp.int32(0), params, OPTIMIZER.init(params), None)


@pytest.fixture(scope="module")
def on_one_device(tiny: Any, tiny_params: Any, examples: Examples) -> Any:
    return computed(tiny, first_state(tiny_params), examples)


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def on_eight_devices(
    request: Any, tiny: Any, tiny_params: Any, examples: Examples
) -> Any:
    mesh = make_mesh(*request.param)
    state = first_state(tiny_params)
    state = jax.device_put(state, state_shardings(state, mesh))
    return computed(tiny, state, jax.device_put(examples, batch_sharding(mesh)))


def moments(state: TrainState) -> tuple[Any, Any]:
    """First and second moments; after one update, the gradient and its square."""
    adam_state = state.opt_state[1][0]
    return adam_state.mu, adam_state.nu


def assert_same_learning(run: Any, expected_run: Any) -> None:
    """Loss, gradient and its norm of two updates are the same up to rounding."""
    (expected_state, expected, _), (state, metrics, _) = expected_run, run
    loss = pytest.approx(float(expected["loss"]), rel=1e-5, abs=1e-6)
    assert float(metrics["loss"]) == loss
    norm = float(expected["grad_norm"])
    assert float(metrics["grad_norm"]) == pytest.approx(norm, rel=1e-5)
    jax.tree.map(
        lambda left, right: np.testing.assert_allclose(left, right, atol=1e-6 * norm),
        moments(state)[0],
        moments(expected_state)[0],
    )


def test_loss_and_gradient_are_those_of_one_device(
    on_one_device: Any, on_eight_devices: Any
) -> None:
    assert_same_learning(on_eight_devices, on_one_device)


def test_eight_key_heads_can_be_split_over_eight_devices(
    tiny: Any, examples: Examples
) -> None:
    eight = tiny._replace(num_heads=8, num_kv_heads=8)
    params = initial_params(eight, jax.random.key(1))
    expected = computed(eight, first_state(params), examples)
    state = first_state(params)
    state = jax.device_put(state, state_shardings(state, make_mesh(1, 1, 8)))
    assert_same_learning(computed(eight, state, examples), expected)


def test_every_mesh_divides_the_arithmetic(
    on_one_device: Any, on_eight_devices: Any
) -> None:
    # An eighth, and on (8, 1, 1) the optimiser's on whole weights.
    flops = [
        run[2].cost_analysis()["flops"] for run in (on_eight_devices, on_one_device)
    ]
    assert flops[0] < flops[1] / 4


def test_no_device_sees_the_states_of_all_rows(on_eight_devices: Any) -> None:
    program = on_eight_devices[2].as_text()
    assert f"f32[{P},{S + T}," not in program


def test_state_stays_where_it_was(on_eight_devices: Any) -> None:
    state = on_eight_devices[0]
    mesh = state.params["embedding_VD"].sharding.mesh
    places = jax.tree.map(
        lambda array, sharding: array.sharding.is_equivalent_to(sharding, array.ndim),
        state,
        state_shardings(state, mesh),
    )
    assert jax.tree.all(places)


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
