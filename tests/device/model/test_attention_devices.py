"""Fused attention on a mesh: each device computes its own rows and heads."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.mesh import batch_sharding, make_mesh, param_shardings
from jaxgrpo.device.model.attention import cudnn, splash
from jaxgrpo.device.model.decoder import bind, forward_completions
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.records import Prompts

P, S, B, T = 4, 6, 8, 5


@pytest.fixture(scope="module")
def batch() -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    return (
        rng.integers(0, 300, (P, S)), np.array([6, 1, 4, 2]),
        rng.integers(0, 300, (B, T)), np.arange(B) // (B // P),
    )  # fmt: skip


def loss_and_gradient(
    tiny: Any, params: Any, batch: Any, attention: str, *, is_prompt_major: bool
) -> Any:
    @jax.jit
    @jax.value_and_grad
    def run(params: Any, batch: Any) -> Any:
        token_ids_PS, lengths_P, completion_BT, prompt_index_B = batch
        hidden_BTD = forward_completions(
            bind(tiny, params, jnp.dtype("float32")),
            Prompts(token_ids_PS, lengths_P), completion_BT, prompt_index_B,
            ForwardSettings(attention=attention), is_prompt_major=is_prompt_major,
        )  # fmt: skip
        return jnp.sin(hidden_BTD).sum()

    return run(params, batch)


@pytest.fixture(scope="module")
def expected(tiny: Any, tiny_params: Any, batch: Any) -> Any:
    """On one device, in plain XLA."""
    return loss_and_gradient(tiny, tiny_params, batch, "xla", is_prompt_major=True)


@pytest.fixture
def runs_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that this platform has not: interpreted, or plain XLA underneath."""
    for module, how in [
        (splash, {"interpret": True}),
        (cudnn, {"implementation": "xla"}),
    ]:
        for name in ("self_attention", "completion_attention"):
            monkeypatch.setattr(module, name, partial(getattr(module, name), **how))
    monkeypatch.setattr(
        "jaxgrpo.device.model.attention.choice._CUDNN_DTYPES", "float32"
    )


@pytest.mark.usefixtures("runs_anywhere")
@pytest.mark.parametrize(
    ("attention", "is_prompt_major"),
    [("chunked", True), ("chunked", False), ("splash", True), ("cudnn", True)],
)
def test_loss_and_gradient_on_a_mesh_are_those_of_one_device(
    tiny: Any,
    tiny_params: Any,
    batch: Any,
    expected: Any,
    attention: str,
    is_prompt_major: bool,
) -> None:
    mesh = make_mesh(2, 2, 2)
    params = jax.device_put(tiny_params, param_shardings(tiny, mesh))
    rows = jax.device_put(batch, batch_sharding(mesh))
    loss, gradient = loss_and_gradient(
        tiny, params, rows, attention, is_prompt_major=is_prompt_major
    )
    assert float(loss) == pytest.approx(float(expected[0]), rel=1e-4)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), gradient, expected[1]
    )
