"""Eight devices draw what one draws, and no cache travels between them."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN, run_key
from jaxgrpo.device.sampling.prefill import insert, prefill
from jaxgrpo.device.sampling.segment import decode_segment
from jaxgrpo.device.sampling.slots import SamplerSettings, start_decoding
from jaxgrpo.engine import Engine, Request, SampledGroup

SHAPES = [(8, 1, 1), (2, 2, 2), (1, 4, 2)]
NUM_REQUESTS = 12
SETTINGS = SamplerSettings(
    group_size=2,
    num_slots=8,
    rows_per_slot=2,
    max_prompt_tokens=16,
    max_new_tokens=8,
    segment_steps=8,
    eos_ids=(2,),
    num_tokens=12,
)
TINY = PRESETS["qwen3-tiny"]
PROGRAMS: list[Any] = [prefill, insert, decode_segment]


@pytest.fixture(scope="module")
def params() -> Any:
    return jax.tree.map(lambda x: 2 * x, initial_params(TINY, jax.random.key(1)))


def placed(
    params: Any, shape: tuple[int, int, int], architecture: Architecture = TINY
) -> Any:
    return jax.device_put(params, param_shardings(architecture, make_mesh(*shape)))


def draw(
    params: Any,
    settings: SamplerSettings = SETTINGS,
    architecture: Architecture = TINY,
) -> list[SampledGroup]:
    rng = np.random.default_rng(0)
    requests = [
        Request(
            token_ids=rng.integers(0, 12, rng.integers(1, 17)).astype(np.int32),
            problem_hash=(i, 0),
        )
        for i in range(NUM_REQUESTS)
    ]
    groups = Engine(architecture, settings).sample(
        params, requests, run_key=run_key(0, PURPOSE_TRAIN, 0), temperature=1.0
    )
    return sorted(groups, key=lambda group: group.index)


@pytest.fixture(scope="module")
def on_one_device(params: Any) -> list[SampledGroup]:
    return draw(params)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_eight_devices_draw_what_one_draws(
    params: Any, on_one_device: list[SampledGroup], shape: tuple[int, int, int]
) -> None:
    before = [program._cache_size() for program in PROGRAMS]
    groups = draw(placed(params, shape))
    # Whatever layout a program returns, the next call has a program for it.
    compiled = [program._cache_size() for program in PROGRAMS]
    assert max(np.subtract(compiled, before)) <= 1
    for ours, theirs in zip(groups, on_one_device, strict=True):
        for one, other in zip(ours.samples, theirs.samples, strict=True):
            assert one.token_ids == other.token_ids
            np.testing.assert_allclose(one.logprobs, other.logprobs, rtol=0, atol=1e-5)


def test_eight_key_heads_can_be_split_over_eight_devices() -> None:
    eight = TINY._replace(num_heads=8, num_kv_heads=8)
    params = jax.tree.map(lambda x: 2 * x, initial_params(eight, jax.random.key(1)))
    groups = draw(placed(params, (1, 1, 8), eight), architecture=eight)
    for ours, theirs in zip(groups, draw(params, architecture=eight), strict=True):
        for one, other in zip(ours.samples, theirs.samples, strict=True):
            assert one.token_ids == other.token_ids


def test_weights_that_stay_split_draw_the_same(
    params: Any, on_one_device: list[SampledGroup]
) -> None:
    settings = SETTINGS._replace(gathers_weights=False)
    groups = draw(placed(params, (1, 4, 2)), settings)
    for ours, theirs in zip(groups, on_one_device, strict=True):
        for one, other in zip(ours.samples, theirs.samples, strict=True):
            assert one.token_ids == other.token_ids


def collectives(program: str | None) -> set[str]:
    """Shapes of floating arrays that devices send one another."""
    kinds = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    pattern = rf"= (\(?(?:f32|bf16)\S*) (?:{kinds})(?:-start)?\("
    assert program is not None
    return set(re.findall(pattern, program))


def test_prompts_are_inserted_without_a_word_between_devices(params: Any) -> None:
    weights = placed(params, (8, 1, 1))
    decoding = start_decoding(TINY, SETTINGS, weights)
    rows = SETTINGS.prefill_rows(16, 8)
    by_rows = decoding.slots.draw_C.sharding
    prompts = jax.device_put(
        Prompts(jnp.zeros((rows, 16), int), jnp.ones(rows, int)), by_rows
    )
    prefilled = prefill(weights, prompts, architecture=TINY, settings=SETTINGS.forward)
    flags = jax.device_put((jnp.zeros(8, int), jnp.ones(8, bool)), by_rows)
    program = insert.lower(decoding, prefilled, *flags, num_shards=8).compile()
    assert not collectives(program.as_text())


def test_a_segment_sends_no_keys_or_values(params: Any) -> None:
    weights = placed(params, (8, 1, 1))
    decoding = start_decoding(TINY, SETTINGS, weights)
    program = decode_segment.lower(
        weights,
        decoding,
        run_key(0, PURPOSE_TRAIN, 0),
        jnp.float32(1.0),
        jnp.int32(1),
        architecture=TINY,
        settings=SETTINGS,
    ).compile()
    assert not collectives(program.as_text())
    memory: Any = program.memory_analysis()
    share = sum(x.nbytes for x in jax.tree.leaves(decoding.cache)) / 8
    assert share <= memory.alias_size_in_bytes < 1.5 * share


def test_slots_that_the_mesh_cannot_split_are_refused(params: Any) -> None:
    settings = SETTINGS._replace(num_slots=6)
    with pytest.raises(ValueError, match=r"6 slots do not divide .* = 8"):
        draw(placed(params, (8, 1, 1)), settings)
