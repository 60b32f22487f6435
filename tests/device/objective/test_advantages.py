import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.device.objective.advantages import group_advantages, weighted_reward
from jaxgrpo.device.objective.redistribution import redistributed_advantages
from tests.device.objective.draws import few, seeds
from tests.reference import advantages as reference

NUM_ROWS, NUM_REWARDS = 12, 3
compiled = jax.jit(
    group_advantages,
    static_argnames=("scale", "baseline", "combine", "ddof", "epsilon"),
)


def advantages(rewards_BR, group_ids_B, *, weights_R=None, is_real_B=None, **options):
    """Pads to one shape, so that each variant is compiled once for all tests."""
    rewards = np.asarray(rewards_BR, np.float32)
    num_rows, num_rewards = rewards.shape
    weights = np.ones(num_rewards) if weights_R is None else np.asarray(weights_R)
    is_real = np.ones(num_rows, bool) if is_real_B is None else np.asarray(is_real_B)
    rows, rest = NUM_ROWS - num_rows, NUM_REWARDS - num_rewards
    padded = np.pad(rewards, [(0, rows), (0, rest)], constant_values=np.nan)
    return compiled(
        jnp.asarray(padded),
        jnp.asarray(np.pad(group_ids_B, (0, rows))),
        weights_R=jnp.asarray(np.pad(weights, (0, rest)), jnp.float32),
        is_real_B=jnp.asarray(np.pad(is_real, (0, rows))),
        **options,
    )[:num_rows]


VARIANTS = [
    {"scale": "group"},
    {"scale": "group", "ddof": 0, "epsilon": 1e-6},
    {"scale": "batch"},
    {"scale": "none"},
    {"scale": "none", "baseline": "leave_one_out"},
    {"scale": "group", "baseline": "leave_one_out"},
    {"combine": "normalize_then_sum"},
]


def drawn_batch(seed: int, missing: float = 0.1):
    """Rewards in sixteenths and weights in quarters: sums are exact in float32."""
    rng = np.random.default_rng(seed)
    rewards = rng.integers(-8, 17, (NUM_ROWS, NUM_REWARDS)) / 16
    rewards = np.where(rng.random(rewards.shape) < missing, np.nan, rewards)
    group_ids = rng.integers(0, 4, NUM_ROWS)
    rewards[group_ids == 3] = rewards[group_ids == 3][:1]
    weights = rng.integers(0, 5, NUM_REWARDS) / 4
    return rewards, group_ids, weights, rng.random(NUM_ROWS) > 0.1


def column(*values):
    return jnp.asarray(values, jnp.float32)[:, None]


THREE_GROUPS = column(1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0)
THREE_IDS = jnp.repeat(jnp.arange(3), 4)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@few
@given(seed=seeds)
def test_equals_the_transcription(options, seed):
    rewards, group_ids, weights, is_real = drawn_batch(seed)
    ours = advantages(
        rewards, group_ids, weights_R=weights, is_real_B=is_real, **options
    )
    theirs = reference.group_advantages(
        rewards, group_ids, weights=weights, is_real=is_real, **options
    )
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("group", [1.4997, -0.4999, -0.4999, -0.4999, 0.4999, 0.4999, 0.4999, -1.4997]),
        ("batch", [1.5229, -0.5076, -0.5076, -0.5076, 0.5076, 0.5076, 0.5076, -1.5229]),
        ("none", [0.75, -0.25, -0.25, -0.25, 0.25, 0.25, 0.25, -0.75]),
    ],
)
def test_scales_give_the_published_numbers_and_differ(scale, expected):
    ours = advantages(THREE_GROUPS, THREE_IDS, scale=scale)
    np.testing.assert_allclose(ours, expected + [0.0] * 4, atol=1e-4)


def test_ddof_and_epsilon_are_what_they_say():
    rewards_BR, ids_B = column(1, 0), jnp.zeros(2, int)
    assert advantages(rewards_BR, ids_B, ddof=0, epsilon=0.5)[0] == 0.5
    sample_std = np.sqrt(0.5)
    ours = advantages(rewards_BR, ids_B, ddof=1, epsilon=0.0)[0]
    np.testing.assert_allclose(ours, 0.5 / sample_std, rtol=1e-6)


