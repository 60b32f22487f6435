"""One token at a time through a ring gives what the whole sequence gives."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.model.cache import (
    CACHE_DTYPES,
    DecodeCache,
    Kept,
    empty_cache,
    kept_like,
)
from jaxgrpo.device.model.decode import decode_token
from jaxgrpo.device.model.decode_attention import Blocks, window_of
from jaxgrpo.device.model.decoder import bind, forward_completions, forward_prompts
from jaxgrpo.device.records import Prompts

C, M, S, T = 2, 2, 8, 12
B = C * M
BLOCKS = Blocks(ring=4, prefix=4)
LENGTHS_C = np.array([7, 3])


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    token_ids_PS = np.random.default_rng(0).integers(0, 300, (C, S))
    return Prompts(jnp.asarray(token_ids_PS), jnp.asarray(LENGTHS_C))


@pytest.fixture(scope="module")
def completion_BT() -> np.ndarray:  # noqa: N802
    return np.random.default_rng(1).integers(0, 300, (B, T))


@pytest.fixture(scope="module")
def expected_BTD(  # noqa: N802
    tiny: Any, tiny_params: Any, prompts: Prompts, completion_BT: np.ndarray
) -> np.ndarray:
    """Hidden states of teacher forcing."""

    @jax.jit
    def run(params: Any) -> Any:
        model = bind(tiny, params, jnp.dtype("float32"))
        prompt_index_B = jnp.arange(B) // M
        return forward_completions(
            model, prompts, jnp.asarray(completion_BT), prompt_index_B
        )

    return np.asarray(run(tiny_params))


def filled_cache(tiny: Any, params: Any, prompts: Prompts, dtype: str) -> DecodeCache:
    """Prompts in their slots; rings full of what earlier rows left."""
    cache = empty_cache(
        tiny, num_slots=C, rows_per_slot=M, num_positions=S, num_columns=T, dtype=dtype
    )
    model = bind(tiny, params, jnp.dtype("float32"))
    _, prefix = forward_prompts(model, prompts)

    def leftovers(kept: Kept) -> Kept:
        draws = jax.random.normal(jax.random.key(5), kept.values.shape)
        return kept_like(draws, kept)

    return DecodeCache(
        prefix_k=kept_like(prefix.k_LPSKH.swapaxes(2, 3), cache.prefix_k),
        prefix_v=kept_like(prefix.v_LPSKH.swapaxes(2, 3), cache.prefix_v),
        lengths_C=prompts.lengths_P,
        suffix_k=leftovers(cache.suffix_k),
        suffix_v=leftovers(cache.suffix_v),
    )


@pytest.fixture(scope="module")
def decoded(
    tiny: Any, tiny_params: Any, prompts: Prompts, completion_BT: np.ndarray
) -> Any:
    """Returns a function: states of each row's tokens, rows beginning when told to."""
    caches = {
        dtype: jax.jit(partial(filled_cache, tiny, dtype=dtype))(tiny_params, prompts)
        for dtype in CACHE_DTYPES
    }

    @partial(jax.jit, static_argnames="blocks")
    def step(params, token_B, cache, step, num_fed_B, is_live_B, blocks):
        window = window_of(step, num_fed_B, is_live_B, cache.lengths_C, blocks)
        model = bind(tiny, params, jnp.dtype("float32"))
        return decode_token(model, token_B, cache, window, blocks)

    def run(
        begin_B: tuple[int, ...], dtype: str = "float32", blocks: Blocks = BLOCKS
    ) -> np.ndarray:
        """As the sampler does, a row idles for one step and is then fed its tokens."""
        cache, hidden_BTD = caches[dtype], np.zeros((B, T, tiny.width), np.float32)
        for now in range(max(begin_B) + T):
            num_fed_B = now - 1 - np.array(begin_B)
            is_live_B = (num_fed_B >= 0) & (num_fed_B < T - 1)
            column_B = np.clip(num_fed_B, 0, T - 1)
            token_B = completion_BT[np.arange(B), column_B]
            states_BD, cache = step(
                tiny_params, token_B, cache, now, column_B, is_live_B, blocks
            )
            live = np.flatnonzero(is_live_B)
            hidden_BTD[live, column_B[live] + 1] = np.asarray(states_BD)[live]
        return hidden_BTD[:, 1:]

    return run


