"""The reward model reads one state, and learns from differences alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.device.model.decoder import bind, forward_prompts
from jaxgrpo.device.optimizer import adamw
from jaxgrpo.device.records import Prompts, TrainState
from jaxgrpo.device.reward_model import (
    BACKBONE,
    SCORE,
    Pairs,
    backbone_of,
    preference_update,
    reward_params,
    reward_scores,
)

LENGTHS_B2 = np.array([[7, 5], [3, 8], [0, 0]])  # the last row only pads
B, S = 3, 8
OPTIMIZER = adamw(
    optax.constant_schedule(3e-3), beta1=0.9, beta2=0.95, weight_decay=0.0,
    clip_norm=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 300, (B, 2, S))


@pytest.fixture(scope="module")
def params(tiny_params: Any) -> Any:
    """A model whose scores are far from 0."""
    fresh = reward_params(tiny_params)
    drawn = np.random.default_rng(6).normal(size=fresh[SCORE].shape)
    return fresh | {SCORE: jnp.asarray(drawn, jnp.float32)}


def scores(tiny: Any, params: Any, tokens: Any, lengths: Any) -> np.ndarray:
    rows = Prompts(jnp.asarray(tokens), jnp.asarray(lengths))
    return np.asarray(reward_scores(params, rows, architecture=backbone_of(tiny)))


def test_score_is_the_product_with_the_state_of_the_last_token(
    tiny: Any, params: Any, tokens: Any
):
    @jax.jit
    def states(backbone: Any) -> jax.Array:
        model = bind(backbone_of(tiny), backbone, jnp.dtype("float32"))
        rows = Prompts(jnp.asarray(tokens[:, 0]), jnp.full((B,), S))
        return forward_prompts(model, rows)[0]

    hidden_PSD = np.asarray(states(params[BACKBONE]), np.float64)
    lengths = [7, 3, 1]
    last = hidden_PSD[np.arange(B), np.array(lengths) - 1]
    expected = last @ np.asarray(params[SCORE], np.float64)[0]
    found = scores(tiny, params, tokens[:, 0], lengths)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_pads_does_not_matter(tiny: Any, params: Any, tokens: Any):
    lengths = np.array([7, 3, 5])
    found = scores(tiny, params, tokens[:, 0], lengths)
    changed = np.where(np.arange(S) < lengths[:, None], tokens[:, 0], 9)
    np.testing.assert_array_equal(scores(tiny, params, changed, lengths), found)
    wider = np.pad(changed, ((0, 0), (0, 8)))
    np.testing.assert_allclose(
        scores(tiny, params, wider, lengths), found, rtol=1e-5, atol=1e-6
    )


def test_a_new_model_scores_everything_0_and_has_no_head(tiny: Any, tiny_params: Any):
    with_head = tiny_params | {"head_VD": tiny_params["embedding_VD"]}
    fresh = reward_params(with_head)
    assert "head_VD" not in fresh[BACKBONE]
    rows = np.arange(2 * S).reshape(2, S)
    assert scores(tiny, fresh, rows, [S, 3]).tolist() == [0.0, 0.0]


@pytest.fixture
def update(tiny: Any) -> Any:
    def run(params: Any, tokens: Any, lengths_B2: Any = LENGTHS_B2) -> Any:
        own = jax.tree.map(jnp.copy, params)
        state = TrainState(jnp.int32(0), own, OPTIMIZER.init(own), None)
        return preference_update(
            state,
            Pairs(jnp.asarray(tokens), jnp.asarray(lengths_B2)),
            architecture=backbone_of(tiny),
            optimizer=OPTIMIZER,
        )

    return run


def test_loss_is_of_real_pairs_by_the_definition(
    tiny: Any, params: Any, tokens: Any, update: Any
):
    sides = [
        scores(tiny, params, tokens[:, side], np.maximum(LENGTHS_B2[:, side], 1))
        for side in (0, 1)
    ]
    gaps = (sides[0] - sides[1])[:2].astype(np.float64)
    _, metrics = update(params, tokens)
    assert float(metrics["loss"]) == pytest.approx(
        np.log1p(np.exp(-gaps)).mean(), rel=1e-5
    )
    assert float(metrics["margin"]) == pytest.approx(gaps.mean(), rel=1e-5)
    assert float(metrics["accuracy"]) == (gaps > 0).mean()


def test_padding_moves_no_weight(params: Any, tokens: Any, update: Any):
    """Neither tokens after the last one, nor a row of padding, change the update."""
    state, _ = update(params, tokens)
    other = np.where(np.arange(S) < LENGTHS_B2[..., None], tokens, 17)
    again, _ = update(params, other)
    for one, two in zip(
        jax.tree.leaves(state.params), jax.tree.leaves(again.params), strict=True
    ):
        np.testing.assert_array_equal(one, two)


def test_equal_answers_teach_nothing(params: Any, tokens: Any, update: Any):
    twice = np.stack([tokens[:, 0]] * 2, axis=1)
    state, metrics = update(params, twice, np.stack([LENGTHS_B2[:, 0]] * 2, axis=1))
    assert float(metrics["loss"]) == pytest.approx(np.log(2.0), rel=1e-6)
    assert float(metrics["grad_norm"]) < 1e-5
    assert float(metrics["accuracy"]) == 0.0
    assert int(state.step) == 1


def test_updates_put_the_preferred_above(params: Any, tokens: Any, tiny: Any):
    own = jax.tree.map(jnp.copy, params)
    state = TrainState(jnp.int32(0), own, OPTIMIZER.init(own), None)
    pairs = Pairs(jnp.asarray(tokens), jnp.asarray(LENGTHS_B2))
    losses = []
    for _ in range(12):
        state, metrics = preference_update(
            state, pairs, architecture=backbone_of(tiny), optimizer=OPTIMIZER
        )
        losses.append(float(metrics["loss"]))
    assert losses[-1] < 0.2 * losses[0] or losses[-1] < 0.05
    assert float(metrics["accuracy"]) == 1.0
