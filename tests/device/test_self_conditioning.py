"""SC-GRPO: divergences against whole logits in float64, and who has weights of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.mesh import batch_sharding, make_mesh, param_shardings
from jaxgrpo.device.model.decoder import bind, forward_completions
from jaxgrpo.device.objective.advantages import group_advantages
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.self_conditioning import (
    SelfConditioned,
    SelfConditioningSettings,
    Teachers,
    self_conditioned,
)
from tests.device.test_influence import LENGTHS, NUM_TOKENS, B, G, P, S, T, rollouts
from tests.reference.divergence import token_divergence

TEMPERATURE = 0.7
WIDTH = 9
IS_MIXED = np.array([True, True, False, False])
IS_EXPLORED = np.array([False, False, True, True])
SETTINGS = SelfConditioningSettings(
    num_tokens=NUM_TOKENS, logprob_chunk=8, num_parts=2, exploration=0.5
)


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    token_ids_PS = np.random.default_rng(1).integers(0, NUM_TOKENS, (P, S))
    return Prompts(jnp.asarray(token_ids_PS, jnp.int32), jnp.array([5, 3]))


@pytest.fixture(scope="module")
def teachers(prompts) -> Teachers:
    """Returns teachers: the last one reads what its student does."""
    ids_BS = np.random.default_rng(4).integers(0, NUM_TOKENS, (B, WIDTH))
    ids_BS[3, :3] = np.asarray(prompts.token_ids_PS)[1, :3]
    return Teachers(
        token_ids_BS=jnp.asarray(ids_BS, jnp.int32),
        lengths_B=jnp.array([9, 7, 8, 3]),
        is_mixed_B=jnp.asarray(IS_MIXED),
        is_explored_B=jnp.asarray(IS_EXPLORED),
    )


@pytest.fixture(scope="module")
def found(tiny, tiny_params, prompts, teachers) -> SelfConditioned:
    """Returns what comes of the rollouts, as NumPy arrays."""
    return jax.device_get(
        self_conditioned(
            tiny_params, prompts, rollouts(), teachers, jnp.float32(TEMPERATURE),
            architecture=tiny, settings=SETTINGS,
        )
    )  # fmt: skip


def test_divergences_are_over_the_whole_vocabulary(
    found, tiny, tiny_params, prompts, teachers
):
    model = bind(tiny, tiny_params, jnp.dtype("float32"))
    mask = np.arange(T) < LENGTHS[:, None]
    tokens = jnp.where(mask, rollouts().completion_BT, 0)
    student = forward_completions(model, prompts, tokens, jnp.arange(B) // G)
    shown = Prompts(teachers.token_ids_BS, teachers.lengths_B)
    teacher = forward_completions(model, shown, tokens, jnp.arange(B))
    head = np.asarray(model.output_head_VD)
    expected = np.zeros((B, T))
    for b, t in zip(*np.nonzero(mask), strict=True):
        expected[b, t] = token_divergence(
            np.asarray(teacher)[b, t], np.asarray(student)[b, t], head, TEMPERATURE,
            NUM_TOKENS,
        )  # fmt: skip
    np.testing.assert_allclose(found.divergences_BT, expected, rtol=2e-4, atol=2e-6)
    assert (expected[:3][mask[:3]] > 1e-4).all()
    np.testing.assert_allclose(expected[3], 0.0, atol=1e-6)


def test_weights_are_of_mixed_groups_and_do_not_keep_mass(found):
    divergences = found.divergences_BT[:2]
    mask = np.arange(T) < LENGTHS[:2, None]
    scale = np.quantile(divergences[mask].astype(np.float64), 0.75)
    assert found.scale == pytest.approx(scale, rel=1e-5)
    np.testing.assert_allclose(
        found.credit_BT[:2], np.where(mask, divergences / (divergences + scale), 0.0),
        rtol=1e-5,
    )  # fmt: skip
    assert (found.credit_BT[:2].sum(axis=1) < LENGTHS[:2]).all()
    np.testing.assert_array_equal(found.credit_BT[2:], np.arange(T) < LENGTHS[2:, None])


def test_unlike_the_failure_is_better(found):
    means = found.divergences_BT[2:].sum(axis=1) / LENGTHS[2:]
    expected = 0.5 * np.asarray(
        group_advantages(jnp.asarray(means)[:, None], jnp.zeros(2, int))
    )
    np.testing.assert_allclose(found.added_advantages_B[2:], expected, rtol=1e-4)
    np.testing.assert_array_equal(found.added_advantages_B[:2], 0.0)
    assert found.added_advantages_B[2] > 0 > found.added_advantages_B[3]


def test_a_mesh_gives_the_same(found, tiny, tiny_params, prompts, teachers):
    mesh = make_mesh(2, 1, 1, jax.devices()[:2])
    on_mesh = self_conditioned(
        jax.device_put(tiny_params, param_shardings(tiny, mesh)),
        *jax.device_put((prompts, rollouts(), teachers), batch_sharding(mesh)),
        jnp.float32(TEMPERATURE), architecture=tiny,
        settings=SETTINGS._replace(num_parts=1),
    )  # fmt: skip
    for ours, alone in zip(on_mesh, found, strict=True):
        np.testing.assert_allclose(ours, alone, rtol=1e-4, atol=1e-6)
