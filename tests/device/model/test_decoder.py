"""Laws of the forward passes: they are one function, seen from several sides."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.model.decoder import (
    bind,
    forward_completions,
    forward_prompts,
    initial_params,
)
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.layer import rotate
from jaxgrpo.device.records import Prompts

# Rows are prompt-major; the second prompt is a single token.
P, S, B, T = 3, 6, 6, 5
LENGTHS_P = np.array([6, 1, 4])
TOLERANCE = 2e-5  # hidden states are of size 1 to 4; float32, summed in another order


@pytest.fixture(scope="module")
def tokens() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 384, (P, S)), rng.integers(0, 384, (B, T))


INDEX_B = np.arange(B) // (B // P)


@pytest.fixture(scope="module")
def forward(tiny: Any) -> Any:
    """Hidden states; one program a setting."""

    @partial(jax.jit, static_argnames=("is_prompt_major", "settings"))
    def run(params, token_ids_PS, lengths_P, completion_BT, prompt_index_B, **how):
        return forward_completions(
            bind(tiny, params, jnp.dtype("float32")),
            Prompts(token_ids_PS, lengths_P),
            completion_BT,
            prompt_index_B,
            **how,
        )

    return run


@pytest.fixture(scope="module")
def plain_states(tokens: Any, tiny_params: Any, forward: Any) -> Any:
    """States of the plain program: a gather of prompts, a scan over layers."""
    return forward(tiny_params, tokens[0], LENGTHS_P, tokens[1], INDEX_B)


def test_a_whole_tile_of_tokens_gives_the_states_of_its_beginning(
    tiny_params, tokens, forward
):
    # 128 tokens are all fed, of 127 all but the last.
    completion_BT = np.random.default_rng(2).integers(0, 384, (B, 128))
    whole_BTD, begun_BTD = (
        forward(tiny_params, tokens[0], LENGTHS_P, completion_BT[:, :length], INDEX_B)
        for length in (128, 127)
    )
    assert whole_BTD.shape[1] == 128
    np.testing.assert_allclose(whole_BTD[:, :127], begun_BTD, atol=TOLERANCE)


@pytest.fixture(scope="module")
def gradient(tiny: Any) -> Any:
    """Gradient of a loss on all hidden states."""

    @partial(jax.jit, static_argnames=("is_prompt_major", "settings"))
    def run(params, token_ids_PS, completion_BT, **how):
        def loss(params):
            hidden_BTD = forward_completions(
                bind(tiny, params, jnp.dtype("float32")),
                Prompts(token_ids_PS, jnp.asarray(LENGTHS_P)),
                completion_BT, jnp.asarray(INDEX_B), **how,
            )  # fmt: skip
            return jnp.sin(hidden_BTD).sum()

        return jax.grad(loss)(params)

    return run


@pytest.fixture(scope="module")
def plain_gradient(tokens: Any, tiny_params: Any, gradient: Any) -> Any:
    return gradient(tiny_params, *tokens)


def assert_close(left: Any, right: Any) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=5e-5), left, right)


def test_shared_prompts_equal_separate_rows(
    tiny: Any, tiny_params: Any, tokens: Any, plain_states: Any
) -> None:
    rows = [
        np.concatenate([tokens[0][b // 2][: LENGTHS_P[b // 2]], tokens[1][b]])
        for b in range(B)
    ]
    padded_BX = np.array([np.pad(row, (0, S + T - len(row))) for row in rows])
    lengths_B = jnp.array([len(row) for row in rows])
    hidden_BXD = jax.jit(
        lambda params: forward_prompts(
            bind(tiny, params, jnp.dtype("float32")),
            Prompts(jnp.asarray(padded_BX), lengths_B),
        )[0]
    )(tiny_params)
    for b in range(B):
        start = LENGTHS_P[b // 2] - 1
        alone_TD = hidden_BXD[b, start : start + T]
        np.testing.assert_allclose(plain_states[b], alone_TD, atol=TOLERANCE)


@pytest.mark.parametrize(
    "how",
    [
        {"is_prompt_major": True},
        {"settings": ForwardSettings(unroll_layers=True)},
        {"settings": ForwardSettings(attention="chunked")},
    ],
    ids=["prompt_major", "unrolled", "chunked"],
)
def test_another_program_gives_the_same_states(
    tiny_params: Any, tokens: Any, forward: Any, plain_states: Any, how: Any
) -> None:
    states_BTD = forward(tiny_params, tokens[0], LENGTHS_P, tokens[1], INDEX_B, **how)
    assert_close(states_BTD, plain_states)


@pytest.mark.parametrize(
    "settings",
    [
        ForwardSettings(unroll_layers=True, remat="full"),
        ForwardSettings(attention="chunked"),
    ],
    ids=["unrolled_full", "chunked"],
)
def test_another_program_gives_the_same_gradient(
    tiny_params: Any,
    tokens: Any,
    gradient: Any,
    plain_gradient: Any,
    settings: ForwardSettings,
) -> None:
    other = gradient(tiny_params, *tokens, is_prompt_major=True, settings=settings)
    assert_close(other, plain_gradient)


def test_the_program_does_not_grow_with_depth(
    tiny: Any, tiny_params: Any, tokens: Any
) -> None:
    def num_lines(num_layers: int) -> int:
        deep = tiny._replace(num_layers=num_layers)

        def loss(params: Any) -> Any:
            hidden_BTD = forward_completions(
                bind(deep, params, jnp.dtype("float32")),
                Prompts(jnp.asarray(tokens[0]), jnp.asarray(LENGTHS_P)),
                jnp.asarray(tokens[1]), jnp.asarray(INDEX_B),
                ForwardSettings(remat="dots"),
            )  # fmt: skip
            return hidden_BTD.sum()

        shapes = jax.eval_shape(lambda: initial_params(deep, jax.random.key(0)))
        return jax.jit(jax.grad(loss)).lower(shapes).as_text().count("\n")

    assert num_lines(2) == num_lines(6)


@pytest.mark.parametrize("attention", ["xla", "chunked"])
def test_sequences_packed_in_a_row_are_as_alone(
    tiny: Any, tiny_params: Any, tokens: Any, attention: str
) -> None:
    lengths = [3, 1, 2]  # and padding, a segment of its own
    packed_1S = np.concatenate([tokens[1][b, :n] for b, n in enumerate(lengths)])[None]
    packed_1S = np.pad(packed_1S, ((0, 0), (0, 2)))
    segment_ids_1S = np.repeat([4, 1, 3, 0], [*lengths, 2])[None]
    settings = ForwardSettings(attention=attention)

    @jax.jit
    def states(params, token_ids_PS, lengths_P, segment_ids_PS):
        model = bind(tiny, params, jnp.dtype("float32"))
        prompts = Prompts(token_ids_PS, lengths_P)
        return forward_prompts(model, prompts, settings, segment_ids_PS=segment_ids_PS)[
            0
        ]

    packed_SD = states(tiny_params, packed_1S, np.array([6]), segment_ids_1S)[0]
    alone_BTD = states(tiny_params, tokens[1][:3], np.array(lengths), None)
    start = 0
    for b, n in enumerate(lengths):
        np.testing.assert_allclose(
            packed_SD[start : start + n], alone_BTD[b, :n], atol=TOLERANCE
        )
        start += n


def test_rows_follow_their_prompt_index_in_any_order(
    tiny_params: Any, tokens: Any, forward: Any, plain_states: Any
) -> None:
    order_B = np.array([4, 1, 5, 0, 3, 2])
    states_BTD = forward(
        tiny_params, tokens[0], LENGTHS_P, tokens[1][order_B], INDEX_B[order_B]
    )
    assert_close(states_BTD, plain_states[order_B])


def with_garbage(tokens: Any, garbage: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens with another id wherever none is fed to the model."""
    is_prompt_PS = np.arange(S)[None, :] < LENGTHS_P[:, None]
    is_fed_T = np.arange(T) < T - 1
    return (
        np.where(is_prompt_PS, tokens[0], garbage),
        np.where(is_fed_T[None, :], tokens[1], garbage),
    )


