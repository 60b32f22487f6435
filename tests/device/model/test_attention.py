"""Every implementation of attention, and its gradient, against loops in float64.

Splash attention runs in interpret mode. The cuDNN kernel needs an NVIDIA GPU and is not
run: its layout is run here over plain XLA, by the same `jax.nn` function, and the
program that calls it is lowered for CUDA.
"""

import re
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.config_tables import ModelConfig
from jaxgrpo.device.model.attention import choice, chunked, cudnn, splash, xla
from jaxgrpo.device.model.attention.choice import (
    ATTENTIONS,
    automatic_attention,
    check_attention,
    completion_attention,
    self_attention,
)
from tests.reference.attention import attention, shared_prefix_attention

P, S, B, T, N, H = 3, 6, 6, 5, 4, 8
LENGTHS_P = np.array([6, 1, 4])
INDEX_B = np.arange(B) // (B // P)
SEGMENTS_PS = np.array([[5, 5, 5, 2, 2, 9], [1, 1, 1, 1, 1, 1], [3, 4, 4, 7, 0, 0]])
SMALL = {"num_queries": 2, "num_keys": 3}  # more than one chunk, none of them whole


def xla_completions(q_BTNH, pk_PSKH, pv_PSKH, k_BTKH, v_BTKH, lengths_P):
    return completion_attention(
        q_BTNH, pk_PSKH, pv_PSKH, k_BTKH, v_BTKH, lengths_P, None, attention="xla"
    )


SELF = {
    "xla": xla.causal_attention,
    "chunked": chunked.self_attention,
    "chunked_small": partial(chunked.self_attention, **SMALL),
    "splash": partial(splash.self_attention, interpret=True),
}
COMPLETIONS = {
    "xla": xla_completions,
    "chunked": chunked.completion_attention,
    "chunked_small": partial(chunked.completion_attention, **SMALL),
    "splash": partial(splash.completion_attention, interpret=True),
    "cudnn_layout": partial(cudnn.completion_attention, implementation="xla"),
}


def draw(num_kv_heads: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(num_kv_heads)
    K = num_kv_heads
    shapes = {
        "q_PSNH": (P, S, N, H), "k_PSKH": (P, S, K, H), "v_PSKH": (P, S, K, H),
        "q_BTNH": (B, T, N, H), "k_BTKH": (B, T, K, H), "v_BTKH": (B, T, K, H),
        "out_bar_PSNH": (P, S, N, H), "out_bar_BTNH": (B, T, N, H),
    }  # fmt: skip
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def values_and_gradients(function: Any, arrays: Any, out_bar: Any, *rest: Any) -> Any:
    """The result and the gradient of sum(out * out_bar), in float32."""
    operands = tuple(jnp.asarray(x, jnp.float32) for x in arrays)

    @jax.jit
    def run(operands, out_bar, *rest):
        out, pull = jax.vjp(lambda *operands: function(*operands, *rest), *operands)
        return out, pull(out_bar)

    return run(operands, jnp.asarray(out_bar, jnp.float32), *rest)


def assert_equal(ours: Any, expected: Any) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), ours, expected)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("name", SELF)
def test_packed_self_attention_equals_loops(name: str, num_kv_heads: int) -> None:
    a = draw(num_kv_heads)
    operands = a["q_PSNH"], a["k_PSKH"], a["v_PSKH"]
    is_same_PSS = SEGMENTS_PS[:, :, None] == SEGMENTS_PS[:, None, :]
    is_visible_PSS = is_same_PSS & np.tri(S, dtype=bool)
    assert_equal(
        values_and_gradients(
            SELF[name], operands, a["out_bar_PSNH"], jnp.asarray(SEGMENTS_PS)
        ),
        attention(*operands, is_visible_PSS, a["out_bar_PSNH"]),
    )


@pytest.mark.parametrize("name", [*SELF, "cudnn_layout"])
def test_self_attention_of_padded_rows_equals_loops(name: str) -> None:
    a = draw(2)
    operands = a["q_PSNH"], a["k_PSKH"], a["v_PSKH"]
    is_token_PS = np.arange(S) < LENGTHS_P[:, None]
    out_bar_PSNH = np.where(is_token_PS[..., None, None], a["out_bar_PSNH"], 0.0)
    if name == "cudnn_layout":
        function = partial(cudnn.self_attention, implementation="xla")
        rest = jnp.asarray(LENGTHS_P)
    else:
        function, rest = SELF[name], None
    out, gradients = values_and_gradients(function, operands, out_bar_PSNH, rest)
    expected, expected_gradients = attention(
        *operands, np.broadcast_to(np.tri(S, dtype=bool), (P, S, S)), out_bar_PSNH
    )
    assert np.isfinite(out).all()
    assert_equal(out[is_token_PS], expected[is_token_PS])
    assert_equal(gradients, expected_gradients)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("name", COMPLETIONS)
