"""OAR: importances against whole logits in float64, and what the credit keeps to."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.head import head_logits
from jaxgrpo.device.influence import (
    _NOISE,
    FORMS,
    Influence,
    InfluenceSettings,
    token_influence,
)
from jaxgrpo.device.mesh import batch_sharding, make_mesh, param_shardings
from jaxgrpo.device.model.decoder import bind, forward_completions
from jaxgrpo.device.records import Prompts, Rollouts
from tests.reference.divergence import token_divergence

P, G, S, T = 2, 2, 5, 6
B = P * G
NUM_TOKENS = 440
TEMPERATURE = 0.7
LENGTHS = np.array([6, 4, 3, 6])
ANSWERS = np.array([[3, 5], [2, 4], [0, 3], [0, 0]])
SETTINGS = InfluenceSettings(
    num_tokens=NUM_TOKENS, at_once=4, logprob_chunk=8, num_parts=2, mask_id=7
)
TOKENS = np.random.default_rng(2).integers(8, NUM_TOKENS, (B, T))
Compute = Callable[..., Influence]


def rollouts(tokens: np.ndarray = TOKENS) -> Rollouts:
    zeros_B = jnp.zeros(B, jnp.int32)
    return Rollouts(
        completion_BT=jnp.asarray(tokens, jnp.int32),
        lengths_B=jnp.asarray(LENGTHS, jnp.int32),
        budget_B=zeros_B + T,
        sampler_logprobs_BT=jnp.zeros((B, T)),
        finish_reason_B=zeros_B,
        prompt_index_B=jnp.arange(B) // G,
        group_id_B=jnp.arange(B) // G,
        row_key_B=jax.random.split(jax.random.key(0), B),
        policy_step_B=zeros_B,
        constraint_id_B=zeros_B,
        is_real_B=jnp.ones(B, bool),
    )


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    token_ids_PS = np.random.default_rng(1).integers(0, NUM_TOKENS, (P, S))
    return Prompts(jnp.asarray(token_ids_PS, jnp.int32), jnp.array([5, 3]))


@pytest.fixture(scope="module")
def compute(tiny, tiny_params, prompts) -> Compute:
    """Returns what is found of the rollouts, as NumPy arrays."""

    def compute(tokens: np.ndarray = TOKENS, **parts: object) -> Influence:
        found = token_influence(
            tiny_params, prompts, rollouts(tokens), jnp.asarray(ANSWERS),
            jnp.float32(TEMPERATURE), architecture=tiny,
            settings=SETTINGS._replace(**parts),
        )  # fmt: skip
        return jax.device_get(found)

    return compute


@pytest.fixture(scope="module")
def found(compute) -> dict[str, Influence]:
    """Returns what each form finds, the answer's own tokens weighed too."""
    return {form: compute(form=form, within_answer=True) for form in FORMS}


@pytest.fixture(scope="module")
def hidden(tiny, tiny_params, prompts) -> Callable[..., jax.Array]:
    """Returns hidden states of tokens and of a shift of their embeddings."""
    index_B = jnp.arange(B) // G

    @jax.jit
    def hidden(tokens_BT: jax.Array, shift_BTD: jax.Array) -> jax.Array:
        return forward_completions(
            bind(tiny, tiny_params, jnp.dtype("float32")), prompts, tokens_BT, index_B,
            embedding_shift_BTD=shift_BTD,
        )  # fmt: skip

    return hidden


@pytest.fixture(scope="module")
def head(tiny, tiny_params) -> jax.Array:
    return bind(tiny, tiny_params, jnp.dtype("float32")).output_head_VD


def clean_tokens() -> np.ndarray:
    return np.where(np.arange(T) < LENGTHS[:, None], TOKENS, 0).astype(np.int32)


def test_masking_a_token_is_compared_over_the_whole_vocabulary(
    found, hidden, head, tiny
):
    clean, no_shift = clean_tokens(), jnp.zeros((B, T, tiny.width))
    before = np.asarray(hidden(clean, no_shift))
    expected = np.zeros((B, T))
    for t in range(T):
        masked = clean.copy()
        masked[:, t] = SETTINGS.mask_id
        after = np.asarray(hidden(masked, no_shift))
        for b, (start, end) in enumerate(ANSWERS):
            if t < end:
                expected[b, t] = sum(
                    token_divergence(
                        before[b, j], after[b, j], np.asarray(head), TEMPERATURE,
                        NUM_TOKENS,
                    )
                    for j in range(start, end)
                )  # fmt: skip
    ours = found["perturbation"].importances_BT
    np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=1e-6)


