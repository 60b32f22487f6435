"""Arithmetic of memory and work, and the layouts that it orders."""

import math

import jax
import pytest

from jaxgrpo.config import Config, ModelConfig, RewardConfig
from jaxgrpo.device.mesh import make_mesh
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.plan import estimate
from jaxgrpo.plan.arrays import device_bytes
from jaxgrpo.plan.estimate import Layout, Workload
from jaxgrpo.plan.hardware import TPUS
from jaxgrpo.plan.layouts import (
    REMATS,
    changes,
    layout_toml,
    legal_layouts,
    with_layout,
)
from jaxgrpo.plan.roofline import times

ONE = Layout(1, 1, 1, 1, "full")
FOUR_B = PRESETS["qwen3-4b"]


def sized(name: str = "qwen3-4b", **sizes: int) -> Workload:
    defaults = {
        "num_prompts": 4,
        "group_size": 16,
        "prompt_tokens": 1024,
        "completion_tokens": 4096,
        "logprob_chunk": 4096,
        "minibatches": 1,
    }
    return Workload(
        architecture=PRESETS[name],
        forward=ForwardSettings(dtype="bfloat16", attention="splash"),
        **(defaults | sizes),
    )


def test_weights_of_a_layer_are_those_of_the_model():
    shapes = jax.eval_shape(lambda: initial_params(FOUR_B, jax.random.key(0)))
    norms = ("scale",)
    matrices = sum(
        leaf.size
        for path, leaf in jax.tree_util.tree_leaves_with_path(shapes)
        if path[-1].key not in norms
    )
    assert FOUR_B.is_tied
    assert estimate.matrix_weights(FOUR_B) == matrices


def test_parameters_per_device_are_those_of_real_shards():
    a = PRESETS["qwen3-tiny"]
    mesh = make_mesh(2, 2, 2)
    shapes = jax.eval_shape(lambda: initial_params(a, jax.random.key(0)))
    planned = jax.tree.map(
        lambda x, where: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where),
        shapes,
        state_shardings(shapes, mesh),
    )
    actual = jax.device_put(
        initial_params(a, jax.random.key(0)), state_shardings(shapes, mesh)
    )
    on_first = sum(
        leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(actual)
    )
    assert device_bytes(planned) == on_first


def test_a_cache_by_hand():
    # 2 x 36 layers x 8 heads of 128, bfloat16: 144 KiB a token; 4 devices of heads.
    prompts, completions = estimate.cache_bytes(sized(), Layout(1, 4, 4, 1, "full"))
    assert prompts == 1024 * 144 * 1024 // 4
    assert completions == 16 * 4096 * 144 * 1024 // 4


def test_microbatches_cut_what_is_kept():
    w = sized()
    # Whole groups on 4 shards; then a quarter of each, whose prompt runs every time.
    assert estimate.tokens_of_microbatch(w, Layout(1, 4, 4, 1, "full")) == (
        1024, 16 * 4096,
    )  # fmt: skip
    assert estimate.tokens_of_microbatch(w, Layout(1, 4, 4, 4, "full")) == (
        1024, 4 * 4096,
    )  # fmt: skip
    kept = estimate.kept_bytes(w, Layout(1, 4, 4, 4, "full"))
    assert kept == 36 * (1024 + 4 * 4096) * 2560 * 2


def test_less_is_kept_the_more_is_computed_again():
    w = sized()
    kept = [estimate.kept_bytes(w, ONE._replace(remat=remat)) for remat in REMATS]
    flops = [
        estimate.update_estimate(w, ONE._replace(remat=remat), 1).costs.flops
        for remat in REMATS
    ]
    assert kept == sorted(kept, reverse=True) and len(set(kept)) == len(kept)
    assert flops == sorted(flops)


def test_work_of_an_update_is_six_to_eight_times_the_weights():
    # 6 N a token without recomputation (8 N for the head, which recomputes): the
    # usual figure; attention of 5,120 tokens adds a few per cent more.
    w = sized()
    found = estimate.update_estimate(w, ONE._replace(remat="none"), 1).costs.flops
    tokens = 4 * 1024 + 64 * 4096
    usual = 6 * tokens * estimate.matrix_weights(FOUR_B)
    assert usual < found < 1.5 * usual
    again = estimate.update_estimate(w, ONE, 1).costs.flops
    assert 1.2 < again / found < 1.4


def test_devices_share_the_work_evenly():
    w = sized()
    alone = estimate.update_estimate(w, ONE, 1).costs.flops
    shared = estimate.update_estimate(w, Layout(1, 4, 4, 1, "full"), 1).costs.flops
    assert shared == pytest.approx(alone / 16)


def test_decoding_by_hand():
    # 64 rows of one device: every token reads the weights and the cache so far.
    w = sized()
    costs = estimate.decode_estimate(w, ONE).costs
    weights = 2 * estimate.matrix_weights(FOUR_B)
    cache = (4 * 1024 + 64 * 4096 / 2) * 144 * 1024
    assert costs.memory_bytes == 4096 * (weights + cache)
    found = times(costs, TPUS["v5e"])
    assert found is not None and found.bound == "memory"
    assert found.at_best_s == pytest.approx(4096 * (weights + cache) / 819e9)


def test_one_device_exchanges_nothing():
    w = sized()
    parts = (
        estimate.prefill_estimate(w, ONE),
        estimate.decode_estimate(w, ONE),
        estimate.update_estimate(w, ONE, 1),
    )
    assert all(part.costs.received_bytes == 0 for part in parts)


# Layouts


def test_layouts_are_legal_and_complete():
    layouts = list(legal_layouts(sized(), 16))
    assert len(set(layouts)) == len(layouts)
    for layout in layouts:
        assert layout.num_devices == 16
        assert 8 % layout.tensor == 0  # key heads
        assert 4 % layout.num_shards == 0  # prompts
        assert 64 % layout.microbatches == 0
    meshes = {layout[:3] for layout in layouts}
    # 4 prompts leave at most 4 shards, so at least 4 devices along tensor.
    assert meshes == {(1, 2, 8), (2, 1, 8), (1, 4, 4), (2, 2, 4), (4, 1, 4)}


def test_no_layout_where_the_prompts_do_not_divide():
    assert not list(legal_layouts(sized(num_prompts=3), 16))


def test_a_layout_goes_into_the_configuration_and_back():
    config = Config(
        model=ModelConfig(preset="qwen3-tiny", tokenizer="builtin:x"),
        rewards={"exact": RewardConfig()},
    )
    layout = Layout(1, 4, 2, 8, "dots")
    changed = with_layout(config, layout)
    assert (changed.mesh.data, changed.mesh.fsdp, changed.mesh.tensor) == (1, 4, 2)
    assert changed.objective.microbatches == 8
    assert changed.model.remat == "dots"
    assert changed.sampling == config.sampling
    assert 'remat = "dots"' in layout_toml(layout)


def test_changes_name_the_fields():
    other = ONE._replace(fsdp=4, remat="none")
    assert changes(ONE, other) == ["mesh.fsdp=4", "model.remat=none"]
    assert changes(ONE, ONE) == []


def test_shares_of_groups_need_whole_rows():
    # 2 prompts of 6 rows on one device: 4 cuts a group of 6 into 2 after the prompts.
    found = {
        layout.microbatches
        for layout in legal_layouts(sized(num_prompts=2, group_size=6), 1)
    }
    assert found == {n for n in range(1, 13) if 12 % n == 0}
    assert math.prod(ONE[:3]) == 1
