import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.device.objective.preferences import (
    bradley_terry_loss,
    validity_preserving_reward,
)

scores = st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=6)


def shaped(scores: list[float], is_valid: bool = True) -> list[float]:
    scores_B = jnp.array(scores, jnp.float32)
    return validity_preserving_reward(
        scores_B, jnp.full(len(scores), is_valid)
    ).tolist()


def test_shaping_gives_the_published_vector():
    expected = [6.5438, 0.6776, 0.0486, 0.6931]
    np.testing.assert_allclose(
        shaped([6.5424, -0.03127, -3.0, 0.0]), expected, atol=5e-5
    )


def test_every_valid_program_is_above_every_invalid_one():
    assert shaped([80.0, -80.0, math.nan, math.inf], is_valid=False) == [0.0] * 4
    assert min(shaped([-80.0, -20.0, 0.0, 1e4])) > 0.0


@given(scores)
@settings(deadline=None, max_examples=25)
def test_shaping_is_stable_and_keeps_the_order(scores: list[float]):
    ours = shaped(scores)
    theirs = np.logaddexp(0.0, np.array(scores, np.float64))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for one, first in zip(scores, ours, strict=True):
        for other, second in zip(scores, ours, strict=True):
            assert one <= other or first >= second


def test_loss_by_hand():
    # -ln sigmoid of 1, 0 and -2.
    expected = (0.3132617 + 0.6931472 + 2.1269280) / 3
    loss = bradley_terry_loss(jnp.array([2.0, 5.0, 0.0]), jnp.array([1.0, 5.0, 2.0]))
    assert float(loss) == pytest.approx(expected, abs=1e-6)


def test_loss_sees_differences_alone_however_large():
    preferred_B, rejected_B = jnp.array([100.0, -50.0]), jnp.array([-100.0, 50.0])
    loss = bradley_terry_loss(preferred_B, rejected_B)
    assert float(loss) == pytest.approx(50.0)  # 0 and 100
    moved = bradley_terry_loss(preferred_B + 64.0, rejected_B + 64.0)
    assert float(moved) == float(loss)


def test_gradient_is_how_wrong_the_model_is():
    grads = jax.grad(lambda s_B: bradley_terry_loss(s_B, jnp.array([0.0, 0.0])))
    sigmoid = 1 / (1 + math.exp(3.0))
    np.testing.assert_allclose(
        grads(jnp.array([0.0, 3.0])), [-0.25, -sigmoid / 2], rtol=1e-6
    )


def test_padding_does_not_count():
    rejected_B, is_real_B = jnp.array([1.0, jnp.nan]), jnp.array([True, False])

    def loss(preferred_B):
        return bradley_terry_loss(preferred_B, rejected_B, is_real_B)

    preferred_B = jnp.array([2.0, jnp.inf])
    value, grad_B = jax.value_and_grad(loss)(preferred_B)
    assert float(value) == pytest.approx(0.3132617)
    assert np.isfinite(grad_B).all() and grad_B[1] == 0.0
    nothing = bradley_terry_loss(preferred_B, rejected_B, jnp.array([False, False]))
    assert float(nothing) == 0.0