def test_completions_after_a_shared_prompt_equal_loops(
    name: str, num_kv_heads: int
) -> None:
    a = draw(num_kv_heads)
    operands = (
        a["q_BTNH"], a["k_PSKH"], a["v_PSKH"], a["k_BTKH"], a["v_BTKH"],
    )  # fmt: skip
    assert_equal(
        values_and_gradients(
            COMPLETIONS[name], operands, a["out_bar_BTNH"], jnp.asarray(LENGTHS_P)
        ),
        shared_prefix_attention(*operands, LENGTHS_P, INDEX_B, a["out_bar_BTNH"]),
    )


@pytest.mark.parametrize("name", ["xla", "chunked"])
def test_rows_in_any_order_follow_their_prompt_index(name: str) -> None:
    a, index_B = draw(2), np.array([1, 0, 0, 2, 0, 1])
    operands = (
        a["q_BTNH"], a["k_PSKH"], a["v_PSKH"], a["k_BTKH"], a["v_BTKH"],
    )  # fmt: skip
    assert_equal(
        values_and_gradients(
            partial(completion_attention, attention=name),
            operands, a["out_bar_BTNH"], jnp.asarray(LENGTHS_P), jnp.asarray(index_B),
        ),
        shared_prefix_attention(*operands, LENGTHS_P, index_B, a["out_bar_BTNH"]),
    )  # fmt: skip


def test_splash_blocks_and_their_offset_equal_loops() -> None:
    # Two blocks of queries, three of keys, none of them whole.
    rng = np.random.default_rng(0)
    num_prompt, num_new = 140, 150
    q, k, v, pk, pv, out_bar = (
        rng.normal(size=(1, length, heads, H))
        for length, heads in [
            (num_new, 2), (num_new, 1), (num_new, 1), (num_prompt, 1), (num_prompt, 1),
            (num_new, 2),
        ]
    )  # fmt: skip
    operands = (q, pk, pv, k, v)
    lengths_P = np.array([131])
    assert_equal(
        values_and_gradients(
            COMPLETIONS["splash"], operands, out_bar, jnp.asarray(lengths_P)
        ),
        shared_prefix_attention(*operands, lengths_P, [0], out_bar),
    )


@pytest.mark.parametrize(
    ("num_positions", "size"),
    [(1, 128), (128, 128), (150, 128), (250, 256), (460, 512), (4095, 512)],
)
def test_a_block_pads_a_row_by_an_eighth_at_most(num_positions: int, size: int) -> None:
    assert splash.block_size(num_positions) == size


def test_a_query_that_sees_nothing_is_finite_in_plain_xla() -> None:
    a = draw(2)
    operands = [
        jnp.asarray(a[name], jnp.float32)
        for name in ("q_BTNH", "k_PSKH", "v_PSKH", "k_BTKH", "v_BTKH")
    ]
    is_prefix_PS, is_visible_TT = jnp.zeros((P, S), bool), jnp.zeros((T, T), bool)
    out = jax.jit(xla.prefixed_attention)(*operands, is_prefix_PS, is_visible_TT, None)
    assert np.isfinite(out).all()


def test_a_query_that_sees_nothing_is_finite_and_learns_nothing_in_chunks() -> None:
    a = draw(2)
    operands = a["q_PSNH"], a["k_PSKH"], a["v_PSKH"]

    def function(q_PSNH, k_PSKH, v_PSKH):
        other_PS = jnp.ones((P, S), int)
        return chunked.causal_chunks(
            q_PSNH, k_PSKH, v_PSKH, other_PS, 2 * other_PS, **SMALL
        )

    out, gradients = values_and_gradients(function, operands, a["out_bar_PSNH"])
    assert np.isfinite(out).all()
    assert all(not np.any(gradient) for gradient in gradients)


@pytest.mark.parametrize("name", ["xla", "chunked"])
def test_softmax_is_float32_when_the_rest_is_bfloat16(name: str) -> None:
    a = draw(2)
    operands = [jnp.asarray(a[x], jnp.bfloat16) for x in ("q_PSNH", "k_PSKH", "v_PSKH")]
    text = jax.jit(SELF[name]).lower(*operands, None).as_text()
    exponentials = [line for line in text.splitlines() if "exponential" in line]
    assert exponentials and all("f32" in line for line in exponentials)


@pytest.mark.parametrize(("name", "is_square"), [("xla", True), ("chunked", False)])
def test_only_plain_xla_holds_the_scores_of_a_whole_row(
    name: str, is_square: bool
) -> None:
    q_PSNH, k_PSKH = (jnp.zeros((1, 1031, heads, 4)) for heads in (2, 1))

    def loss(q_PSNH, k_PSKH, v_PSKH):
        return SELF[name](q_PSNH, k_PSKH, v_PSKH, None).sum()

    program = jax.jit(jax.grad(loss, (0, 1, 2))).lower(q_PSNH, k_PSKH, k_PSKH)
    # Rows of 1,031 are padded to 1,280 queries and 1,536 keys; heads may be folded.
    sizes = {
        int(size)
        for shape in re.findall(r"tensor<([\dx]+)xf32>", program.as_text())
        for size in [np.prod([int(n) for n in shape.split("x")])]
    }
    assert (max(sizes) >= 1031**2) == is_square