@pytest.mark.parametrize("garbage", [383, -7, 10**6])
def test_token_ids_in_padding_change_no_bit_of_the_states(
    tiny_params: Any, tokens: Any, forward: Any, plain_states: Any, garbage: int
) -> None:
    token_ids_PS, completion_BT = with_garbage(tokens, garbage)
    states_BTD = forward(tiny_params, token_ids_PS, LENGTHS_P, completion_BT, INDEX_B)
    np.testing.assert_array_equal(states_BTD, plain_states)


@pytest.mark.parametrize("garbage", [383, -7, 10**6])
def test_token_ids_in_padding_change_no_bit_of_the_gradient(
    tiny_params: Any, tokens: Any, gradient: Any, plain_gradient: Any, garbage: int
) -> None:
    other = gradient(tiny_params, *with_garbage(tokens, garbage))
    jax.tree.map(np.testing.assert_array_equal, other, plain_gradient)


def test_later_tokens_of_a_completion_change_no_earlier_bit(
    tiny_params: Any, tokens: Any, forward: Any, plain_states: Any
) -> None:
    completion_BT = np.where(np.arange(T)[None, :] < 2, tokens[1], 17)
    states_BTD = forward(tiny_params, tokens[0], LENGTHS_P, completion_BT, INDEX_B)
    np.testing.assert_array_equal(states_BTD[:, :3], plain_states[:, :3])


