"""Laws of the forward passes: they are one function, seen from several sides."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.model.decoder import (
    bind,
    decode_token,
    empty_suffix,
    forward_completions,
    forward_prompts,
    initial_params,
    rotate,
)
from jaxgrpo.device.records import Prompts

# Rows are prompt-major; the second prompt is a single token.
P, S, B, T = 3, 6, 6, 5
LENGTHS_P = np.array([6, 1, 4])
TOLERANCE = 2e-5  # hidden states are of size 1 to 4; float32, summed in another order


@pytest.fixture(scope="module")
def tokens() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 384, (P, S)), rng.integers(0, 384, (B, T))


@pytest.fixture(scope="module")
def forward(tiny: Any) -> Any:
    """Hidden states and the gradient of a loss on all of them; one program a setting."""

    @partial(jax.jit, static_argnames=("is_prompt_major", "unroll", "remat"))
    def run(params, token_ids_PS, lengths_P, completion_BT, prompt_index_B, **how):
        def loss(params):
            model = bind(tiny, params, jnp.dtype("float32"))
            hidden_BTD = forward_completions(
                model, Prompts(token_ids_PS, lengths_P), completion_BT,
                prompt_index_B, **how,
            )  # fmt: skip
            return jnp.sin(hidden_BTD).sum(), hidden_BTD

        grads, hidden_BTD = jax.grad(loss, has_aux=True)(params)
        return hidden_BTD, grads

    return run


@pytest.fixture(scope="module")
def plain(tokens: Any, tiny_params: Any, forward: Any) -> Any:
    """Result of the plain program: a gather of prompts, a scan over layers."""
    index_B = np.arange(B) // (B // P)
    return forward(tiny_params, tokens[0], LENGTHS_P, tokens[1], index_B)


def assert_close(left: Any, right: Any) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=5e-5), left, right)


def assert_bitwise_equal(left: Any, right: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, left, right)


def test_shared_prompts_equal_separate_rows(
    tiny: Any, tiny_params: Any, tokens: Any, plain: Any
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
        np.testing.assert_allclose(plain[0][b], alone_TD, atol=TOLERANCE)


@pytest.mark.parametrize(
    "how",
    [
        {"is_prompt_major": True},
        {"unroll": True},
        {"remat": True},
        {"is_prompt_major": True, "unroll": True, "remat": True},
    ],
    ids=["prompt_major", "unroll", "remat", "all"],
)
def test_another_program_gives_the_same_states_and_gradients(
    tiny_params: Any, tokens: Any, forward: Any, plain: Any, how: dict[str, bool]
) -> None:
    index_B = np.arange(B) // (B // P)
    other = forward(tiny_params, tokens[0], LENGTHS_P, tokens[1], index_B, **how)
    assert_close(other, plain)


def test_rows_follow_their_prompt_index_in_any_order(
    tiny_params: Any, tokens: Any, forward: Any, plain: Any
) -> None:
    order_B = np.array([4, 1, 5, 0, 3, 2])
    index_B = (np.arange(B) // 2)[order_B]
    hidden_BTD, _ = forward(
        tiny_params, tokens[0], LENGTHS_P, tokens[1][order_B], index_B
    )
    assert_close(hidden_BTD, plain[0][order_B])


@pytest.mark.parametrize("garbage", [383, -7, 10**6])
def test_token_ids_in_padding_change_no_bit(
    tiny_params: Any, tokens: Any, forward: Any, plain: Any, garbage: int
) -> None:
    token_ids_PS = np.where(np.arange(S) < LENGTHS_P[:, None], tokens[0], garbage)
    # The last token of a completion is never fed, whatever it is.
    completion_BT = np.where(np.arange(T) < T - 1, tokens[1], garbage)
    index_B = np.arange(B) // (B // P)
    other = forward(tiny_params, token_ids_PS, LENGTHS_P, completion_BT, index_B)
    assert_bitwise_equal(other[0], plain[0])
    assert_bitwise_equal(other[1]["layers"], plain[1]["layers"])
    real = np.unique(np.concatenate([tokens[0].ravel(), tokens[1].ravel()]))
    embedding, expected = other[1]["embedding_VD"], plain[1]["embedding_VD"]
    assert_bitwise_equal(embedding[real], expected[real])
    assert not np.delete(np.asarray(embedding), real, axis=0).any()


def test_later_tokens_of_a_completion_change_no_earlier_bit(
    tiny_params: Any, tokens: Any, forward: Any, plain: Any
) -> None:
    completion_BT = np.where(np.arange(T) < 2, tokens[1], 17)
    index_B = np.arange(B) // (B // P)
    other = forward(tiny_params, tokens[0], LENGTHS_P, completion_BT, index_B)
    assert_bitwise_equal(other[0][:, :3], plain[0][:, :3])


def test_extra_padding_changes_nothing(
    tiny_params: Any, tokens: Any, forward: Any, plain: Any
) -> None:
    token_ids_PS = np.pad(tokens[0], ((0, 0), (0, 5)), constant_values=9)
    completion_BT = np.pad(tokens[1], ((0, 0), (0, 3)), constant_values=9)
    index_B = np.arange(B) // (B // P)
    hidden_BTD, _ = forward(
        tiny_params, token_ids_PS, LENGTHS_P, completion_BT, index_B
    )
    assert_close(hidden_BTD[:, :T], plain[0])


def test_a_completion_of_one_token_needs_only_the_prompt(
    tiny_params: Any, tokens: Any, forward: Any, plain: Any
) -> None:
    index_B = np.arange(B) // (B // P)
    hidden_BTD, grads = forward(
        tiny_params, tokens[0], LENGTHS_P, tokens[1][:, :1], index_B
    )
    assert_close(hidden_BTD, plain[0][:, :1])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


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
    is_used_TV = np.asarray(gradient_TVD != 0).any(axis=-1)
    for t in range(len(completion)):
        used = {int(token) for token in np.flatnonzero(is_used_TV[t])}
        assert used == {*prompt[:3], *completion[:t]}


def test_prefill_and_decode_equal_the_forward_pass(
    tiny: Any, tiny_params: Any, tokens: Any, plain: Any
) -> None:
    @jax.jit
    def decode(params, token_ids_PS, completion_BT):
        model = bind(tiny, params, jnp.dtype("float32"))
        _, prefix = forward_prompts(model, Prompts(token_ids_PS, LENGTHS_P_DEVICE))

        def step(suffix, scanned):
            column, token_B = scanned
            hidden_BD, suffix = decode_token(model, token_B, column, prefix, suffix)
            return suffix, hidden_BD

        suffix = empty_suffix(tiny, B, T, jnp.dtype("float32"))
        xs = (jnp.arange(T - 1), completion_BT[:, :-1].T)
        return jax.lax.scan(step, suffix, xs)[1].swapaxes(0, 1)

    decoded_BUD = decode(tiny_params, tokens[0], tokens[1])
    np.testing.assert_allclose(decoded_BUD, plain[0][:, 1:], atol=TOLERANCE)


LENGTHS_P_DEVICE = jnp.asarray(LENGTHS_P)


def test_bfloat16_stays_bfloat16_and_close(
    tiny: Any, tiny_params: Any, tokens: Any, plain: Any
) -> None:
    hidden_BTD = jax.jit(
        lambda params: forward_completions(
            bind(tiny, params, jnp.dtype("bfloat16")),
            Prompts(jnp.asarray(tokens[0]), jnp.asarray(LENGTHS_P)),
            jnp.asarray(tokens[1]),
            jnp.arange(B) // (B // P),
        )
    )(tiny_params)
    assert hidden_BTD.dtype == jnp.bfloat16
    difference = np.asarray(hidden_BTD, np.float32) - np.asarray(plain[0])
    # 8 bits of mantissa: a rounding error of 2^-9 each in some 20 operations.
    assert np.sqrt(np.mean(difference**2)) < 0.05


def test_scores_depend_on_relative_position_only() -> None:
    rng = np.random.default_rng(0)
    q, k = (jnp.asarray(rng.normal(size=16), jnp.float32) for _ in range(2))

    def score(position_q: int, position_k: int) -> float:
        both = jnp.stack([q, k])[None, :, None, :]
        rotated = rotate(both, jnp.array([[position_q, position_k]]), 10_000.0)
        return float(rotated[0, 0, 0] @ rotated[0, 1, 0])

    np.testing.assert_allclose(score(7, 3), score(107, 103), rtol=1e-4)
    assert abs(score(7, 3) - score(7, 4)) > 1e-2


def test_rotation_at_position_zero_is_the_identity() -> None:
    x = jnp.arange(16.0)[None, None, None, :]
    np.testing.assert_array_equal(rotate(x, jnp.array([[0]]), 10_000.0), x)


def test_initial_states_have_the_size_of_one(tiny: Any) -> None:
    params = jax.jit(initial_params, static_argnums=0)(tiny, jax.random.key(0))
    prompts = Prompts(jnp.arange(32)[None], jnp.array([32]))
    model = bind(tiny, params, jnp.dtype("float32"))
    hidden_1SD, _ = forward_prompts(model, prompts)
    np.testing.assert_allclose(np.std(hidden_1SD), 1.0, rtol=0.05)


def test_a_tied_model_has_no_head_of_its_own(tiny: Any) -> None:
    key = jax.random.key(0)
    tied = jax.eval_shape(lambda: initial_params(tiny, key))
    untied = jax.eval_shape(lambda: initial_params(tiny._replace(is_tied=False), key))
    assert set(untied) - set(tied) == {"head_VD"}
