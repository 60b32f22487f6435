"""The sampler says of its tokens what the trainer will say, and stops where it must."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.head import head_logits, token_logprobs
from jaxgrpo.device.model.cache import PrefixCache, SuffixCache
from jaxgrpo.device.model.decoder import (
    bind,
    decode_token,
    forward_completions,
)
from jaxgrpo.device.records import (
    FINISH_EOS,
    FINISH_LENGTH,
    Prompts,
    Rollouts,
)
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN, row_keys
from jaxgrpo.device.sampling.sample import SamplerSettings, sample

P, S, G, T = 4, 6, 8, 6
B = P * G
LENGTHS_P = np.array([6, 1, 4, 5])
# Five tokens, two of which end a completion: every way to end is common.
STOCHASTIC = SamplerSettings(
    group_size=G, max_new_tokens=T, eos_ids=(2, 3), num_tokens=5
)
GREEDY = SamplerSettings(
    group_size=1, max_new_tokens=T, eos_ids=(), num_tokens=300, is_greedy=True
)


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    token_ids_PS = np.random.default_rng(3).integers(0, 300, (P, S))
    return Prompts(jnp.asarray(token_ids_PS), jnp.asarray(LENGTHS_P))


def keys_of(problem_P: np.ndarray, group_size: int, step: int = 0) -> jax.Array:
    """Keys of prompt-major rows."""
    hash_P2 = np.stack([problem_P, problem_P + 100], axis=1).astype(np.uint32)
    num_prompts = len(problem_P)
    return row_keys(
        0, PURPOSE_TRAIN, step,
        jnp.asarray(np.repeat(hash_P2, group_size, axis=0)),
        jnp.zeros(num_prompts * group_size, int),
        jnp.asarray(np.tile(np.arange(group_size), num_prompts)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tiny: Any) -> Any:
    def run(
        params: Any, prompts: Prompts, key_B: jax.Array, temperature: float = 1.0,
        settings: SamplerSettings = STOCHASTIC,
    ) -> Rollouts:  # fmt: skip
        return sample(
            params, prompts, key_B, jnp.float32(temperature), jnp.int32(7),
            architecture=tiny, settings=settings,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def rollouts(tiny_params: Any, prompts: Prompts, run: Any) -> Rollouts:
    return run(tiny_params, prompts, keys_of(np.arange(P), G))


@pytest.fixture(scope="module")
def greedy(tiny_params: Any, prompts: Prompts, run: Any) -> Rollouts:
    return run(tiny_params, prompts, keys_of(np.arange(P), 1), 0.3, GREEDY)


def written(rollouts: Rollouts) -> np.ndarray:
    """True on the tokens of each completion."""
    num_columns = rollouts.completion_BT.shape[1]
    return np.arange(num_columns)[None, :] < np.asarray(rollouts.lengths_B)[:, None]


@pytest.fixture(scope="module")
def trainer_logprobs(tiny: Any, prompts: Prompts) -> Any:
    """Log-probs as the update computes them."""

    @jax.jit
    def run(params, rollouts, temperature):
        model = bind(tiny, params, jnp.dtype("float32"))
        hidden_BTD = forward_completions(
            model, prompts, rollouts.completion_BT, rollouts.prompt_index_B,
            is_prompt_major=True,
        )  # fmt: skip
        is_token_BT = jnp.arange(T)[None, :] < rollouts.lengths_B[:, None]
        return token_logprobs(
            hidden_BTD, model.output_head_VD, rollouts.completion_BT, temperature,
            num_tokens=STOCHASTIC.num_tokens, mask_BT=is_token_BT, chunk=64,
        ).logprobs_BT  # fmt: skip

    return run


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_sampler_and_trainer_agree_on_log_probs(
    tiny_params: Any,
    prompts: Prompts,
    run: Any,
    trainer_logprobs: Any,
    temperature: float,
) -> None:
    rollouts = run(tiny_params, prompts, keys_of(np.arange(P), G), temperature)
    expected_BT = trainer_logprobs(tiny_params, rollouts, jnp.float32(temperature))
    np.testing.assert_allclose(
        rollouts.sampler_logprobs_BT, expected_BT, rtol=0, atol=1e-5
    )


def test_new_weights_are_used_at_once(
    tiny_params: Any,
    prompts: Prompts,
    run: Any,
    trainer_logprobs: Any,
    rollouts: Rollouts,
) -> None:
    updated = jax.tree.map(lambda x: 1.1 * x, tiny_params)
    after = run(updated, prompts, keys_of(np.arange(P), G))
    expected_BT = trainer_logprobs(updated, after, jnp.float32(1.0))
    np.testing.assert_allclose(
        after.sampler_logprobs_BT, expected_BT, rtol=0, atol=1e-5
    )
    stale_BT = trainer_logprobs(tiny_params, after, jnp.float32(1.0))
    assert np.abs(stale_BT - expected_BT).max() > 0.1


def test_a_completion_ends_with_its_first_end_token_or_at_the_budget(
    rollouts: Rollouts,
) -> None:
    ends = set()
    for b in range(B):
        tokens = np.asarray(rollouts.completion_BT[b])
        length, reason = int(rollouts.lengths_B[b]), int(rollouts.finish_reason_B[b])
        is_end_T = np.isin(tokens, STOCHASTIC.eos_ids)
        assert not is_end_T[: length - 1].any()
        if reason == FINISH_EOS:
            assert is_end_T[length - 1]
            ends.add((length == 1, int(tokens[length - 1])))
        else:
            assert reason == FINISH_LENGTH
            assert length == T and not is_end_T.any()
            ends.add("length")
    # Both end tokens, as the first token and later, and no end at all, did occur.
    assert ends == {(True, 2), (True, 3), (False, 2), (False, 3), "length"}


def test_padded_vocabulary_is_never_sampled(rollouts: Rollouts) -> None:
    sampled = np.asarray(rollouts.completion_BT)[written(rollouts)]
    assert set(sampled) == set(range(STOCHASTIC.num_tokens))


def test_log_probs_are_zero_after_the_end(rollouts: Rollouts) -> None:
    logprobs_BT = np.asarray(rollouts.sampler_logprobs_BT)
    assert not logprobs_BT[~written(rollouts)].any()
    assert (logprobs_BT[written(rollouts)] < 0).all()


def test_rows_are_prompt_major_and_each_prompt_is_a_group(rollouts: Rollouts) -> None:
    np.testing.assert_array_equal(rollouts.prompt_index_B, np.repeat(np.arange(P), G))
    np.testing.assert_array_equal(rollouts.group_id_B, rollouts.prompt_index_B)
    assert np.asarray(rollouts.is_real_B).all()
    assert set(np.asarray(rollouts.policy_step_B)) == {7}


def test_samples_of_a_prompt_differ(rollouts: Rollouts) -> None:
    first_G = np.asarray(rollouts.completion_BT).reshape(P, G, T)[0]
    assert len({tuple(row) for row in first_G}) > 1


def test_a_rows_tokens_do_not_depend_on_the_order_of_the_prompts(
    tiny_params: Any, prompts: Prompts, run: Any, rollouts: Rollouts
) -> None:
    order_P = np.array([2, 0, 3, 1])
    shuffled = run(
        tiny_params, Prompts(*(x[order_P] for x in prompts)), keys_of(order_P, G)
    )
    order_B = (order_P[:, None] * G + np.arange(G)).ravel()
    for name in ("completion_BT", "lengths_B", "sampler_logprobs_BT"):
        np.testing.assert_array_equal(
            getattr(shuffled, name), getattr(rollouts, name)[order_B]
        )


def test_tokens_in_the_padding_of_a_prompt_change_no_bit(
    tiny_params: Any, prompts: Prompts, run: Any, rollouts: Rollouts
) -> None:
    is_token_PS = np.arange(S)[None, :] < LENGTHS_P[:, None]
    token_ids_PS = jnp.where(is_token_PS, prompts.token_ids_PS, 299)
    padded = Prompts(token_ids_PS, prompts.lengths_P)
    other = run(tiny_params, padded, keys_of(np.arange(P), G))
    np.testing.assert_array_equal(other.completion_BT, rollouts.completion_BT)
    np.testing.assert_array_equal(
        other.sampler_logprobs_BT, rollouts.sampler_logprobs_BT
    )


def test_first_tokens_follow_the_models_distribution(
    tiny: Any, tiny_params: Any, prompts: Prompts, run: Any
) -> None:
    temperature = 1.3

    @jax.jit
    def probabilities(params):
        model = bind(tiny, params, jnp.dtype("float32"))
        hidden_P1D = forward_completions(
            model, prompts, jnp.zeros((P, 1), int), jnp.arange(P)
        )
        logits_P1V = head_logits(hidden_P1D, model.output_head_VD, temperature, 5)
        return jax.nn.softmax(logits_P1V[:, 0, :5])

    counts_PV = np.zeros((P, 5))
    num_runs = 60
    for step in range(num_runs):
        key_B = keys_of(np.arange(P), G, step)
        first_B = run(tiny_params, prompts, key_B, temperature).completion_BT[:, 0]
        np.add.at(counts_PV, (np.repeat(np.arange(P), G), np.asarray(first_B)), 1)
    expected_PV = num_runs * G * np.asarray(probabilities(tiny_params))
    statistic = ((counts_PV - expected_PV) ** 2 / expected_PV).sum()
    # 16 degrees of freedom: exceeded by chance once in 10,000.
    assert statistic < 46.0


def test_nothing_is_compiled_twice_for_a_shape(
    tiny_params: Any, prompts: Prompts, run: Any
) -> None:
    run(tiny_params, prompts, keys_of(np.arange(P), G))
    sampler: Any = sample
    before = sampler._cache_size()
    other = jax.tree.map(lambda x: 0.5 * x, tiny_params)
    run(other, prompts, keys_of(np.arange(P) + 9, G, step=4), 0.7)
    assert sampler._cache_size() == before


def test_greedy_tokens_are_the_argmax_and_log_probs_are_untempered(
    tiny: Any, tiny_params: Any, prompts: Prompts, greedy: Rollouts
) -> None:
    @jax.jit
    def logprobs(params):
        model = bind(tiny, params, jnp.dtype("float32"))
        hidden_PTD = forward_completions(
            model, prompts, greedy.completion_BT, jnp.arange(P)
        )
        return jax.nn.log_softmax(
            head_logits(hidden_PTD, model.output_head_VD, 1.0, GREEDY.num_tokens)
        )

    logprobs_PTV = np.asarray(logprobs(tiny_params))
    np.testing.assert_array_equal(greedy.completion_BT, logprobs_PTV.argmax(axis=-1))
    np.testing.assert_allclose(
        greedy.sampler_logprobs_BT, logprobs_PTV.max(axis=-1), rtol=0, atol=1e-5
    )


def test_without_end_tokens_every_completion_takes_its_budget(
    greedy: Rollouts,
) -> None:
    assert (np.asarray(greedy.lengths_B) == T).all()
    assert (np.asarray(greedy.finish_reason_B) == FINISH_LENGTH).all()


def test_a_budget_of_one_token_gives_the_first_token(
    tiny_params: Any, prompts: Prompts, run: Any, rollouts: Rollouts
) -> None:
    settings = STOCHASTIC._replace(max_new_tokens=1)
    key_B = keys_of(np.arange(P), G)
    short = run(tiny_params, prompts, key_B, settings=settings)
    first_B = rollouts.completion_BT[:, 0]
    np.testing.assert_array_equal(short.completion_BT[:, 0], first_B)
    assert (np.asarray(short.lengths_B) == 1).all()
    is_end_B = np.isin(first_B, STOCHASTIC.eos_ids)
    expected_B = np.where(is_end_B, FINISH_EOS, FINISH_LENGTH)
    np.testing.assert_array_equal(short.finish_reason_B, expected_B)


def cache_bytes(architecture: Any, num_rows: int, num_columns: int) -> int:
    a = architecture
    num_values = num_rows * num_columns * a.num_kv_heads * a.head_width
    return 2 * 4 * a.num_layers * num_values


def shapes_of(params: Any, num_layers: int) -> Any:
    """Shapes of the parameters of a deeper model."""

    def deeper(path: Any, leaf: Any) -> Any:
        shape = (num_layers, *leaf.shape[1:]) if path[0].key == "layers" else leaf.shape
        return jax.ShapeDtypeStruct(shape, leaf.dtype)

    return jax.tree_util.tree_map_with_path(deeper, params)


def test_a_decoded_token_is_written_into_the_cache_in_place(
    tiny: Any, tiny_params: Any
) -> None:
    deep = tiny._replace(num_layers=8)
    rows, columns = 32, 256
    cache: Any = jax.ShapeDtypeStruct(
        (8, rows, columns, tiny.num_kv_heads, tiny.head_width), jnp.float32
    )
    lengths_P: Any = jax.ShapeDtypeStruct((4,), jnp.int32)
    prefix: Any = jax.ShapeDtypeStruct((8, 4, 6, *cache.shape[3:]), jnp.float32)

    def step(params, token_B, column, prefix, suffix):
        model = bind(deep, params, jnp.dtype("float32"))
        return decode_token(model, token_B, column, prefix, suffix)

    memory: Any = (
        jax.jit(step, donate_argnums=4)
        .lower(
            shapes_of(tiny_params, 8),
            jax.ShapeDtypeStruct((rows,), jnp.int32),
            jax.ShapeDtypeStruct((), jnp.int32),
            PrefixCache(prefix, prefix, lengths_P),
            SuffixCache(cache, cache),
        )
        .compile()
        .memory_analysis()
    )
    size = cache_bytes(deep, rows, columns)
    assert memory.alias_size_in_bytes >= size
    # One layer's keys and values are read at a time.
    assert memory.temp_size_in_bytes < size / 2


def test_the_sampler_holds_its_cache_once(
    tiny: Any, tiny_params: Any, prompts: Prompts
) -> None:
    deep = tiny._replace(num_layers=8)
    settings = STOCHASTIC._replace(max_new_tokens=256)
    memory: Any = (
        sample.lower(
            shapes_of(tiny_params, 8), prompts, keys_of(np.arange(P), G),
            jnp.float32(1.0), jnp.int32(0), architecture=deep, settings=settings,
        )
        .compile()
        .memory_analysis()
    )  # fmt: skip
    size = cache_bytes(deep, B, settings.max_new_tokens)
    assert memory.temp_size_in_bytes < 1.5 * size
