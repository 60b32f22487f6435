"""What is kept for the backward pass: never the numbers, only the memory."""

from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.config_tables import ModelConfig
from jaxgrpo.device.mesh import batch_sharding, make_mesh, param_shardings
from jaxgrpo.device.model.decoder import bind, forward_completions, initial_params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.remat import REMAT
from jaxgrpo.device.records import Prompts

P, S, B, T = 4, 8, 8, 33
NUM_TOKENS = P * S + B * (T - 1)


def integers(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


BATCH = (integers(P, S), integers(P), integers(B, T), integers(B))


def loss(params: Any, batch: Any, *, architecture: Any, settings: Any) -> Any:
    token_ids_PS, lengths_P, completion_BT, prompt_index_B = batch
    hidden_BTD = forward_completions(
        bind(architecture, params, jnp.dtype(settings.dtype)),
        Prompts(token_ids_PS, lengths_P),
        completion_BT, prompt_index_B, settings, is_prompt_major=True,
    )  # fmt: skip
    return jnp.sin(hidden_BTD.astype(jnp.float32)).sum()


def gradient_of(architecture: Any, settings: ForwardSettings) -> Any:
    return jax.value_and_grad(
        partial(loss, architecture=architecture, settings=settings)
    )


def shapes_of(architecture: Any) -> Any:
    return jax.eval_shape(lambda: initial_params(architecture, jax.random.key(0)))


def compiled(architecture: Any, settings: ForwardSettings, *operands: Any) -> Any:
    return jax.jit(gradient_of(architecture, settings)).lower(*operands).compile()


def temporary_bytes(program: Any) -> int:
    return program.memory_analysis().temp_size_in_bytes


@pytest.fixture(scope="module")
def programs(tiny: Any) -> Any:
    """Loss and gradient, compiled, by name and number of layers."""
    return {
        (remat, num_layers): compiled(
            deep, ForwardSettings(remat=remat), shapes_of(deep), BATCH
        )
        for remat in REMAT
        for num_layers in (2, 6)
        for deep in [tiny._replace(num_layers=num_layers)]
    }


@pytest.fixture(scope="module")
def results(programs: Any, tiny_params: Any) -> Any:
    """Loss and gradient by name."""
    rng = np.random.default_rng(0)
    batch = (
        rng.integers(0, 300, (P, S)), np.array([8, 1, 5, 3]),
        rng.integers(0, 300, (B, T)), np.arange(B) // (B // P),
    )  # fmt: skip
    batch = tuple(jnp.asarray(x, jnp.int32) for x in batch)
    return {remat: programs[remat, 2](tiny_params, batch) for remat in REMAT}


@pytest.mark.parametrize("remat", [name for name in REMAT if name != "none"])
def test_what_is_kept_changes_no_number(results: Any, remat: str) -> None:
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-4),
        results[remat], results["none"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def bytes_per_layer(programs: Any) -> dict[str, float]:
    """Temporary memory by name, of one layer more."""
    sizes = {key: temporary_bytes(program) for key, program in programs.items()}
    return {remat: (sizes[remat, 6] - sizes[remat, 2]) / 4 for remat in REMAT}


def test_each_name_keeps_less_than_the_one_before(bytes_per_layer: Any) -> None:
    kept = [bytes_per_layer[remat] for remat in ("none", "dots", "attention", "full")]
    assert all(more > 1.2 * less for more, less in zip(kept, kept[1:], strict=False))


@pytest.mark.parametrize("remat", ["dots", "attention"])
def test_a_layer_keeps_what_the_table_says(
    tiny: Any, bytes_per_layer: Any, remat: str
) -> None:
    D, N, K, H, F = (
        tiny.width, tiny.num_heads, tiny.num_kv_heads, tiny.head_width, tiny.mlp_width,
    )  # fmt: skip
    per_token = {
        "dots": (N + 2 * K) * H + D + 2 * F + N * H,
        "attention": (2 * N + 2 * K) * H,
    }
    expected = 4 * NUM_TOKENS * (per_token[remat] + D)  # and the layer's input
    assert bytes_per_layer[remat] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("remat", "num_runs"), [("none", 1), ("dots", 1), ("attention", 1), ("full", 2)]
)
def test_a_fused_kernel_runs_again_only_where_its_result_is_not_kept(
    tiny: Any, lowered_for_cuda: Any, remat: str, num_runs: int
) -> None:
    settings = ForwardSettings(dtype="bfloat16", attention="cudnn", remat=remat)
    text = lowered_for_cuda(gradient_of(tiny, settings), shapes_of(tiny), BATCH)
    num_attentions = 2  # of prompts and of completions, in a loop over layers
    assert text.count("__cudnn$fmhaSoftmax(") == num_attentions * num_runs
    assert text.count("__cudnn$fmhaSoftmaxBackward(") == num_attentions


def test_no_device_keeps_weights_or_gradients_of_all_layers_whole(tiny: Any) -> None:
    # Weights outweigh activations: a layer's 835 k against 4 tokens of each sequence.
    mesh = make_mesh(1, 4, 2)
    wide = tiny._replace(width=256, mlp_width=1024)
    settings = ForwardSettings(dtype="bfloat16")
    batch = tuple(
        jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=batch_sharding(mesh))
        for x in (integers(4, 4), integers(4), integers(8, 4), integers(8))
    )

    def compiled_bytes(num_layers: int) -> int:
        deep = wide._replace(num_layers=num_layers)
        params = jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(
                x.shape, x.dtype, sharding=sharding
            ),
            shapes_of(deep), param_shardings(deep, mesh),
        )  # fmt: skip
        return temporary_bytes(compiled(deep, settings, params, batch))

    layers = shapes_of(wide)["layers"]
    layer_bytes = sum(2 * x.size // wide.num_layers for x in jax.tree.leaves(layers))
    whole_along_fsdp = layer_bytes / mesh.shape["tensor"]
    growth = (compiled_bytes(6) - compiled_bytes(2)) / 4
    assert growth < whole_along_fsdp


def test_an_unknown_name_is_refused(tiny: Any) -> None:
    with pytest.raises(ValueError, match="remat is 'some'. Use one of"):
        jax.eval_shape(
            gradient_of(tiny, ForwardSettings(remat="some")), shapes_of(tiny), BATCH
        )


def test_every_name_can_be_configured() -> None:
    annotation = ModelConfig.model_fields["remat"].annotation
    assert get_args(annotation) == tuple(REMAT)