@pytest.fixture(scope="module")
def together(decoded: Any) -> np.ndarray:
    return decoded((0, 0, 0, 0))


def test_decoding_gives_the_states_of_teacher_forcing(
    together: np.ndarray, expected_BTD: np.ndarray
) -> None:
    np.testing.assert_allclose(together, expected_BTD[:, 1:], rtol=0, atol=2e-5)


def test_when_a_row_begins_changes_no_bit(decoded: Any, together: np.ndarray) -> None:
    # Rows begin in different blocks: windows of other lengths, rings that wrap.
    np.testing.assert_array_equal(decoded((0, 8, 4, 12)), together)


SIDE_BY_SIDE = BLOCKS._replace(visible=3)


def test_blocks_side_by_side_give_the_states_of_teacher_forcing(
    decoded: Any, expected_BTD: np.ndarray
) -> None:
    states = decoded((0, 0, 0, 0), blocks=SIDE_BY_SIDE)
    np.testing.assert_allclose(states, expected_BTD[:, 1:], rtol=0, atol=2e-5)


def test_when_a_row_begins_changes_no_bit_of_blocks_side_by_side(decoded: Any) -> None:
    states = decoded((0, 0, 0, 0), blocks=SIDE_BY_SIDE)
    later = decoded((0, 8, 4, 12), blocks=SIDE_BY_SIDE)
    np.testing.assert_array_equal(later, states)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_a_smaller_cache_is_near(
    decoded: Any, together: np.ndarray, dtype: str
) -> None:
    difference = np.abs(decoded((0, 0, 0, 0), dtype) - together)
    # States have a spread of about 1; keys and values are rounded to 1 part in 256.
    assert 0 < difference.mean() < 0.02


def test_int8_rounds_to_half_a_step_of_each_tokens_scale() -> None:
    x = jax.random.normal(jax.random.key(0), (3, 2, 4, 5, 16))
    x = x.at[0, 0, 0, 0].set(0.0)
    kept = kept_like(x, Kept(jnp.zeros(x.shape, jnp.int8), jnp.zeros(x.shape[:-1])))
    assert kept.values.dtype == jnp.int8 and kept.scales is not None
    assert int(jnp.abs(kept.values).max()) == 127
    error = jnp.abs(kept.values * kept.scales[..., None] - x)
    assert (error <= 0.5001 * kept.scales[..., None]).all()
    assert not error[0, 0, 0, 0].any()


def test_loops_go_as_far_as_live_rows_need() -> None:
    lengths_C = jnp.array([4, 9])
    window = partial(window_of, blocks=BLOCKS)
    live_B = jnp.array([True, True, False, False])
    idle_B = jnp.zeros(4, bool)
    # Row 0 has tokens in columns 3 .. 9: blocks 0, 1 and 2. Row 2 is not live.
    few = window(jnp.int32(10), jnp.array([7, 1, 10, 0]), live_B, lengths_C)
    assert (int(few.num_blocks), int(few.num_prefix_blocks)) == (3, 1)
    more = window(jnp.int32(10), jnp.array([7, 1, 10, 0]), ~idle_B, lengths_C)
    assert (int(more.num_blocks), int(more.num_prefix_blocks)) == (3, 3)
    none = window(jnp.int32(10), jnp.array([0, 0, 10, 0]), live_B, lengths_C)
    assert (int(none.num_blocks), int(none.num_prefix_blocks)) == (0, 1)
    idle = window(jnp.int32(10), jnp.array([7, 1, 10, 0]), idle_B, lengths_C)
    assert (int(idle.num_blocks), int(idle.num_prefix_blocks)) == (0, 0)
