"""From the tables of a configuration to settings, optimiser and first state."""

import dataclasses
from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from jaxgrpo.assembly import (
    abstract_state,
    base_checksum,
    build_optimizer,
    initial_state,
    problems_of,
    restarted_state,
    restored_state,
    update_settings,
)
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.config import (
    Config,
    DataConfig,
    LoraConfig,
    ModelConfig,
    OptimizerConfig,
    PromptConfig,
)
from jaxgrpo.device.model.lora import ADAPTERS, without_base
from jaxgrpo.device.objective.presets import PRESETS
from jaxgrpo.device.optimizer import is_matrix
from jaxgrpo.device.update import UpdateSettings
from jaxgrpo.policy import Policy, initial_weights, load_policy
from tests.problems.conftest import SIZES

MODEL = ModelConfig(
    preset="qwen3-tiny", tokenizer="builtin:output_prediction_tokenizer"
)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(MODEL, PromptConfig())


def config_of(**tables: Any) -> Config:
    return Config.model_validate(
        {
            "model": MODEL.model_dump(),
            "sampling": {"problems_per_step": 16, "max_new_tokens": 12},
            "rewards": {"exact": {"weight": 1.0}, "similarity": {"weight": 0.25}},
        }
        | tables
    )


def settings_of(policy: Policy, **objective: Any) -> UpdateSettings:
    return update_settings(config_of(objective=objective), policy)


