import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.objective import correction
from jaxgrpo.device.objective.correction import bounded_weights
from jaxgrpo.device.objective.metrics import finish_metrics
from jaxgrpo.device.objective.presets import Objective

raw_weights = jax.jit(correction.raw_weights, static_argnames="level")
corrected_weights = jax.jit(correction.corrected_weights, static_argnums=0)
on_policy_tokens = jax.jit(correction.on_policy_tokens, static_argnums=4)
bounded_fraction_by_length = jax.jit(
    correction.bounded_fraction_by_length, static_argnums=3
)

MASK = jnp.asarray([[True, True, True, False], [True, False, False, False]])
SAMPLER = jnp.zeros((2, 4))
OLD = jnp.log(jnp.asarray([[2.0, 1.0, 0.25, 99.0], [3.0, 99.0, 99.0, 99.0]]))


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("token", [[2, 1, 0.25, 1], [3, 1, 1, 1]]),
        ("sequence", [[0.5, 0.5, 0.5, 1], [3, 1, 1, 1]]),
        ("geometric", [[0.5 ** (1 / 3)] * 3 + [1], [3, 1, 1, 1]]),
    ],
)
def test_weight_is_the_exponential_of_the_sum_or_mean(level, expected):
    np.testing.assert_allclose(
        raw_weights(OLD, SAMPLER, MASK, level=level), expected, 1e-6
    )


def test_long_rows_of_small_gaps_explode_as_a_product_but_not_as_a_mean():
    mask_BT = jnp.ones((1, 4096), bool)
    gaps_BT = jnp.full((1, 4096), 0.01)
    product_BT = raw_weights(gaps_BT, jnp.zeros((1, 4096)), mask_BT, level="sequence")
    mean_BT = raw_weights(gaps_BT, jnp.zeros((1, 4096)), mask_BT, level="geometric")
    np.testing.assert_allclose(product_BT[0, 0], np.exp(40.96), rtol=1e-3)
    np.testing.assert_allclose(mean_BT[0, 0], np.exp(0.01), rtol=1e-4)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("truncate", [[2, 1, 0.5, 1]]), ("mask", [[2, 1, 0, 1]])],
)
def test_bounds_truncate_or_mask(mode, expected):
    weights_BT = jnp.asarray([[2, 1, 0.25, 1]])
    assert bounded_weights(weights_BT, mode, 2.0, 0.5).tolist() == expected


def test_raw_and_effective_statistics_are_both_returned():
    objective = Objective(correction="token_mask", correction_max=2.5)
    weights_BT, metrics = corrected_weights(objective, OLD, SAMPLER, MASK)
    assert weights_BT[1, 0] == 0
    finished = finish_metrics(metrics)
    name = "sampling/importance_sampling_ratio"
    np.testing.assert_allclose(finished[f"{name}/mean"], 3.25 / 4, rtol=1e-6)
    np.testing.assert_allclose(finished[f"{name}_raw/mean"], 6.25 / 4, rtol=1e-6)
    np.testing.assert_allclose(
        finished[f"{name}_raw/mean_square"], (4 + 1 + 1 / 16 + 9) / 4, rtol=1e-6
    )
    assert finished[f"{name}/bounded_fraction"] == 0.25
    np.testing.assert_allclose(
        finished["token_mult_prob_error"], (2 + 1 + 4 + 3) / 4, rtol=1e-6
    )


def test_without_a_correction_weights_are_one_and_the_gap_is_still_measured():
    weights_BT, metrics = corrected_weights(Objective(), OLD, SAMPLER, MASK)
    assert (weights_BT == 1).all()
    assert set(metrics) == {
        "sampling/sampling_logp_difference/mean",
        "sampling/importance_sampling_ratio_raw/mean",
        "sampling/importance_sampling_ratio_raw/mean_square",
        "token_mult_prob_error",
    }


def test_bounded_share_is_told_by_length():
    raw_BT = raw_weights(OLD, SAMPLER, MASK, level="token")
    weights_BT = bounded_weights(raw_BT, "truncate", 2.5)
    shares = bounded_fraction_by_length(raw_BT, weights_BT, MASK, (1, 2))
    name = "sampling/importance_sampling_ratio/bounded_fraction"
    assert {key: (float(m.total), float(m.weight)) for key, m in shares.items()} == {
        f"{name}/up_to_1": (1.0, 1.0),
        f"{name}/up_to_2": (0.0, 0.0),
        f"{name}/longer": (0.0, 1.0),
    }


def test_only_drifted_rows_of_negative_advantage_are_dropped():
    logprobs_BT = jnp.asarray([[-1.0, -1.0], [-1.0, -1.0], [0.0, 0.0]])
    sampler_BT = jnp.zeros((3, 2))
    advantages_BT = jnp.asarray([[-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    mask_BT = jnp.ones((3, 2), bool)
    kept_BT = on_policy_tokens(logprobs_BT, sampler_BT, advantages_BT, mask_BT, 0.5)
    assert kept_BT.all(axis=1).tolist() == [False, True, True]
