"""Schedules in numbers, and which parameters each part of an optimiser touches."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from optax.contrib import MuonDimensionNumbers

from jaxgrpo.device.optimizer import (
    adamw,
    apply_gradients,
    is_matrix,
    learning_rate_schedule,
    matrix_dims,
    muon,
)
from jaxgrpo.device.records import TrainState

MATRICES = {"q_DNH", "down_FD"}
# 100 updates: 10 of warm-up, 50 at the peak, 40 of decay down to a tenth.
SCHEDULE: dict[str, Any] = {
    "num_updates": 100,
    "warmup_updates": 10,
    "decay_fraction": 0.4,
    "final_scale": 0.1,
}
CONSTANT = optax.constant_schedule(1e-2)


@pytest.fixture(scope="module")
def params() -> Any:
    """As a decoder names them: stacked matrices and norms, an embedding."""
    rng = np.random.default_rng(0)
    shapes = {
        "embedding_VD": (5, 4),
        "final_norm": {"scale": (4,)},
        "layers": {
            "q_DNH": (2, 4, 2, 3),
            "down_FD": (2, 6, 4),
            "mlp_norm": {"scale": (2, 4)},
        },
    }
    is_shape = lambda node: isinstance(node, tuple)  # noqa: E731
    draw = lambda shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    return jax.tree.map(draw, shapes, is_leaf=is_shape)


def by_name(tree: Any) -> dict[str, Any]:
    """Leaves by the last two parts of their path, joined."""
    is_leaf = lambda x: x is None or isinstance(x, MuonDimensionNumbers)  # noqa: E731
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    return {".".join(str(part.key) for part in path[-2:]): x for path, x in leaves}


def is_named_matrix(name: str) -> bool:
    return name.split(".")[-1] in MATRICES


@pytest.mark.parametrize(
    ("shape", "count", "expected"),
    [
        ("linear", 0, 0.1),
        ("linear", 4, 0.5),
        ("linear", 9, 1.0),
        ("linear", 10, 1.0),
        ("linear", 60, 1.0),
        ("linear", 80, 0.55),
        ("linear", 100, 0.1),
        ("linear", 500, 0.1),
        ("cosine", 0, 0.1),
        ("cosine", 60, 1.0),
        ("cosine", 70, 0.1 + 0.9 * (1 + np.cos(np.pi / 4)) / 2),
        ("cosine", 80, 0.55),
        ("cosine", 100, 0.1),
        ("constant", 0, 0.1),
        ("constant", 9, 1.0),
        ("constant", 99, 1.0),
    ],
)
def test_schedule_has_these_values(shape: Any, count: int, expected: float) -> None:
    schedule: Any = learning_rate_schedule(3.0, shape=shape, **SCHEDULE)
    assert float(schedule(count)) == pytest.approx(3.0 * expected, rel=1e-5)


def test_schedule_without_warmup_starts_at_the_peak() -> None:
    settings: dict[str, Any] = SCHEDULE | {"warmup_updates": 0}
    schedule: Any = learning_rate_schedule(3.0, shape="linear", **settings)
    assert float(schedule(0)) == 3.0


def test_one_update_of_warmup_is_no_reduced_update() -> None:
    settings: dict[str, Any] = SCHEDULE | {"warmup_updates": 1}
    schedule: Any = learning_rate_schedule(3.0, shape="constant", **settings)
    assert [float(schedule(count)) for count in range(3)] == [3.0, 3.0, 3.0]


def test_decay_over_the_whole_run_starts_after_the_warmup() -> None:
    settings: dict[str, Any] = SCHEDULE | {"decay_fraction": 1.0, "final_scale": 0.0}
    schedule: Any = learning_rate_schedule(1.0, shape="linear", **settings)
    values = [float(schedule(count)) for count in (9, 10, 55, 99, 100)]
    assert values == pytest.approx([1.0, 1.0, 0.5, 1 / 90, 0.0], abs=1e-6)


def test_only_layer_matrices_are_matrices(params: Any) -> None:
    for name, answer in by_name(is_matrix(params)).items():
        assert answer == is_named_matrix(name)


def test_matrix_dims_leave_out_the_layer_axis(params: Any) -> None:
    dims = by_name(matrix_dims(params))
    assert dims["layers.q_DNH"].reduction_axis == (1,)
    assert dims["layers.q_DNH"].output_axis == (2, 3)
    assert dims["embedding_VD"] is None and dims["mlp_norm.scale"] is None


def updates_of(optimizer: Any, grads: Any, params: Any) -> dict[str, Any]:
    def first_updates(grads: Any, params: Any) -> Any:
        return optimizer.update(grads, optimizer.init(params), params)[0]

    return by_name(jax.jit(first_updates)(grads, params))


def test_adamw_decays_matrices_only(params: Any) -> None:
    optimizer = adamw(CONSTANT, beta1=0.9, beta2=0.99, weight_decay=0.1, clip_norm=1.0)
    zeros = jax.tree.map(jnp.zeros_like, params)
    named = by_name(params)
    for name, update in updates_of(optimizer, zeros, params).items():
        decay = 0.1 if is_named_matrix(name) else 0.0
        np.testing.assert_allclose(update, -1e-2 * decay * named[name], rtol=1e-5)


def test_gradients_are_clipped_by_their_global_norm(params: Any) -> None:
    optimizer = adamw(CONSTANT, beta1=0.9, beta2=0.99, weight_decay=0.0, clip_norm=0.5)
    _, state = optimizer.update(params, optimizer.init(params), params)
    first_moments = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if any(getattr(part, "name", "") == "mu" for part in path)
    ]
    norm = np.sqrt(sum(np.square(leaf).sum() for leaf in first_moments))
    assert norm == pytest.approx(0.1 * 0.5, rel=1e-5)  # (1 - beta1) * clip_norm


def muon_of(learning_rate: float, muon_learning_rate: float, decay: float) -> Any:
    return muon(
        optax.constant_schedule(learning_rate),
        optax.constant_schedule(muon_learning_rate),
        beta1=0.8, beta2=0.95, weight_decay=decay, clip_norm=1e9,
    )  # fmt: skip


def test_muon_leaves_embedding_and_norms_to_adam(params: Any) -> None:
    updates = updates_of(muon_of(1e-2, 0.0, 0.0), params, params)
    adam = optax.adamw(1e-2, b1=0.8, b2=0.95, weight_decay=0.0, nesterov=True)
    expected = updates_of(adam, params, params)
    for name, update in updates.items():
        if is_named_matrix(name):
            assert not update.any()
        else:
            np.testing.assert_allclose(update, expected[name], rtol=1e-5)


def test_muon_makes_each_layers_update_orthogonal(params: Any) -> None:
    updates = updates_of(muon_of(0.0, 1.0, 0.0), params, params)
    assert not updates["embedding_VD"].any()
    for name, shape in {"layers.q_DNH": (4, 6), "layers.down_FD": (6, 4)}.items():
        num_in, num_out = shape
        for update in np.asarray(updates[name]):
            singular = np.linalg.svd(update.reshape(shape), compute_uv=False)
            # Five Newton-Schulz steps bring singular values near 1, not to it.
            scale = np.sqrt(max(1.0, num_out / num_in))
            assert np.all((0.6 < singular / scale) & (singular / scale < 1.3))


def test_muon_decays_matrices_only(params: Any) -> None:
    zeros = jax.tree.map(jnp.zeros_like, params)
    named = by_name(params)
    updates = updates_of(muon_of(1e-2, 1e-2, 0.1), zeros, params)
    for name, update in updates.items():
        decay = 0.1 if is_named_matrix(name) else 0.0
        np.testing.assert_allclose(update, -1e-2 * decay * named[name], rtol=1e-5)


def test_nothing_to_learn_from_leaves_weights_and_moments_alone(params: Any) -> None:
    """Momentum and decay would move them: the gradient of no completion is 0."""
    chain = adamw(optax.constant_schedule(0.1), beta1=0.9, beta2=0.95,
                  weight_decay=0.1, clip_norm=1.0)  # fmt: skip
    state = TrainState(jnp.int32(0), params, chain.init(params), None)
    ones = jax.tree.map(jnp.ones_like, params)
    state, _ = apply_gradients(state, jnp.float32(1.0), ones, chain)
    zeros = jax.tree.map(jnp.zeros_like, params)
    moved, _ = apply_gradients(state, jnp.float32(0.0), zeros, chain)
    kept, metrics = apply_gradients(
        state, jnp.float32(0.0), zeros, chain, has_tokens=jnp.array(False)
    )
    jax.tree.map(np.testing.assert_array_equal, kept.params, state.params)
    jax.tree.map(np.testing.assert_array_equal, kept.opt_state, state.opt_state)
    assert kept.step == 2 and metrics["update_skipped"] == 0.0
    changes = jax.tree.map(lambda a, b: bool((a != b).any()), moved.params, kept.params)
    assert all(jax.tree.leaves(changes))