# preset, scale, baseline, ratio_level, surrogate, aggregation, clip_low, clip_high
TABLE = """
grpo        group  mean           token           clip   sequence_mean  0.2   0.2
dr_grpo     none   mean           token           clip   constant       0.2   0.2
dapo        group  mean           token           clip   token_mean     0.2   0.28
bnpo        group  mean           token           clip   token_mean     0.2   0.2
cispo       group  mean           token           cispo  token_mean     0.2   0.2
gspo        group  mean           sequence        clip   sequence_mean  3e-4  4e-4
gspo_token  group  mean           sequence_token  clip   sequence_mean  3e-4  4e-4
luspo       group  mean           sequence        clip   sequence_sum   3e-4  4e-4
sapo        group  mean           token           sapo   sequence_mean  0.2   0.2
rloo        none   leave_one_out  trajectory      clip   sequence_mean  0.2   0.2
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_preset_decides_advantages_and_loss(policy, row):
    settings = settings_of(policy, preset=row[0])
    objective = settings.objective
    assert [
        settings.scale,
        settings.baseline,
        objective.ratio_level,
        objective.surrogate,
        objective.aggregation,
        objective.clip_low,
        objective.clip_high,
    ] == [*row[1:6], float(row[6]), float(row[7])]


def test_every_preset_is_in_the_table():
    assert {row[0] for row in ROWS} == set(PRESETS)


def test_the_constant_length_is_the_token_budget(policy):
    assert settings_of(policy, preset="dr_grpo").objective.length_cap == 12
    assert settings_of(policy, preset="grpo").objective.length_cap is None


def test_what_the_user_sets_wins_over_the_preset(policy):
    settings = settings_of(
        policy,
        preset="rloo",
        advantage_scale="batch",
        advantage_baseline="mean",
        clip_low=0.1,
        clip_high=0.4,
        kl_coef=0.03,
        divergence="k2",
    )
    assert (settings.scale, settings.baseline) == ("batch", "mean")
    objective = settings.objective
    assert (objective.clip_low, objective.clip_high) == (0.1, 0.4)
    assert (objective.kl_coef, objective.divergence) == (0.03, "k2")
    assert objective.ratio_level == "trajectory"  # the rest is the preset's


def test_settings_come_from_all_tables(policy):
    config = config_of(
        objective={
            "updates_per_rollout": 2,
            "minibatches": 4,
            "microbatches": 2,
            "ddof": 0,
            "epsilon": 1e-6,
            "logprob_chunk": 77,
            "mask_dead_groups": True,
            "kl_coef": 0.1,
            "ref_sync_steps": 9,
            "ref_mixup": 0.5,
        }
    )
    settings = update_settings(config, policy)
    assert settings.num_tokens == policy.num_tokens
    assert settings.updates_per_rollout == 2
    assert (settings.minibatches, settings.microbatches) == (4, 2)
    assert (settings.ddof, settings.epsilon) == (0, 1e-6)
    assert settings.logprob_chunk == 77
    assert settings.masks_dead_groups
    assert (settings.ref_sync_steps, settings.ref_mixup) == (9, 0.5)
    assert settings.forward.dtype == "float32"
    hash(settings)  # a static argument of jit


@pytest.mark.parametrize("preset", ["dr_grpo", "rloo"])
def test_decoupled_rewards_are_refused_where_the_preset_centres_otherwise(
    policy, preset
):
    with pytest.raises(ValueError, match=f"preset {preset!r} .* scale 'none'"):
        settings_of(policy, preset=preset, combine="normalize_then_sum")
    settings_of(
        policy,
        preset=preset,
        combine="normalize_then_sum",
        advantage_scale="group",
        advantage_baseline="mean",
    )


# Optimiser


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_schedule_is_followed_and_scaled(policy, name):
    table = OptimizerConfig(
        name=name, learning_rate=0.5, warmup_steps=2, schedule="linear",
        decay_fraction=0.5, muon_learning_rate=0.3,
    )  # fmt: skip
    optimizer = build_optimizer(table, num_updates=8, scale=0.1)
    rates = [optimizer.learning_rate_at(count) for count in range(9)]
    expected = [0.025, 0.05, 0.05, 0.05, 0.05, 0.0375, 0.025, 0.0125, 0.0]
    assert rates == pytest.approx(expected)


def test_weight_decay_and_clipping_reach_the_optimiser(policy):
    params = initial_weights(policy, config_of())
    table = OptimizerConfig(
        learning_rate=0.1, weight_decay=0.5, clip_norm=0.25, beta1=0.0
    )
    chain = build_optimizer(table, num_updates=4).transformation
    first = jax.jit(lambda grads: chain.update(grads, chain.init(params), params))

    updates, _ = first(jax.tree.map(np.zeros_like, params))
    for update, param, decays in zip(
        *map(jax.tree.leaves, (updates, params, is_matrix(params))), strict=True
    ):
        expected = -0.1 * 0.5 * param if decays else np.zeros_like(param)
        np.testing.assert_allclose(update, expected, rtol=1e-6)
    _, state = first(jax.tree.map(np.ones_like, params))
    assert float(optax.tree.norm(state[1][0].mu)) == pytest.approx(0.25)


# State


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_the_first_state_lies_over_the_mesh_moments_with_weights(policy, name):
    config = config_of(
        mesh={"data": 2, "fsdp": 2, "tensor": 2}, optimizer={"name": name}
    )
    optimizer = build_optimizer(config.optimizer, num_updates=4)
    weights = initial_weights(policy, config)
    state = initial_state(weights, optimizer, policy, config)
    assert int(state.step) == 0 and state.ref_params is None
    jax.tree.map(np.testing.assert_array_equal, state.params, weights)
    place = state.params["layers"]["gate_DF"].sharding
    assert place.spec == PartitionSpec(None, "fsdp", "tensor")
    moments = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state.opt_state)
        if jax.tree_util.keystr(path).endswith("['gate_DF']")
    ]
    assert moments
    for moment in moments:
        assert moment.sharding.is_equivalent_to(place, moment.ndim)


def test_the_reference_is_a_copy_kept_only_where_it_is_used(policy):
    config = config_of(objective={"kl_coef": 0.1})
    optimizer = build_optimizer(config.optimizer, num_updates=4)
    state = initial_state(initial_weights(policy, config), optimizer, policy, config)
    jax.tree.map(np.testing.assert_array_equal, state.ref_params, state.params)
    state.params["embedding_VD"].delete()  # as donation does
    assert np.isfinite(state.ref_params["embedding_VD"]).all()


# Adapters


def adapted_state(policy, optimizer=None, **tables):
    """The first state of a run with adapters on (2, 2, 2)."""
    config = config_of(
        mesh={"data": 2, "fsdp": 2, "tensor": 2},
        lora={"rank": 4, "alpha": 8.0, "targets": ["q", "down"]}, **tables,
    )  # fmt: skip
    optimizer = optimizer or build_optimizer(config.optimizer, num_updates=4)
    return initial_state(initial_weights(policy, config), optimizer, policy, config)


def test_every_kernel_with_an_adapter_can_be_configured():
    assert LoraConfig().targets == tuple(ADAPTERS)


def test_adapters_are_all_that_is_trained_and_the_base_is_the_reference(policy):
    state = adapted_state(policy, objective={"kl_coef": 0.1})
    layers = state.params["layers"]
    assert set(layers) == {"q_a_DZ", "q_b_ZNH", "down_a_FZ", "down_b_ZD"}
    assert layers["q_b_ZNH"].sharding.spec == PartitionSpec(None, None, "tensor", None)
    assert layers["down_a_FZ"].sharding.spec == PartitionSpec(None, "tensor", None)
    assert state.ref_params is None
    weights = initial_weights(policy, config_of())
    jax.tree.map(np.testing.assert_array_equal, state.base_params.params, weights)
    assert float(state.base_params.scale) == 2.0
    moments = [leaf.size for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim]
    assert sum(moments) == 2 * sum(leaf.size for leaf in jax.tree.leaves(layers))


def test_the_base_is_held_in_the_dtype_of_the_computation(policy):
    half = dataclasses.replace(
        policy, forward=policy.forward._replace(dtype="bfloat16")
    )
    state = adapted_state(half)
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(state.base_params.params)}
    assert dtypes == {"bfloat16"}
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state.params)} == {"float32"}


def test_a_checkpoint_holds_no_base_and_fits_no_other(policy, tmp_path):
    state = adapted_state(policy)
    trained = state._replace(params=jax.tree.map(lambda x: x + 1.0, state.params))
    loop = {"base_checksum": base_checksum(state.base_params)}
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(1, without_base(trained), loop)
        restored, _ = restored_state(checkpointer, 1, state)
        jax.tree.map(np.testing.assert_array_equal, restored, trained)
        another = adapted_state(policy, run={"seed": 1})
        with pytest.raises(ValueError, match="step 1 were trained on other base"):
            restored_state(checkpointer, 1, another)
    saved = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert saved < sum(leaf.nbytes for leaf in jax.tree.leaves(state.base_params))


def test_a_restart_forgets_moments_and_nothing_else(policy):
    optimizer = build_optimizer(OptimizerConfig(), num_updates=4)
    state = adapted_state(policy, optimizer)
    used = state._replace(opt_state=jax.tree.map(lambda x: x + 1, state.opt_state))
    again = restarted_state(used, optimizer, 7)
    assert int(again.step) == 7
    jax.tree.map(np.testing.assert_array_equal, again._replace(step=state.step), state)
    for new, old in zip(*map(jax.tree.leaves, (again, state)), strict=True):
        assert new.sharding.is_equivalent_to(old.sharding, new.ndim)


def test_an_abstract_state_says_shape_type_and_place(policy):
    config = config_of(mesh={"data": 4, "fsdp": 2})
    optimizer = build_optimizer(config.optimizer, num_updates=4)
    state = initial_state(initial_weights(policy, config), optimizer, policy, config)
    abstract = abstract_state(state)
    assert jax.tree.structure(abstract) == jax.tree.structure(state)
    for leaf, shape in zip(*map(jax.tree.leaves, (state, abstract)), strict=True):
        assert (leaf.shape, leaf.dtype) == (shape.shape, shape.dtype)
        assert leaf.sharding == shape.sharding


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"mesh": {"data": 3}}, "there are 8 devices"),
        (
            {"sampling": {"problems_per_step": 12}},
            "problems_per_step 12 .* does not divide by .* = 8",
        ),
        (
            {"evaluation": {"batch_problems": 20}, "objective": {"minibatches": 2}},
            "evaluation.batch_problems is 20",
        ),
    ],
    ids=["devices", "problems", "evaluation"],
)
def test_a_mesh_that_does_not_fit_is_refused(policy, tables, message):
    if "mesh" in tables:
        tables = tables | {"sampling": {"problems_per_step": 12}}
    config = config_of(**tables)
    optimizer = build_optimizer(config.optimizer, num_updates=4)
    with pytest.raises(ValueError, match=message):
        initial_state(initial_weights(policy, config), optimizer, policy, config)


# Problems


def test_a_limit_takes_the_first_problems(session_cache):
    data = DataConfig(cache_dir=str(session_cache), build_workers=1, **SIZES)
    everything = problems_of(data, "test")
    assert len(everything) == SIZES["num_test"]
    some = problems_of(data, "test", limit=3)
    assert list(some) == [everything[index] for index in range(3)]