def test_the_slope_is_that_of_the_whole_computation(found, hidden, head, tiny):
    keys = jax.vmap(partial(jax.random.fold_in, data=_NOISE))(rollouts().row_key_B)
    noise = 1e-3 * jax.vmap(lambda key: jax.random.normal(key, (T, tiny.width)))(keys)
    clean = jnp.asarray(clean_tokens())
    positions = np.arange(T)
    is_answer = (positions >= ANSWERS[:, :1]) & (positions < ANSWERS[:, 1:])

    def log_probs(shift: jax.Array) -> jax.Array:
        logits = head_logits(hidden(clean, shift), head, TEMPERATURE)
        return jax.nn.log_softmax(logits[..., :NUM_TOKENS])

    log_p = log_probs(jnp.zeros_like(noise))

    def divergence(shift: jax.Array) -> jax.Array:
        kl = (jnp.exp(log_p) * (log_p - log_probs(shift))).sum(-1)
        return jnp.where(is_answer, kl, 0.0).sum()

    slopes = np.linalg.norm(np.asarray(jax.grad(divergence)(noise)), axis=-1)
    is_weighed = found["gradient"].is_weighed_BT
    np.testing.assert_array_equal(is_weighed, positions < ANSWERS[:, 1:])
    np.testing.assert_allclose(
        found["gradient"].importances_BT[is_weighed], slopes[is_weighed],
        rtol=5e-3, atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_what_cannot_influence_the_answer_has_no_importance(form, found, compute):
    importances = found[form].importances_BT
    last = ANSWERS[:3, 1] - 1  # nothing of the answer follows its last token
    np.testing.assert_allclose(importances[np.arange(3), last], 0.0, atol=1e-6)
    assert (importances[:3, 0] > 0).all()
    other = TOKENS.copy()
    other[0, 5], other[2, 4] = 9, 9
    again = compute(other, form=form, within_answer=True).importances_BT
    np.testing.assert_allclose(again, importances, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_credit_keeps_each_rows_mass(form, found):
    credit = found[form].credit_BT
    np.testing.assert_allclose(credit.sum(axis=1), LENGTHS, rtol=1e-6)
    assert not credit[np.arange(T) >= LENGTHS[:, None]].any()
    assert credit[0].max() > 1.0 > credit[0].min() > 0.0


def test_the_answers_tokens_weigh_one_unless_they_are_asked_for(compute, found):
    before = compute(form="gradient")
    np.testing.assert_array_equal(
        before.is_weighed_BT, np.arange(T) < np.array([3, 2, 0, 0])[:, None]
    )
    np.testing.assert_array_equal(before.credit_BT[0, 3:], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(before.credit_BT.sum(axis=1), LENGTHS, rtol=1e-6)
    # All answer, and no answer at all.
    np.testing.assert_array_equal(before.credit_BT[2], [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(found["gradient"].credit_BT[3], np.ones(T))
    np.testing.assert_allclose(
        before.importances_BT[0, :3], found["gradient"].importances_BT[0, :3], rtol=1e-4
    )


@pytest.mark.parametrize("form", FORMS)
def test_no_array_is_as_large_as_all_logits(form, tiny, tiny_params, prompts):
    program = token_influence.lower(
        tiny_params, prompts, rollouts(), jnp.asarray(ANSWERS), jnp.float32(1.0),
        architecture=tiny, settings=SETTINGS._replace(form=form, num_parts=1),
    ).as_text()  # fmt: skip
    assert f"x{T}x{tiny.vocab_size}x" not in program
    assert f"x{tiny.vocab_size}x" in program  # the head is there


@pytest.mark.parametrize("form", FORMS)
def test_a_mesh_gives_the_same(form, found, tiny, tiny_params, prompts):
    mesh = make_mesh(2, 1, 1, jax.devices()[:2])
    rows = batch_sharding(mesh)
    on_mesh = token_influence(
        jax.device_put(tiny_params, param_shardings(tiny, mesh)),
        *jax.device_put((prompts, rollouts(), jnp.asarray(ANSWERS)), rows),
        jnp.float32(TEMPERATURE), architecture=tiny,
        settings=SETTINGS._replace(form=form, within_answer=True, num_parts=1),
    )  # fmt: skip
    for ours, alone in zip(on_mesh, found[form], strict=True):
        np.testing.assert_allclose(ours, alone, rtol=2e-3, atol=1e-6)