def test_the_result_is_chosen_by_the_size_of_the_scores(monkeypatch: Any) -> None:
    operands = [jnp.zeros((2, 8, heads, 4)) for heads in (2, 1, 1)]
    lengths_P = jnp.array([8, 8])

    def program(attention: str) -> str:
        function = partial(self_attention, attention=attention)
        return jax.jit(function).lower(*operands, lengths_P).as_text()

    scores_bytes = 4 * 2 * 2 * 8 * 8
    monkeypatch.setattr(choice, "LARGEST_SCORES_BYTES", scores_bytes)
    assert program("by_size") == program("xla")
    monkeypatch.setattr(choice, "LARGEST_SCORES_BYTES", scores_bytes - 1)
    assert program("by_size") == program("chunked")
    assert program("chunked") != program("xla")


BFLOAT16 = {"dtype": "bfloat16", "head_width": 128}


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ({**BFLOAT16, "platform": "tpu"}, "splash"),
        ({"dtype": "float32", "head_width": 64, "platform": "tpu"}, "splash"),
        ({**BFLOAT16, "platform": "gpu"}, "cudnn"),
        ({"dtype": "float32", "head_width": 128, "platform": "gpu"}, "by_size"),
        ({"dtype": "bfloat16", "head_width": 20, "platform": "gpu"}, "by_size"),
        ({**BFLOAT16, "platform": "cpu"}, "by_size"),
    ],
)
def test_attention_is_chosen_by_platform_and_arithmetic(target: Any, name: str) -> None:
    assert automatic_attention(**target) == name
    check_attention(name, **target)


@pytest.mark.parametrize(
    ("attention", "target", "message"),
    [
        ("splash", {**BFLOAT16, "platform": "gpu"}, "runs on TPU, not on GPU"),
        ("cudnn", {**BFLOAT16, "platform": "cpu"}, "runs on GPU, not on CPU"),
        (
            "cudnn",
            {"dtype": "float32", "head_width": 64, "platform": "gpu"},
            "computes in bfloat16 or float16, not in float32. Set model.compute_dtype",
        ),
        (
            "cudnn",
            {"dtype": "bfloat16", "head_width": 20, "platform": "gpu"},
            "multiple of 8 up to 256, not 20",
        ),
    ],
)
def test_an_attention_that_cannot_run_is_refused(
    attention: str, target: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        check_attention(attention, **target)
    assert "\n" not in str(error.value)


def zeros(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize(
    ("attention", "dtype", "segments", "message"),
    [
        ("flash", jnp.float32, None, "attention is 'flash'. Use one of"),
        ("cudnn", jnp.float32, None, "not in float32"),
        ("cudnn", jnp.bfloat16, zeros(2, 8, dtype=jnp.int32), "knows no segments"),
    ],
)
def test_what_is_given_must_suit_the_implementation(
    attention: str, dtype: Any, segments: Any, message: str
) -> None:
    q, k = (zeros(2, 8, heads, 16, dtype=dtype) for heads in (4, 2))
    function = partial(self_attention, attention=attention)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(
            lambda *operands: function(*operands[:4], segment_ids_PS=operands[4]),
            q, k, k, zeros(2, dtype=jnp.int32), segments,
        )  # fmt: skip


def test_the_cudnn_kernel_is_lowered_for_cuda_with_padding_by_length(
    lowered_for_cuda: Any,
) -> None:
    shapes = [
        zeros(4, 5, 4, 16, dtype=jnp.bfloat16),
        *[zeros(2, 6, 2, 16, dtype=jnp.bfloat16)] * 2,
        *[zeros(4, 5, 2, 16, dtype=jnp.bfloat16)] * 2,
    ]

    def loss(operands: Any, lengths_P: Any) -> Any:
        function: Any = partial(completion_attention, attention="cudnn")
        out_BTNH = function(*operands, lengths_P, None)
        return out_BTNH.astype(jnp.float32).sum()

    text = lowered_for_cuda(jax.grad(loss), shapes, zeros(2, dtype=jnp.int32))
    assert text.count("__cudnn$fmhaSoftmax(") == 1
    assert text.count("__cudnn$fmhaSoftmaxBackward(") == 1
    assert set(re.findall(r"mask_type[\\2: ]+([A-Z_]+)", text)) == {"PADDING_CAUSAL"}


def test_every_name_of_the_configuration_is_implemented() -> None:
    annotation = ModelConfig.model_fields["attention"].annotation
    assert set(get_args(annotation)) - {"auto"} == set(ATTENTIONS) - {"by_size"}
