"""Each estimator against the exact KL of two categorical distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from jaxgrpo.device.objective.divergences import DIVERGENCES, kl_penalised_rewards
from tests.device.objective.draws import few, seeds

NUM_OUTCOMES = 5


def exact_kl(one_V, two_V):
    """KL(one || two) from logits."""
    one_V, two_V = jax.nn.log_softmax(one_V), jax.nn.log_softmax(two_V)
    return (jnp.exp(one_V) * (one_V - two_V)).sum()


def expected_estimate(policy_V, sampler_V, ref_V, kind):
    """Mean of an estimator over outcomes drawn from the sampler, which is frozen."""
    policy_V, ref_V = jax.nn.log_softmax(policy_V), jax.nn.log_softmax(ref_V)
    sampler_V = jax.lax.stop_gradient(jax.nn.log_softmax(sampler_V))
    ratios_V = jnp.exp(policy_V - sampler_V)
    rows = (policy_V[None], ref_V[None], ratios_V[None])
    return (jnp.exp(sampler_V) * DIVERGENCES[kind](*rows)[0]).sum()


estimate = jax.jit(jax.value_and_grad(expected_estimate), static_argnames="kind")
forward = jax.jit(jax.value_and_grad(exact_kl))
reverse = jax.jit(jax.value_and_grad(lambda policy_V, ref_V: exact_kl(ref_V, policy_V)))


def three_logits(seed):
    draws = np.random.default_rng(seed).normal(0, 1, (3, NUM_OUTCOMES))
    return jnp.asarray(draws, jnp.float32)


@pytest.mark.parametrize("kind", ["k1", "k3", "k3_corrected"])
@few
@given(seed=seeds)
def test_value_is_the_exact_kl_on_policy(kind, seed):
    policy_V, _, ref_V = three_logits(seed)
    value, _ = estimate(policy_V, policy_V, ref_V, kind)
    np.testing.assert_allclose(value, forward(policy_V, ref_V)[0], rtol=1e-4, atol=1e-5)


@few
@given(seed=seeds)
def test_k1_in_the_loss_pulls_nowhere(seed):
    policy_V, _, ref_V = three_logits(seed)
    _, gradient_V = estimate(policy_V, policy_V, ref_V, "k1")
    np.testing.assert_allclose(gradient_V, 0, atol=1e-6)


@few
@given(seed=seeds)
def test_k2_has_the_gradient_of_kl_to_the_reference(seed):
    policy_V, _, ref_V = three_logits(seed)
    _, gradient_V = estimate(policy_V, policy_V, ref_V, "k2")
    np.testing.assert_allclose(gradient_V, forward(policy_V, ref_V)[1], atol=1e-5)


@few
@given(seed=seeds)
def test_k3_has_the_gradient_of_kl_from_the_reference(seed):
    policy_V, _, ref_V = three_logits(seed)
    _, gradient_V = estimate(policy_V, policy_V, ref_V, "k3")
    np.testing.assert_allclose(gradient_V, reverse(policy_V, ref_V)[1], atol=1e-5)


@few
@given(seed=seeds)
def test_corrected_k3_is_exact_off_policy_in_value_and_gradient(seed):
    policy_V, sampler_V, ref_V = three_logits(seed)
    value, gradient_V = estimate(policy_V, sampler_V, ref_V, "k3_corrected")
    exact, exact_gradient_V = forward(policy_V, ref_V)
    np.testing.assert_allclose(value, exact, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient_V, exact_gradient_V, atol=1e-5)


@pytest.mark.parametrize("kind", ["k2", "k3", "k3_corrected"])
@few
@given(seed=seeds)
def test_a_step_on_the_divergence_alone_reduces_the_kl(kind, seed):
    policy_V, _, ref_V = three_logits(seed)
    before = forward(policy_V, ref_V)[0]
    _, gradient_V = estimate(policy_V, policy_V, ref_V, kind)
    after = forward(policy_V - 0.05 * gradient_V, ref_V)[0]
    assert after < before


def test_kl_in_the_reward_is_one_more_reward_without_gradient():
    rewards_BR = jnp.asarray([[1.0], [0.0]])
    kl_B = jnp.asarray([2.0, 4.0])
    more_BR = kl_penalised_rewards(rewards_BR, kl_B, 0.5)
    assert more_BR.tolist() == [[1.0, -1.0], [0.0, -2.0]]
    slope_B = jax.grad(lambda kl_B: kl_penalised_rewards(rewards_BR, kl_B, 0.5).sum())
    assert not slope_B(kl_B).any()