def test_gdpo_gives_the_published_numbers():
    rewards_BR = jnp.asarray([[1, 1], [0, 0], [0, 1], [0, 0]], jnp.float32)
    ids_B = jnp.array([0, 0, 1, 1])
    ours = advantages(rewards_BR, ids_B, combine="normalize_then_sum")
    np.testing.assert_allclose(ours, [1.0954, -1.0954, 0.5477, -0.5477], atol=1e-4)
    collapsed = advantages(rewards_BR, ids_B)
    np.testing.assert_allclose(collapsed, [0.7071, -0.7071, 0.7070, -0.7070], atol=1e-4)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@few
@given(
    values=st.lists(
        st.floats(-1000, 1000, width=32, allow_subnormal=False), min_size=3, max_size=3
    ),
    weight=st.floats(1 / 64, 10, width=32),
)
def test_tied_group_is_exactly_zero(options, values, weight):
    rewards_BR = jnp.tile(jnp.asarray(values, jnp.float32), (NUM_ROWS, 1))
    rewards_BR = rewards_BR.at[0].add(1.0)
    ids_B = jnp.array([1] * 5 + [2] * 7)
    weights_R = jnp.full(NUM_REWARDS, weight, jnp.float32)
    ours = advantages(rewards_BR, ids_B, weights_R=weights_R, **options)
    assert (ours[5:] == 0).all()


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_singleton_and_missing_groups_get_zero(options):
    rewards_BR = jnp.asarray([[0.3], [jnp.nan], [0.2], [0.9]], jnp.float32)
    ours = advantages(rewards_BR, jnp.array([0, 1, 2, 2]), **options)
    assert ours[0] == 0 and ours[1] == 0 and ours[3] > 0


@few
@given(seed=seeds, shift=st.integers(-64, 64))
def test_shift_of_a_group_changes_nothing(seed, shift):
    rewards, group_ids, _, _ = drawn_batch(seed)
    shifted = rewards + shift / 16 * (group_ids == 1)[:, None]
    for options in ({"scale": "group"}, {"combine": "normalize_then_sum"}):
        before, after = (
            advantages(r, group_ids, **options) for r in (rewards, shifted)
        )
        np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@few
@given(seed=seeds)
def test_order_of_rows_does_not_matter(options, seed):
    rewards, group_ids, _, _ = drawn_batch(seed)
    order = np.random.default_rng(seed).permutation(NUM_ROWS)
    straight = advantages(rewards, group_ids, **options)
    permuted = advantages(rewards[order], group_ids[order], **options)
    np.testing.assert_allclose(permuted, straight[order], rtol=1e-5, atol=1e-6)


def test_ragged_groups_are_centred_one_by_one():
    sizes = (4, 3, 4, 1)
    ids_B = jnp.repeat(jnp.arange(4), jnp.asarray(sizes), total_repeat_length=12)
    rewards_BR = jnp.arange(12.0)[:, None] ** 2
    sums = jax.ops.segment_sum(advantages(rewards_BR, ids_B), ids_B, 4)
    np.testing.assert_allclose(sums, 0.0, atol=1e-5)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("how", ["abstains", "has no trainable token"])
def test_row_that_does_not_count_moves_no_sibling(options, how):
    rewards_BR = jnp.asarray([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0]], jnp.float32)
    ids_B = jnp.array([0, 0, 0, 1, 1])
    is_real_B = jnp.ones(6, bool)
    extra_1R = jnp.asarray([[9.0, 9.0]])
    if how == "abstains":
        extra_1R = jnp.full((1, 2), jnp.nan)
    else:
        is_real_B = is_real_B.at[5].set(False)
    more_BR = jnp.concatenate([rewards_BR, extra_1R])
    with_it = advantages(more_BR, jnp.append(ids_B, 0), is_real_B=is_real_B, **options)
    without = advantages(rewards_BR, ids_B, **options)
    np.testing.assert_allclose(with_it[:5], without, rtol=1e-6, atol=1e-7)
    assert with_it[5] == 0


