import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given

from jaxgrpo.device.objective import pass_rates
from tests.device.objective.draws import few, seeds
from tests.reference import advantages as reference

PASSED = jnp.asarray([[True, True, False], [True, False, True], [False, False, False]])
HAS = jnp.asarray([[True, True, False], [True, True, True], [False, False, False]])
reweighted = jax.jit(pass_rates.reweighted_pass_rate_reward)


def test_binary_is_all_tests_and_missing_tests_abstain():
    ours = pass_rates.binary_reward(PASSED, HAS)
    np.testing.assert_array_equal(ours, [1, 0, np.nan])


def test_pass_rate_is_the_share_of_the_rows_own_tests():
    ours = pass_rates.pass_rate_reward(PASSED, HAS)
    np.testing.assert_allclose(ours, [1, 2 / 3, np.nan])


def test_two_stages_switch_at_the_step():
    before = pass_rates.two_stage_reward(PASSED, HAS, 9, 10)
    after = pass_rates.two_stage_reward(PASSED, HAS, 10, 10)
    np.testing.assert_allclose(before, [1, 2 / 3, np.nan])
    np.testing.assert_array_equal(after, [1, 0, np.nan])


@few
@given(seed=seeds)
def test_reweighted_rate_equals_the_transcription(seed):
    rng = np.random.default_rng(seed)
    group_ids = rng.integers(0, 3, 8)
    has_test = (rng.random((3, 4)) < 0.8)[group_ids]
    is_passed = rng.random((8, 4)) < 0.5
    is_passed[group_ids == 2] = True
    ours = reweighted(*(jnp.asarray(x) for x in (is_passed, has_test, group_ids)))
    theirs = reference.reweighted_pass_rates(is_passed, has_test, group_ids)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_seldom_passed_test_counts_more():
    is_passed_BJ = jnp.asarray(
        [[True, False], [True, False], [True, True], [False, True]]
    )
    ours = reweighted(is_passed_BJ, jnp.ones((4, 2), bool), jnp.zeros(4, int))
    assert ours[3] > ours[0] and ours[2] == 1
