import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.device.objective.experimental import (
    divergence_scale,
    exploration_advantages,
    self_conditioned_weights,
    trace_ratios,
)
from jaxgrpo.device.objective.loss import grpo_loss
from jaxgrpo.device.objective.metrics import finish_metrics
from jaxgrpo.device.objective.ratios import sequence_ratios
from tests.device.objective.draws import NUM_ROWS, mask_of, masked_arrays, on_device

LENGTHS = [6, 5, 4, 3, 2, 1, 6, 6]


def test_trace_of_every_token_without_decay_ends_at_gspos_ratio():
    arrays = on_device(masked_arrays(0)[0])
    log_ratios_BT = arrays["logprobs"] - arrays["old"]
    mask_BT = mask_of(LENGTHS)
    traces = np.asarray(
        jax.jit(trace_ratios, static_argnums=3)(log_ratios_BT, mask_BT, mask_BT, 1.0)
    )
    expected_BT = jax.jit(sequence_ratios)(log_ratios_BT, mask_BT)
    last = traces[np.arange(NUM_ROWS), np.asarray(LENGTHS) - 1]
    np.testing.assert_allclose(last, expected_BT[:, 0], rtol=1e-5)


def test_trace_is_one_before_the_first_traced_token():
    traces_BT = trace_ratios(
        jnp.full((1, 3), 0.5), jnp.ones((1, 3), bool),
        jnp.asarray([[False, True, False]]), 0.5,
    )  # fmt: skip
    np.testing.assert_allclose(traces_BT, [[1, np.exp(0.5), np.exp(0.5)]], rtol=1e-6)


def test_scale_is_the_upper_quartile_of_tokens_that_count():
    divergences_BT = jnp.asarray([[1.0, 2, 3, 4, 5, jnp.nan]])
    mask_BT = jnp.arange(6)[None, :] < 5
    assert divergence_scale(divergences_BT, mask_BT) == 4
    assert divergence_scale(divergences_BT, mask_BT, 9.0) == 9
    assert divergence_scale(divergences_BT, jnp.zeros((1, 6), bool), 0.5) == 0.5


def test_weights_fall_where_teacher_and_student_agree():
    weights_BT = self_conditioned_weights(
        jnp.asarray([[0.0, 1.0, jnp.nan], [0.0, 1.0, 1.0]]),
        jnp.asarray([[True, True, False], [True, True, True]]),
        jnp.float32(1.0), jnp.asarray([True, False]),
    )  # fmt: skip
    assert weights_BT.tolist() == [[0.0, 0.5, 0.0], [1.0, 1.0, 1.0]]


def test_exploration_rewards_distance_from_the_failure():
    divergences_BT = jnp.asarray([[0.1, 0.1], [3.0, 3.0], [9.0, 9.0], [1.0, 1.0]])
    is_explored_B = jnp.asarray([True, True, False, True])

    def total(divergences_BT):
        advantages_B = exploration_advantages(
            divergences_BT, jnp.ones((4, 2), bool), jnp.zeros(4, int), is_explored_B
        )
        return advantages_B.sum(), advantages_B

    slope_BT, ours = jax.jit(jax.grad(total, has_aux=True))(divergences_BT)
    low, high, none, middle = ours.tolist()
    assert high > middle > low and none == 0
    assert not slope_BT.any()


def trace_loss(arrays, mask_BT, **parts):
    """Returns the loss with traces, and its gradient."""

    def loss(logprobs_BT):
        return grpo_loss(
            logprobs_BT, arrays["advantages"], mask_BT, old_logprobs_BT=arrays["old"],
            ratio_level="trace", clip_low=1.0, clip_high=1e9, **parts,
        )  # fmt: skip

    (value, metrics), slope = jax.value_and_grad(loss, has_aux=True)(arrays["logprobs"])
    return value, finish_metrics(metrics), slope


def test_what_is_traced_is_given_and_not_read_off_the_policy():
    """Later updates of a step have other entropies: they must not matter."""
    arrays = on_device(masked_arrays(0)[0])
    mask_BT = mask_of(LENGTHS)
    is_traced_BT = mask_BT & (arrays["entropies"] >= 1.0)
    value, _, slope_BT = trace_loss(arrays, mask_BT, is_traced_BT=is_traced_BT)
    again, _, same_BT = trace_loss(
        arrays, mask_BT, is_traced_BT=is_traced_BT,
        entropies_BT=2.0 - arrays["entropies"],
    )  # fmt: skip
    assert 0 < is_traced_BT.sum() < mask_BT.sum()
    assert value == again
    np.testing.assert_array_equal(slope_BT, same_BT)
    assert not np.asarray(slope_BT)[~np.asarray(is_traced_BT)].any()


def test_without_traced_tokens_the_loss_has_no_ratio_and_no_gradient():
    arrays = on_device(masked_arrays(0)[0])
    mask_BT = mask_of(LENGTHS)
    value, metrics, slope_BT = trace_loss(
        arrays, mask_BT, is_traced_BT=jnp.zeros_like(mask_BT)
    )
    means_B = jnp.where(mask_BT, arrays["advantages"], 0.0).sum(1) / jnp.array(LENGTHS)
    np.testing.assert_allclose(value, -means_B.mean(), rtol=1e-5)
    assert metrics["ratio/mean"] == 1.0
    assert not np.asarray(slope_BT).any()


def test_a_loss_with_a_last_token_alone_is_gspos_to_the_gradient():
    """Decay 1, every token traced: what the last token says is the row's ratio."""
    arrays = on_device(masked_arrays(0)[0])
    mask_BT = mask_of(LENGTHS)
    is_last_BT = (
        jnp.arange(mask_BT.shape[1])[None, :] == jnp.array(LENGTHS)[:, None] - 1
    )
    row_B1 = jnp.where(is_last_BT, arrays["advantages"], 0.0).sum(1, keepdims=True)
    only_last = arrays | {"advantages": jnp.where(is_last_BT, row_B1, 0.0)}
    value, _, slope_BT = trace_loss(
        only_last, mask_BT, is_traced_BT=mask_BT, trace_decay=1.0
    )

    def gspo(logprobs_BT):
        return grpo_loss(
            logprobs_BT, jnp.broadcast_to(row_B1, mask_BT.shape), mask_BT,
            old_logprobs_BT=arrays["old"], ratio_level="sequence", clip_low=1.0,
            clip_high=1e9, aggregation="sequence_mean",
        )[0]  # fmt: skip

    # There every token says the row's ratio; here one of them, |o| times less.
    rows_B1 = jnp.array(LENGTHS, jnp.float32)[:, None]
    expected_BT = jax.grad(gspo)(arrays["logprobs"]) / rows_B1
    np.testing.assert_allclose(slope_BT, expected_BT, rtol=1e-4, atol=1e-7)
    assert np.isfinite(value)
