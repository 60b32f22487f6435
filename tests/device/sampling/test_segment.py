"""What a segment of decoding costs in memory, and where prefilled prompts go."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.cache import CACHE_DTYPES, Kept, PrefixCache
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.sampling.choose import Choice
from jaxgrpo.device.sampling.prefill import Prefilled, insert, prefill
from jaxgrpo.device.sampling.segment import decode_segment
from jaxgrpo.device.sampling.slots import (
    Decoding,
    SamplerSettings,
    decoding_shapes,
    start_decoding,
)

SMALL = SamplerSettings(
    group_size=2,
    num_slots=4,
    rows_per_slot=2,
    max_prompt_tokens=16,
    max_new_tokens=8,
    segment_steps=8,
    eos_ids=(2,),
    num_tokens=40,
)
# As on an accelerator, where it counts: deep, and with a long ring.
LONG = SMALL._replace(
    group_size=4, num_slots=8, rows_per_slot=4, max_prompt_tokens=128,
    max_new_tokens=512, choice=Choice(top_k=4),
)  # fmt: skip
OPTIMISED = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
}
"""What the other tests turn off to compile faster."""


def bytes_of(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module")
def deep(tiny: Architecture) -> Architecture:
    return tiny._replace(num_layers=8)


# Rounded to bfloat16, the CPU's compiler keeps what it computes with in float32 too.
@pytest.mark.parametrize("dtype", sorted({*CACHE_DTYPES} - {"bfloat16"}))
def test_a_segment_holds_its_cache_once(deep: Architecture, dtype: str) -> None:
    settings = LONG._replace(cache_dtype=dtype)
    shapes = decoding_shapes(deep, settings)
    lowered = decode_segment.lower(
        jax.eval_shape(lambda: initial_params(deep, jax.random.key(0))),
        shapes,
        jax.eval_shape(lambda: jax.random.key(0)),
        jax.ShapeDtypeStruct((), jnp.float32),
        jax.ShapeDtypeStruct((), jnp.int32),
        architecture=deep,
        settings=settings,
    )
    memory: Any = lowered.compile(compiler_options=OPTIMISED).memory_analysis()
    assert memory.alias_size_in_bytes >= bytes_of(shapes.cache)
    assert memory.temp_size_in_bytes < bytes_of(shapes.cache) / 2


def test_an_insertion_holds_its_cache_once(deep: Architecture) -> None:
    shapes = decoding_shapes(deep, LONG)
    rows, width = LONG.prefill_rows(128, 1), 128
    prompts = Prompts(
        jax.ShapeDtypeStruct((rows, width), jnp.int32),  # type: ignore[arg-type]
        jax.ShapeDtypeStruct((rows,), jnp.int32),  # type: ignore[arg-type]
    )
    params = jax.eval_shape(lambda: initial_params(deep, jax.random.key(0)))
    prefilled = jax.eval_shape(
        lambda params, prompts: prefill(
            params, prompts, architecture=deep, settings=LONG.forward
        ),
        params,
        prompts,
    )
    slots: Any = jax.ShapeDtypeStruct((LONG.num_slots,), jnp.int32)
    flags: Any = jax.ShapeDtypeStruct((LONG.num_slots,), bool)
    lowered = insert.lower(shapes, prefilled, slots, flags, num_shards=1)
    memory: Any = lowered.compile(compiler_options=OPTIMISED).memory_analysis()
    assert memory.alias_size_in_bytes >= bytes_of(shapes.cache)
    assert memory.temp_size_in_bytes < bytes_of(shapes.cache) / 2


def marked(tiny: Architecture, num_prompts: int, width: int) -> Prefilled:
    """Prompts whose every number is their place plus one."""
    place_P = jnp.arange(1.0, num_prompts + 1)
    shape = (tiny.num_layers, num_prompts, width, tiny.num_kv_heads, tiny.head_width)
    values = jnp.broadcast_to(place_P[None, :, None, None, None], shape)
    return Prefilled(
        last_PD=jnp.broadcast_to(place_P[:, None], (num_prompts, tiny.width)),
        prefix=PrefixCache(values, values, jnp.arange(num_prompts) + 1),
    )


def marks_of(decoding: Decoding) -> list[set[float]]:
    """The numbers in each slot's last state, keys and values."""

    def of_slot(slot: int) -> set[float]:
        cache = decoding.cache
        parts = [decoding.last_CD[slot]]
        parts += [kept.values[:, slot] for kept in (cache.prefix_k, cache.prefix_v)]
        return {float(x) for part in parts for x in np.unique(part)}

    return [of_slot(slot) for slot in range(SMALL.num_slots)]


