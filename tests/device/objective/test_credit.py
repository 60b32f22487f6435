import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from jaxgrpo.device.objective import credit
from jaxgrpo.device.objective.loss import grpo_loss
from tests.device.objective.draws import (
    NUM_POSITIONS,
    NUM_ROWS,
    few,
    mask_of,
    masked_arrays,
    seeds,
)
from tests.reference import credit as reference

span_credit = jax.jit(credit.span_credit)
importance_credit = jax.jit(
    credit.importance_credit, static_argnames=("threshold", "boost", "floor")
)
bilevel = jax.jit(credit.bilevel_advantages)
at_steps = jax.jit(credit.advantages_at_steps)


def drawn_spans(seed):
    rng = np.random.default_rng(seed)
    _, lengths = masked_arrays(seed)
    starts = rng.integers(0, NUM_POSITIONS, NUM_ROWS)
    ends = starts + rng.integers(0, 4, NUM_ROWS)
    return lengths, starts, ends, rng.random(NUM_ROWS) < 0.8, rng.normal(0, 1, NUM_ROWS)


@few
@given(seed=seeds)
def test_span_credit_equals_the_transcription_and_keeps_the_mass(seed):
    lengths, starts, ends, has_span, advantages = drawn_spans(seed)
    spans = credit.Spans(*(jnp.asarray(x) for x in (starts, ends, has_span)))
    ours = span_credit(mask_of(lengths), spans, jnp.asarray(advantages, jnp.float32))
    theirs = reference.span_credit(
        lengths, NUM_POSITIONS, starts, ends, has_span, advantages
    )
    np.testing.assert_allclose(ours.credit_BT, theirs, rtol=1e-6)
    np.testing.assert_allclose(ours.credit_BT.sum(axis=1), lengths, rtol=1e-6)


def one_row(start, end, has_span=True, advantage=-1.0, length=4):
    spans = credit.Spans(
        jnp.asarray([start]), jnp.asarray([end]), jnp.asarray([has_span])
    )
    mask_BT = jnp.arange(6)[None, :] < length
    return span_credit(mask_BT, spans, jnp.asarray([advantage]))


def test_all_credit_lies_on_the_span_none_before_or_after():
    assert one_row(1, 3).credit_BT.tolist() == [[0, 2, 2, 0, 0, 0]]


@pytest.mark.parametrize(
    "row",
    [
        {"start": 2, "end": 2},
        {"start": 4, "end": 6},
        {"start": 1, "end": 3, "has_span": False},
        {"start": 1, "end": 3, "advantage": 0.5},
        {"start": 1, "end": 3, "advantage": 0.0},
    ],
    ids=["empty", "in padding", "no span", "positive advantage", "no advantage"],
)
def test_unusable_span_falls_back_to_uniform(row):
    ours = one_row(**row)
    assert ours.credit_BT.tolist() == [[1, 1, 1, 1, 0, 0]]
    assert not ours.is_focused_B[0]


def test_span_credit_with_sequence_mean_is_the_papers_loss():
    """-sum_t a_t logp_t with sum_t a_t = A, mean over rows."""
    logprobs_BT = jnp.log(jnp.asarray([[0.5, 0.4, 0.3, 0.2, 0.1, 0.1]]))
    ours = one_row(1, 3)
    mask_BT = jnp.arange(6)[None, :] < 4

    def loss(logprobs_BT):
        return grpo_loss(logprobs_BT, -1.0 * ours.credit_BT, mask_BT)[0]

    slope_BT = jax.jit(jax.grad(loss))(logprobs_BT)
    np.testing.assert_allclose(slope_BT, [[0, 0.5, 0.5, 0, 0, 0]], rtol=1e-6)


# Bi-Level


def test_intra_advantages_give_the_published_numbers():
    ours = jax.jit(credit.intra_advantages)(
        jnp.asarray([[1.0, 0, 1, 1], [1, 1, 0, jnp.nan]])
    )
    np.testing.assert_allclose(ours, [[5 / 3, 0, 2, 1], [1.5, 1, 0, 0]], rtol=1e-6)


@few
@given(seed=seeds)
def test_bilevel_equals_the_transcription(seed):
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 2, (NUM_ROWS, 4)).astype(float)
    group_ids = rng.integers(0, 3, NUM_ROWS)
    rewards[group_ids == 1, 2:] = np.nan
    ours = bilevel(jnp.asarray(rewards, jnp.float32), jnp.asarray(group_ids))
    theirs = reference.bilevel_advantages(rewards, group_ids, 0.3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_bilevel_keeps_all_wrong_groups_dead_but_not_all_correct_ones():
    ids_B = jnp.zeros(NUM_ROWS, int)
    assert not bilevel(jnp.zeros((NUM_ROWS, 4)), ids_B).any()
    assert (bilevel(jnp.ones((NUM_ROWS, 4)), ids_B) > 0).all()


@few
@given(seed=seeds)
def test_steps_own_the_tokens_up_to_their_end(seed):
    rng = np.random.default_rng(seed)
    _, lengths = masked_arrays(seed)
    ends = np.sort(rng.integers(0, NUM_POSITIONS + 1, (NUM_ROWS, 3)), axis=1)
    advantages = rng.normal(0, 1, (NUM_ROWS, 3))
    ours = at_steps(
        jnp.asarray(advantages, jnp.float32), jnp.asarray(ends), mask_of(lengths)
    )
    theirs = reference.advantages_at_steps(advantages, ends, lengths, NUM_POSITIONS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


# Importances


@few
@given(seed=seeds)
def test_importance_credit_equals_the_transcription(seed):
    arrays, lengths = masked_arrays(seed)
    importances = arrays["entropies"]
    dirty = np.where(np.asarray(mask_of(lengths)), importances, np.nan)
    ours = importance_credit(jnp.asarray(dirty, jnp.float32), mask_of(lengths))
    theirs = reference.importance_credit(importances, lengths, 0.25, 1.0, 0.1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_equal_importances_give_uniform_credit():
    mask_BT = mask_of([6, 3, 1, 0, 6, 6, 6, 6])
    ours = importance_credit(jnp.full((NUM_ROWS, NUM_POSITIONS), 0.7), mask_BT)
    np.testing.assert_array_equal(ours, mask_BT.astype(jnp.float32))


def test_weights_of_zero_fall_back_to_uniform_credit():
    mask_BT = mask_of([6, 3, 1, 0, 6, 6, 6, 6])
    ours = jax.jit(credit.mass_preserving)(
        jnp.zeros((NUM_ROWS, NUM_POSITIONS)), mask_BT
    )
    np.testing.assert_array_equal(ours, mask_BT.astype(jnp.float32))