def test_extra_padding_changes_nothing(
    tiny_params: Any, tokens: Any, forward: Any, plain_states: Any
) -> None:
    token_ids_PS = np.pad(tokens[0], ((0, 0), (0, 5)), constant_values=9)
    completion_BT = np.pad(tokens[1], ((0, 0), (0, 3)), constant_values=9)
    states_BTD = forward(tiny_params, token_ids_PS, LENGTHS_P, completion_BT, INDEX_B)
    assert_close(states_BTD[:, :T], plain_states)


def test_a_completion_of_one_token_needs_only_the_prompt(
    tiny_params: Any, tokens: Any, forward: Any, plain_states: Any
) -> None:
    states_BTD = forward(tiny_params, tokens[0], LENGTHS_P, tokens[1][:, :1], INDEX_B)
    assert_close(states_BTD, plain_states[:, :1])


def test_a_state_depends_on_exactly_the_tokens_before_it(
    tiny: Any, tiny_params: Any
) -> None:
    # Distinct tokens: the embedding's gradient tells the positions apart. The last
    # column of the prompt is padding.
    prompt, completion = np.arange(10, 14), np.arange(20, 24)

    def states(embedding_VD):
        params = tiny_params | {"embedding_VD": embedding_VD}
        hidden_1TD = forward_completions(
            bind(tiny, params, jnp.dtype("float32")),
            Prompts(jnp.asarray(prompt)[None], jnp.array([3])),
            jnp.asarray(completion)[None],
            jnp.array([0]),
        )
        return hidden_1TD[0] @ jnp.arange(1.0, 1.0 + tiny.width)

    gradient_TVD = jax.jit(jax.jacrev(states))(tiny_params["embedding_VD"])
    is_used_TV = (np.asarray(gradient_TVD) != 0).any(axis=-1)
    for t in range(len(completion)):
        used = {int(token) for token in np.flatnonzero(is_used_TV[t])}
        assert used == {*prompt[:3], *completion[:t]}


def test_bfloat16_stays_bfloat16_and_close(
    tiny: Any, tiny_params: Any, tokens: Any, plain_states: Any
) -> None:
    hidden_BTD = jax.jit(
        lambda params: forward_completions(
            bind(tiny, params, jnp.dtype("bfloat16")),
            Prompts(jnp.asarray(tokens[0]), jnp.asarray(LENGTHS_P)),
            jnp.asarray(tokens[1]),
            jnp.asarray(INDEX_B),
        )
    )(tiny_params)
    assert hidden_BTD.dtype == jnp.bfloat16
    difference = np.asarray(hidden_BTD, np.float32) - np.asarray(plain_states)
    # 8 bits of mantissa: a rounding error of 2^-9 each in some 20 operations.
    assert np.sqrt(np.mean(difference**2)) < 0.05


rotation = jax.jit(partial(rotate, theta=10_000.0))


def test_scores_depend_on_relative_position_only() -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=16).astype(np.float32) for _ in range(2))

    def score(position_q: int, position_k: int) -> float:
        both = np.stack([q, k])[None, :, None, :]
        rotated = rotation(both, np.array([[position_q, position_k]]))
        return float(np.dot(*np.asarray(rotated)[0, :, 0]))

    np.testing.assert_allclose(score(7, 3), score(107, 103), rtol=1e-4)
    assert abs(score(7, 3) - score(7, 4)) > 1e-2


def test_rotation_at_position_zero_is_the_identity() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 1, 16)
    np.testing.assert_array_equal(rotation(x, np.array([[0, 0]])), x)


def test_initial_matrices_are_scaled_by_their_fan_in(tiny: Any) -> None:
    params = jax.jit(initial_params, static_argnums=0)(tiny, jax.random.key(0))
    layers, depth_scale = params["layers"], (2 * tiny.num_layers) ** -0.5
    expected = {
        "q_DNH": tiny.width**-0.5,
        "up_DF": tiny.width**-0.5,
        "o_NHD": depth_scale * (tiny.num_heads * tiny.head_width) ** -0.5,
        "down_FD": depth_scale * tiny.mlp_width**-0.5,
    }
    spread = {name: np.std(layers[name]) for name in expected}
    # The relative error of the spread of 4,096 draws is 1 %.
    assert spread == pytest.approx(expected, rel=0.05)
    assert not np.array_equal(layers["q_DNH"][0], layers["q_DNH"][1])
    assert (layers["mlp_norm"]["scale"] == 1).all()


def test_a_tied_model_has_no_head_of_its_own(tiny: Any) -> None:
    key = jax.random.key(0)
    tied = jax.eval_shape(lambda: initial_params(tiny, key))
    untied = jax.eval_shape(lambda: initial_params(tiny._replace(is_tied=False), key))
    assert set(untied) - set(tied) == {"head_VD"}