def test_missing_reward_abstains_the_row_when_summed_but_only_itself_in_gdpo():
    rewards_BR = jnp.asarray([[1, jnp.nan], [0, 1], [1, 0]], jnp.float32)
    ids_B = jnp.zeros(3, int)
    assert advantages(rewards_BR, ids_B)[0] == 0
    assert advantages(rewards_BR, ids_B, combine="normalize_then_sum")[0] > 0


def test_reward_of_weight_zero_is_ignored_even_if_missing():
    rewards_BR = jnp.asarray([[1, jnp.nan], [0, 5]], jnp.float32)
    ids_B = jnp.zeros(2, int)
    ours = advantages(rewards_BR, ids_B, weights_R=jnp.asarray([1.0, 0.0]))
    np.testing.assert_array_equal(ours, advantages(rewards_BR[:, :1], ids_B))


def test_weighted_reward_is_the_sum_that_makes_advantages():
    rewards_BR = jnp.asarray([[1, 2], [0, jnp.nan]], jnp.float32)
    total_B, is_counted_B = weighted_reward(
        rewards_BR, jnp.asarray([1.0, 0.5]), jnp.ones(2, bool)
    )
    assert total_B.tolist() == [2.0, 0.0] and is_counted_B.tolist() == [True, False]


def test_no_gradient_flows_through_advantages():
    def total(rewards_BR):
        return (group_advantages(rewards_BR, THREE_IDS) ** 2).sum()

    assert not jax.jit(jax.grad(total))(THREE_GROUPS).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "grup"}, "scale 'grup' is unknown. Use one of group, batch, none."),
        ({"baseline": "median"}, "baseline 'median' is unknown"),
        ({"combine": "both"}, "combine 'both' is unknown"),
        ({"weights_R": [1.0, 2.0]}, "weights_R has shape .2,. for 1 rewards"),
        ({"combine": "normalize_then_sum", "scale": "none"}, "Set scale='group'"),
    ],
)
def test_unusable_option_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        group_advantages(THREE_GROUPS, THREE_IDS, **options)


# Redistribution among passing rollouts

redistribute = jax.jit(redistributed_advantages, static_argnames="cap")


@few
@given(seed=seeds)
def test_redistribution_equals_the_transcription(seed):
    rng = np.random.default_rng(seed)
    group_ids = rng.integers(0, 3, NUM_ROWS)
    is_passing = rng.random(NUM_ROWS) < 0.6
    is_real = rng.random(NUM_ROWS) < 0.9
    qualities = rng.uniform(0.1, 1, NUM_ROWS).astype(np.float32)
    qualities[~is_passing] = np.nan
    if seed % 3 == 0:
        qualities[0] = np.nan
    rewards_BR = jnp.asarray(is_passing, jnp.float32)[:, None]
    before_B = advantages(rewards_BR, group_ids, is_real_B=is_real)
    ours = redistribute(
        before_B, jnp.asarray(qualities), jnp.asarray(is_passing),
        jnp.asarray(group_ids), cap=1.5, is_counted_B=jnp.asarray(is_real),
    )  # fmt: skip
    theirs = reference.redistributed_advantages(
        np.float64(before_B), qualities, is_passing, group_ids, 1.5, is_real
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_redistribution_keeps_the_positive_mass_below_the_cap():
    before_B = jnp.asarray([0.5, 0.5, -1.0])
    ours = redistribute(
        before_B, jnp.asarray([1.0, 0.5, jnp.nan]), jnp.asarray([True, True, False]),
        jnp.zeros(3, int), cap=10.0,
    )  # fmt: skip
    np.testing.assert_allclose(ours, [2 / 3, 1 / 3, -1.0], rtol=1e-6)


def test_group_without_a_grader_keeps_its_advantages():
    before_B = jnp.asarray([0.5, 0.5, -1.0])
    ours = redistribute(
        before_B, jnp.asarray([1.0, jnp.nan, jnp.nan]),
        jnp.asarray([True, True, False]), jnp.zeros(3, int), cap=2.0,
    )  # fmt: skip
    assert ours.tolist() == before_B.tolist()
