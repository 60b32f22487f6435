"""Self-certainty and entropy of completions against whole logits in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.intrinsic import IntrinsicSettings, intrinsic_rewards
from jaxgrpo.device.model.decoder import bind, forward_completions
from jaxgrpo.device.records import Prompts, Rollouts
from tests.reference.head import token_statistics

P, G, S, T = 2, 2, 5, 4
B = P * G
NUM_TOKENS = 440
LENGTHS = [4, 1, 3, 2]
SETTINGS = IntrinsicSettings(num_tokens=NUM_TOKENS, logprob_chunk=8)


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    token_ids_PS = np.random.default_rng(1).integers(0, NUM_TOKENS, (P, S))
    return Prompts(jnp.asarray(token_ids_PS, jnp.int32), jnp.array([5, 3]))


def rollouts(lengths: list[int], is_real: list[bool]) -> Rollouts:
    completion_BT = np.random.default_rng(2).integers(0, NUM_TOKENS, (B, T))
    zeros_B = jnp.zeros(B, jnp.int32)
    return Rollouts(
        completion_BT=jnp.asarray(completion_BT, jnp.int32),
        lengths_B=jnp.array(lengths),
        budget_B=zeros_B + T,
        sampler_logprobs_BT=jnp.zeros((B, T)),
        finish_reason_B=zeros_B,
        prompt_index_B=jnp.arange(B) // G,
        group_id_B=jnp.arange(B) // G,
        row_key_B=jax.random.split(jax.random.key(0), B),
        policy_step_B=zeros_B,
        constraint_id_B=zeros_B,
        is_real_B=jnp.array(is_real),
    )


@pytest.fixture(scope="module")
def compute(tiny, tiny_params, prompts):
    """Returns both rewards as NumPy arrays, of rollouts of the tiny model."""

    def compute(rollouts: Rollouts, temperature=1.0, settings=SETTINGS):
        found = intrinsic_rewards(
            tiny_params, prompts, rollouts, jnp.float32(temperature),
            architecture=tiny, settings=settings,
        )  # fmt: skip
        return np.asarray(found.self_certainty_B), np.asarray(found.entropy_B)

    return compute


ALL = rollouts(LENGTHS, [True] * B)


@pytest.fixture(scope="module")
def expected(tiny, tiny_params, prompts):
    """Returns the means over tokens of float64 statistics from whole logits."""
    model = bind(tiny, tiny_params, jnp.dtype("float32"))
    hidden_BTD = forward_completions(
        model, prompts, ALL.completion_BT, ALL.prompt_index_B
    )
    hidden_BTD = np.asarray(hidden_BTD, np.float64)
    head_VD = np.asarray(model.output_head_VD, np.float64)

    def expected(temperature: float) -> tuple[list[float], list[float]]:
        certainties, entropies = [], []
        for b, length in enumerate(LENGTHS):
            tokens = [
                token_statistics(
                    hidden_BTD[b, t], head_VD, 0, temperature, set(range(NUM_TOKENS))
                )
                for t in range(length)
            ]
            entropies.append(-np.mean([entropy for _, entropy, _ in tokens]))
            certainties.append(np.mean([certainty for _, _, certainty in tokens]))
        return certainties, entropies

    return expected


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_rewards_are_means_over_the_completions_tokens(compute, expected, temperature):
    for ours, theirs in zip(
        compute(ALL, temperature), expected(temperature), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5)


def test_sharper_sampling_is_surer(compute):
    (cold, cold_entropy), (warm, warm_entropy) = compute(ALL, 0.6), compute(ALL, 1.0)
    assert (cold > warm).all() and (cold_entropy > warm_entropy).all()


def test_rows_that_pad_or_say_nothing_abstain(compute):
    lengths, is_real = [4, 0, 3, 2], [True, True, False, True]
    whole = compute(ALL)
    for ours, theirs in zip(compute(rollouts(lengths, is_real)), whole, strict=True):
        assert np.isnan(ours[[1, 2]]).all()
        np.testing.assert_allclose(ours[[0, 3]], theirs[[0, 3]], rtol=1e-6)


@pytest.mark.parametrize(("num_parts", "is_prompt_major"), [(4, True), (2, False)])
def test_parts_change_nothing(compute, num_parts: int, is_prompt_major: bool):
    settings = SETTINGS._replace(num_parts=num_parts, is_prompt_major=is_prompt_major)
    for ours, whole in zip(compute(ALL, settings=settings), compute(ALL), strict=True):
        np.testing.assert_allclose(ours, whole, rtol=1e-5)


def test_no_array_is_as_large_as_all_logits(tiny, tiny_params, prompts):
    program = intrinsic_rewards.lower(
        tiny_params, prompts, ALL, jnp.float32(1.0),
        architecture=tiny, settings=SETTINGS,
    ).as_text()  # fmt: skip
    vocabulary = tiny.vocab_size
    assert f"{B}x{T}x{vocabulary}" not in program
    assert f"x{vocabulary}x" in program  # the head is there