@pytest.mark.parametrize(
    ("num_shards", "source_C", "expected"),
    [
        (1, [9, 0, 9, 1], [{0.0}, {1.0}, {0.0}, {2.0}]),
        # Two prompts for each half of the slots: sources count within the half.
        (2, [1, 9, 1, 0], [{2.0}, {0.0}, {4.0}, {3.0}]),
    ],
)
def test_a_slot_takes_the_prompt_it_is_given_and_others_stay(
    tiny: Architecture, num_shards: int, source_C: list[int], expected: list[Any]
) -> None:
    decoding = start_decoding(tiny, SMALL, {"any": jnp.zeros(1)})
    # 9: no prompt.
    is_new_C = np.array(source_C) != 9
    source = np.where(is_new_C, source_C, 0)
    after = insert(
        decoding,
        marked(tiny, 2 * num_shards, 16),
        jnp.asarray(source),
        jnp.asarray(is_new_C),
        num_shards=num_shards,
    )
    assert marks_of(after) == expected
    of_slots = [int(max(marks)) if marks != {0.0} else 1 for marks in expected]
    np.testing.assert_array_equal(after.cache.lengths_C, of_slots)


def test_a_narrow_prompt_leaves_the_rest_of_its_slot(tiny: Architecture) -> None:
    settings = SMALL._replace(max_prompt_tokens=32)
    decoding = start_decoding(tiny, settings, {"any": jnp.zeros(1)})
    flags = jnp.array([True, False, False, False])
    after = insert(
        decoding, marked(tiny, 1, 16), jnp.zeros(4, int), flags, num_shards=1
    )
    kept: Kept = after.cache.prefix_k
    assert (kept.values[:, 0, :, :16] == 1.0).all()
    assert not kept.values[:, 0, :, 16:].any()


def test_widths_of_prompts_double_up_to_the_longest() -> None:
    def widths(longest: int) -> tuple[int, ...]:
        return SMALL._replace(max_prompt_tokens=longest).prompt_widths

    assert widths(60) == (64,)
    assert widths(128) == (128,)
    assert widths(1_000) == (128, 256, 512, 1_024)


def test_side_by_side_a_few_numbers_of_blocks_serve_all_lengths() -> None:
    settings = SMALL._replace(max_new_tokens=44, attends_side_by_side=True)
    # Eleven blocks of four columns.
    found = [settings.visible_blocks(num_steps) for num_steps in (1, 4, 5, 32, 33, 999)]
    assert found == [1, 1, 2, 8, 11, 11]
    assert settings.num_segment_programs == 5
    assert settings._replace(attends_side_by_side=False).num_segment_programs == 1


def test_a_program_of_prefill_takes_what_fills_it() -> None:
    settings = SMALL._replace(num_slots=16, prefill_tokens=512)
    assert settings.prefill_rows(128, 1) == 4
    assert settings.prefill_rows(1_024, 1) == 1
    assert settings.prefill_rows(16, 1) == 16
    # On a mesh as many for every shard.
    assert settings.prefill_rows(1_024, 8) == 8
    assert settings.prefill_rows(16, 8) == 16
