import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from jaxgrpo.device.objective import masks
from tests.device.objective.draws import few, mask_of, masked_arrays, seeds


def test_mask_comes_from_lengths_and_keeps_an_end_token_that_equals_padding():
    mask_BT = masks.completion_mask(jnp.asarray([3, 0, 4]), 4)
    assert mask_BT.sum(axis=1).tolist() == [3, 0, 4]
    assert mask_BT[0].tolist() == [True, True, True, False]


def test_live_rows_are_those_of_groups_with_spread():
    live_B = jax.jit(masks.live_rows)(
        jnp.asarray([0.0, 0.0, 0.3, 0.3, 1.0, 0.0]),
        jnp.asarray([0, 1, 2, 2, 1, 1]),
        jnp.asarray([True, True, True, True, True, False]),
    )
    assert live_B.tolist() == [False, True, False, False, True, False]


def test_overlong_filtering_drops_every_truncated_row():
    assert masks.untruncated_rows(jnp.asarray([True, False])).tolist() == [False, True]


conditionally_untruncated_rows = jax.jit(
    masks.conditionally_untruncated_rows, static_argnums=4
)
KEYS = jax.random.split(jax.random.key(0), 400)


def conditional(truncated=True, allowed=True, repeating=False, probability=0.25):
    full = [jnp.full(400, value) for value in (truncated, allowed, repeating)]
    return conditionally_untruncated_rows(*full, KEYS, probability)


@pytest.mark.parametrize(
    "condition", [{"truncated": False}, {"allowed": False}, {"repeating": True}]
)
def test_conditional_truncation_needs_every_condition(condition):
    assert conditional(**condition).all()


def test_conditional_truncation_drops_the_asked_share():
    assert abs(float((~conditional()).mean()) - 0.25) < 0.07
    assert conditional(probability=0.0).all()
    assert not conditional(probability=1.0).any()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("non_incorrect", [True, False, True]),
        ("correct", [True, False, False]),
        ("incorrect", [False, True, False]),
        ("any", [True, True, True]),
    ],
)
def test_verdict_rules(rule, expected):
    is_correct_B = jnp.asarray([True, False, True])
    has_verdict_B = jnp.asarray([True, True, False])
    assert masks.verdict_allows(rule, is_correct_B, has_verdict_B).tolist() == expected


def test_unknown_verdict_rule_is_refused():
    with pytest.raises(ValueError, match="rule 'right' is unknown"):
        masks.verdict_allows("right", jnp.ones(1, bool), jnp.ones(1, bool))


def test_tail_repeats_only_if_the_last_tokens_equal_those_before():
    token_ids_BT = jnp.asarray(
        [
            [1, 5, 6, 5, 6, 9, 9, 9],  # 5 6 | 5 6, then padding
            [5, 6, 5, 7, 9, 9, 9, 9],
            [6, 6, 6, 0, 0, 0, 0, 0],  # too short for 2 + 2
            [0, 0, 0, 0, 3, 4, 3, 4],
        ]
    )
    lengths_B = jnp.asarray([5, 4, 3, 8])
    ours = masks.repeats_its_tail(token_ids_BT, lengths_B, 2)
    assert ours.tolist() == [True, False, False, True]
    assert not masks.repeats_its_tail(token_ids_BT, lengths_B, 5).any()


def test_overlong_penalty_is_linear_in_the_buffer_and_bounded():
    lengths_B = jnp.asarray([0, 12288, 14336, 16384, 20480])
    ours = masks.overlong_penalty(lengths_B, 16384, 4096)
    np.testing.assert_array_equal(ours, [0, 0, -0.5, -1, -1])


def test_overlong_buffer_beyond_the_maximum_is_refused():
    with pytest.raises(ValueError, match="buffer_length 9 with max_length 8"):
        masks.overlong_penalty(jnp.asarray([1]), 8, 9)


threshold_of = jax.jit(masks.entropy_quantile, static_argnames="top_fraction")


@few
@given(seed=seeds)
def test_entropy_quantile_equals_numpys(seed):
    arrays, lengths = masked_arrays(seed)
    mask = np.asarray(mask_of(lengths))
    entropies = np.where(mask, arrays["entropies"], np.nan)
    for top_fraction in (0.2, 1.0):
        ours = threshold_of(
            jnp.asarray(entropies, jnp.float32), mask_of(lengths), top_fraction
        )
        expected = np.quantile(entropies[mask], 1 - top_fraction)
        np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_entropy_quantile_without_tokens_keeps_none():
    nothing_BT = jnp.zeros((8, 6), bool)
    assert threshold_of(jnp.ones((8, 6)), nothing_BT, 0.2) == jnp.inf
