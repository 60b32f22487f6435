from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.objective import metrics
from jaxgrpo.device.objective.advantages import group_advantages

IDS = jnp.asarray([0, 0, 1, 1, 2, 2, 3])
REWARDS = jnp.asarray([1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.5])
COUNTED = jnp.asarray([True] * 6 + [False])
reward_metrics = jax.jit(metrics.reward_metrics)
dead_group_metrics = jax.jit(metrics.dead_group_metrics)


def test_means_added_over_parts_are_the_mean_of_all():
    values_BT = jnp.arange(6.0).reshape(2, 3)
    mask_BT = jnp.asarray([[True, True, False], [True, False, False]])
    parts = [
        metrics.masked_mean(values_BT[i : i + 1], mask_BT[i : i + 1]) for i in (0, 1)
    ]
    total = {"m": jax.tree.map(jnp.add, *parts)}
    whole = {"m": metrics.masked_mean(values_BT, mask_BT)}
    assert metrics.finish_metrics(total) == metrics.finish_metrics(whole)
    np.testing.assert_allclose(metrics.finish_metrics(total)["m"], 4 / 3)


def test_mean_of_nothing_is_zero():
    nothing = metrics.masked_mean(jnp.full((2, 3), jnp.nan), jnp.zeros((2, 3), bool))
    assert metrics.finish_metrics({"m": nothing})["m"] == 0


def test_extremes_ignore_masked_values():
    values_BT = jnp.asarray([[1.0, jnp.nan, 3.0]])
    ours = metrics.extremes(values_BT, jnp.asarray([[True, False, True]]))
    assert [float(x) for x in ours] == [1.0, 3.0]


def test_zero_std_share_counts_groups_and_is_the_same_in_every_mode():
    ours = reward_metrics(REWARDS, IDS, COUNTED)
    np.testing.assert_allclose(ours["frac_reward_zero_std"], 2 / 3)
    # Group by group it says where advantages vanish, however they were scaled.
    for options in ({"scale": "batch"}, {"combine": "normalize_then_sum"}):
        advantages = jax.jit(partial(group_advantages, **options))
        ours = advantages(REWARDS[:, None], IDS, is_real_B=COUNTED)
        assert np.flatnonzero(ours).tolist() == [2, 3]


def test_reward_is_the_mean_and_std_of_counted_rows():
    ours = reward_metrics(REWARDS, IDS, COUNTED)
    np.testing.assert_allclose(ours["reward"], 0.5)
    np.testing.assert_allclose(ours["reward_std"], np.std([1, 1, 0, 1, 0, 0], ddof=1))


def test_dead_groups_are_counted_from_verdicts_and_sum_to_one():
    is_exact_B = jnp.asarray([True, True, False, True, False, False, True])
    ours = dead_group_metrics(is_exact_B, IDS, COUNTED)
    for share in ours.values():
        np.testing.assert_allclose(share, 1 / 3)


@pytest.mark.parametrize("first_is_judged", [True, False])
def test_group_without_a_verdict_is_left_out(first_is_judged):
    is_judged_B = COUNTED.at[0].set(first_is_judged).at[1].set(False)
    is_exact_B = jnp.asarray([True, False, False, True, False, False, True])
    ours = dead_group_metrics(is_exact_B, IDS, is_judged_B)
    all_one = 1 / 3 if first_is_judged else 0
    np.testing.assert_allclose(ours["frac_reward_all_one"], all_one)
    np.testing.assert_allclose(ours["frac_reward_mixed"], (1 - all_one) / 2)
    np.testing.assert_allclose(ours["frac_reward_all_zero"], (1 - all_one) / 2)
