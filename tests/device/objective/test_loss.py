"""`grpo_loss` against its transcription, and the laws every preset obeys."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax.sharding import PartitionSpec

from jaxgrpo.device.objective.advantages import group_advantages
from jaxgrpo.device.objective.loss import grpo_loss, loss_denominator
from jaxgrpo.device.objective.masks import live_rows
from jaxgrpo.device.objective.metrics import finish_metrics
from jaxgrpo.device.objective.presets import PRESETS, resolve_objective
from tests.device.objective.draws import (
    NUM_POSITIONS,
    NUM_ROWS,
    few,
    mask_of,
    masked_arrays,
    on_device,
    seeds,
)
from tests.reference import objective as reference

EVERY_INPUT = {"kl_coef": 0.1, "entropy_coef": 0.01, "correction": "token_truncate"}
"""Parts that bring every input into a loss."""


def evaluate(
    logprobs_BT, entropies_BT, arrays, mask_BT, denominator, threshold, **parts
):
    # The transcription traces what its threshold would keep.
    given: dict[str, Any] = {"entropy_threshold": threshold}
    if resolve_objective(**parts).ratio_level == "trace":
        given = {"is_traced_BT": entropies_BT >= threshold}
    return grpo_loss(
        logprobs_BT, arrays["advantages"], mask_BT, old_logprobs_BT=arrays["old"],
        ref_logprobs_BT=arrays["ref"], sampler_logprobs_BT=arrays["sampler"],
        entropies_BT=entropies_BT, denominator=denominator, **given, **parts,
    )  # fmt: skip


# LLVM's optimisations cost more here than they save.
@partial(
    jax.jit,
    static_argnames=("has_threshold", "objective"),
    compiler_options={"xla_backend_optimization_level": 0},
)
def compiled(arrays, mask_BT, denominator, threshold, *, has_threshold, objective):
    fn = partial(
        evaluate, arrays=arrays, mask_BT=mask_BT, denominator=denominator,
        threshold=threshold if has_threshold else None, preset=objective,
    )  # fmt: skip
    (loss, metrics), gradients = jax.value_and_grad(fn, (0, 1), has_aux=True)(
        arrays["logprobs"], arrays["entropies"]
    )
    return loss, gradients, metrics


def run(arrays, mask_BT, preset, *, denominator=None, threshold=None, **parts):
    """Loss, gradients by log-probs and entropies, metrics; one program an objective."""
    if preset == "dr_grpo":
        parts = {"length_cap": 10} | parts
    objective = resolve_objective(preset, **parts)
    if denominator is None:
        denominator = loss_denominator(mask_BT, preset=objective)
    return compiled(
        arrays, mask_BT, jnp.float32(denominator), jnp.float32(threshold or 0.0),
        has_threshold=threshold is not None, objective=objective,
    )  # fmt: skip


def leaves_equal(one, two):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


# Against the transcription

CASES = [
    *[(name, {}) for name in PRESETS],
    *[(name, EVERY_INPUT) for name in PRESETS],
    ("grpo", {"dual_clip": 1.5}),
    ("grpo", {"delta": 1.4, "clip_high": 0.28}),
    ("dapo", {"surrogate": "cispo_band"}),
    ("cispo", {"ratio_cap": 1.1}),
    ("gspo", {"clip_low": 0.1, "clip_high": 0.1, "kl_coef": 0.1}),
    ("grpo", {"kl_coef": 0.1, "divergence": "k1"}),
    ("grpo", {"kl_coef": 0.1, "divergence": "k2"}),
    ("gspo_token", {"kl_coef": 0.1, "divergence": "k3_corrected"}),
    ("grpo", {"correction": "token_mask", "correction_max": 1.2}),
    ("dapo", {"correction": "sequence_truncate", "correction_min": 0.8}),
    ("dapo", {"correction": "sequence_mask", "correction_max": 1.2}),
    ("grpo", {"correction": "geometric_truncate", "correction_max": 1.1}),
    ("grpo", {"correction": "geometric_mask", "correction_min": 0.9}),
    ("grpo", {"off_policy_threshold": 0.05}),
    ("grpo", {"ratio_level": "trace", "trace_decay": 0.9, "threshold": 1.0}),
    ("dapo", {"threshold": 1.0, "kl_coef": 0.1}),
]


@pytest.mark.parametrize(("preset", "parts"), CASES, ids=str)
@few
@given(seed=seeds)
def test_value_and_gradient_equal_the_transcription(preset, parts, seed):
    parts = dict(parts)
    threshold = parts.pop("threshold", None)
    cap: dict[str, Any] = {"length_cap": 10} if preset == "dr_grpo" else {}
    objective = resolve_objective(preset, **(parts | cap))
    # Ratios of whole sequences are clipped within a thousandth: stay as close.
    is_narrow = objective.clip_high < 1e-3
    arrays, lengths = masked_arrays(seed, spread=1e-3 if is_narrow else 0.3)
    loss, gradients, _ = run(
        on_device(arrays), mask_of(lengths), preset, threshold=threshold, **parts
    )
    expected = reference.grpo_loss(
        arrays, lengths, dataclasses.asdict(objective), threshold
    )
    np.testing.assert_allclose(loss, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradients[0], expected[1], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(gradients[1], expected[2], rtol=1e-5, atol=1e-7)


# Laws

ALL_PRESETS = pytest.mark.parametrize("preset", PRESETS)
ONE_PER_AGGREGATION = pytest.mark.parametrize(
    "preset", ["grpo", "dapo", "dr_grpo", "luspo"]
)
ONE_PER_RATIO = pytest.mark.parametrize(
    "preset", ["grpo", "gspo", "gspo_token", "rloo"]
)


@ALL_PRESETS
def test_on_policy_gradient_is_reinforce(preset):
    """-A / denominator a token, times the share each aggregation gives it."""
    arrays, lengths = masked_arrays(3)
    arrays["old"] = arrays["logprobs"]
    _, (gradient_BT, _), _ = run(on_device(arrays), mask_of(lengths), preset)
    objective = PRESETS[preset].objective
    for i, length in enumerate(lengths):
        if length == 0:
            assert not gradient_BT[i].any()
            continue
        # A ratio of the whole row spreads the row's summed advantage over its tokens.
        row = arrays["advantages"][i, :length]
        if objective.ratio_level == "sequence":
            row = np.full(length, row.mean())
        if objective.ratio_level == "trajectory":
            row = np.full(length, row.sum())
        share = {
            "sequence_mean": 1 / length / (NUM_ROWS - lengths.count(0)),
            "token_mean": 1 / sum(lengths),
            "constant": 1 / (NUM_ROWS - lengths.count(0)) / 10,
            "sequence_sum": 1 / (NUM_ROWS - lengths.count(0)),
        }[objective.aggregation]
        np.testing.assert_allclose(
            gradient_BT[i, :length], -row * share, rtol=1e-4, atol=1e-7
        )


@ONE_PER_RATIO
def test_old_logprobs_left_out_are_the_policys_own(preset):
    arrays, lengths = masked_arrays(4)
    arrays = on_device(arrays | {"old": arrays["logprobs"]})
    cap: dict[str, Any] = {"length_cap": 10} if preset == "dr_grpo" else {}

    def loss(logprobs_BT):
        return grpo_loss(
            logprobs_BT, arrays["advantages"], mask_of(lengths), preset=preset, **cap
        )[0]

    ours = jax.jit(jax.value_and_grad(loss))(arrays["logprobs"])
    value, (gradient_BT, _), _ = run(arrays, mask_of(lengths), preset)
    np.testing.assert_allclose(ours[0], value, rtol=1e-6)
    np.testing.assert_allclose(ours[1], gradient_BT, rtol=1e-5, atol=1e-8)


@ALL_PRESETS
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e30])
def test_garbage_in_masked_positions_leaves_every_bit_in_place(preset, garbage):
    arrays, lengths = masked_arrays(5)
    mask = np.asarray(mask_of(lengths))
    dirty = {name: np.where(mask, v, garbage) for name, v in arrays.items()}
    clean = {name: np.where(mask, v, 0.0) for name, v in arrays.items()}
    results = [
        run(on_device(a), mask_of(lengths), preset, **EVERY_INPUT)
        for a in (dirty, clean)
    ]
    assert leaves_equal(*results)
    assert np.isfinite(results[0][0]) and np.isfinite(results[0][1][0]).all()


@ONE_PER_AGGREGATION
def test_padding_a_batch_wider_changes_nothing(preset):
    arrays, lengths = masked_arrays(6)
    wide = {name: np.pad(v, [(0, 0), (0, 5)]) for name, v in arrays.items()}
    wide_mask_BT = jnp.pad(mask_of(lengths), [(0, 0), (0, 5)])
    narrow = run(on_device(arrays), mask_of(lengths), preset)
    padded = run(on_device(wide), wide_mask_BT, preset)
    np.testing.assert_allclose(padded[0], narrow[0], rtol=1e-6)
    np.testing.assert_allclose(
        padded[1][0][:, :NUM_POSITIONS], narrow[1][0], rtol=1e-6, atol=1e-9
    )


@ALL_PRESETS
def test_microbatches_of_any_sizes_add_up_to_the_batch(preset):
    arrays, lengths = masked_arrays(7)
    arrays, mask_BT = on_device(arrays), mask_of(lengths)
    whole = run(arrays, mask_BT, preset, **EVERY_INPUT)
    cap: dict[str, Any] = {"length_cap": 10} if preset == "dr_grpo" else {}
    denominator = loss_denominator(mask_BT, preset=preset, **cap)
    # Parts keep the shape, and so the program: rows outside a part are masked.
    for parts in ([range(2), range(2, 8)], [[i] for i in range(8)]):
        results = []
        for rows in parts:
            is_in_B = np.isin(np.arange(NUM_ROWS), list(rows))
            part_mask_BT = mask_BT & is_in_B[:, None]
            results.append(
                run(
                    arrays,
                    part_mask_BT,
                    preset,
                    denominator=denominator,
                    **EVERY_INPUT,
                )  # fmt: skip
            )
        total = jax.tree.map(lambda *leaves: sum(leaves), *results)
        for ours, theirs in zip(
            jax.tree.leaves(total), jax.tree.leaves(whole), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("preset", ["dapo", "gspo"])
def test_eight_devices_equal_one(preset):
    arrays, lengths = masked_arrays(8)
    arrays, mask_BT = on_device(arrays), mask_of(lengths)
    whole = run(arrays, mask_BT, preset, **EVERY_INPUT)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, same = PartitionSpec("data"), PartitionSpec()
    objective = resolve_objective(preset, **EVERY_INPUT)

    def on_one_device(arrays, mask_BT):
        denominator = jax.lax.psum(loss_denominator(mask_BT, preset=objective), "data")
        fn = partial(
            evaluate, arrays=arrays, mask_BT=mask_BT, denominator=denominator,
            threshold=None, preset=objective,
        )  # fmt: skip
        (loss, metrics), gradients = jax.value_and_grad(fn, (0, 1), has_aux=True)(
            arrays["logprobs"], arrays["entropies"]
        )
        return jax.lax.psum((loss, metrics), "data"), gradients

    sharded = jax.jit(
        jax.shard_map(
            on_one_device, mesh=mesh, in_specs=(rows, rows), out_specs=(same, rows)
        )
    )
    (loss, metrics), gradients = sharded(arrays, mask_BT)
    for ours, theirs in zip(
        jax.tree.leaves((loss, gradients, metrics)),
        jax.tree.leaves(whole),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


@ALL_PRESETS
def test_fully_masked_batch_gives_zero_and_finite_metrics(preset):
    arrays, _ = masked_arrays(9)
    nothing_BT = jnp.zeros((NUM_ROWS, NUM_POSITIONS), bool)
    garbage = {name: jnp.full(v.shape, jnp.nan) for name, v in arrays.items()}
    loss, gradients, metrics = run(garbage, nothing_BT, preset, **EVERY_INPUT)
    assert loss == 0
    assert not gradients[0].any() and not gradients[1].any()
    assert all(value == 0 for value in finish_metrics(metrics).values())


def test_all_equal_group_gives_exactly_no_gradient_when_masked_even_with_kl():
    arrays, lengths = masked_arrays(10)
    arrays, mask_BT = on_device(arrays), mask_of([6, 5, 4, 3, 6, 5, 4, 3])
    rewards_B = jnp.asarray([1.0, 1, 1, 1, 0, 1, 1, 0])
    ids_B = jnp.asarray([0] * 4 + [1] * 4)
    advantages_B = group_advantages(rewards_B[:, None], ids_B)
    arrays["advantages"] = jnp.tile(advantages_B[:, None], (1, NUM_POSITIONS))
    live_BT = mask_BT & live_rows(rewards_B, ids_B, jnp.ones(8, bool))[:, None]
    _, (masked_BT, _), _ = run(arrays, live_BT, "grpo", **EVERY_INPUT)
    _, (unmasked_BT, _), _ = run(arrays, mask_BT, "grpo", **EVERY_INPUT)
    assert not masked_BT[:4].any() and masked_BT[4:].any()
    assert unmasked_BT[:4].any(), "without masking, the divergence pulls dead groups"
    # The denominator counts live rows only: it is half as large.
    np.testing.assert_allclose(loss_denominator(live_BT), 4)


def test_clipped_side_sends_no_gradient_and_the_other_side_does():
    ratios = np.tile([0.5, 1.5], (NUM_ROWS, NUM_POSITIONS // 2))
    arrays, _ = masked_arrays(11)
    arrays["old"] = arrays["logprobs"] - np.log(ratios)
    arrays["advantages"] = np.tile([[1.0], [-1.0]], (NUM_ROWS // 2, NUM_POSITIONS))
    _, (gradient_BT, _), metrics = run(
        on_device(arrays), mask_of([NUM_POSITIONS] * NUM_ROWS), "grpo"
    )
    is_clipped = (ratios > 1) == (arrays["advantages"] > 0)
    np.testing.assert_array_equal(np.asarray(gradient_BT) == 0, is_clipped)
    finished = finish_metrics(metrics)
    assert finished["clip_ratio/low_mean"] == 0.25
    assert finished["clip_ratio/high_mean"] == 0.25
    assert finished["clip_ratio/region_mean"] == 0.5


def test_constant_length_ignores_the_width_of_the_batch():
    arrays, lengths = masked_arrays(12)
    arrays, mask_BT = on_device(arrays), mask_of(lengths)
    ten = run(arrays, mask_BT, "dr_grpo", length_cap=10)[0]
    twenty = run(arrays, mask_BT, "dr_grpo", length_cap=20)[0]
    np.testing.assert_allclose(ten, 2 * twenty, rtol=1e-6)


def test_truncation_mask_shrinks_numerator_and_denominator_alike():
    arrays, _ = masked_arrays(13)
    arrays = on_device(arrays)
    for preset in ("grpo", "dapo"):
        kept_BT = mask_of([6, 6, 6, 6, 0, 0, 0, 0])
        loss = run(arrays, kept_BT, preset)[0]
        alone = {name: values[:4] for name, values in arrays.items()}
        expected = run(alone, kept_BT[:4], preset)[0]
        np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_advantages_carry_no_gradient():
    arrays, lengths = masked_arrays(14)
    arrays = on_device(arrays)

    def loss(advantages_BT):
        return grpo_loss(arrays["logprobs"], advantages_BT, mask_of(lengths))[0]

    assert not jax.jit(jax.grad(loss))(arrays["advantages"]).any()


def test_bfloat16_logprobs_are_summed_in_float32():
    arrays, lengths = masked_arrays(15)
    arrays = on_device(arrays)
    low_BT = arrays["logprobs"].astype(jnp.bfloat16)
    loss, _ = grpo_loss(low_BT, arrays["advantages"], mask_of(lengths))
    assert loss.dtype == jnp.float32


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"kl_coef": 0.1}, "kl_coef 0.1 needs ref_logprobs_BT"),
        ({"correction": "token_mask"}, "needs sampler_logprobs_BT"),
        ({"entropy_coef": 0.1}, "need entropies_BT"),
        ({"entropy_threshold": 0.1}, "need entropies_BT"),
        ({"ratio_level": "trace"}, "'trace' and is_traced_BT None"),
        ({"is_traced_BT": jnp.ones((8, 6), bool)}, "'token' and is_traced_BT given"),
        ({"preset": "grop"}, "preset 'grop' is unknown"),
        ({"clip_hihg": 0.3}, "Did you mean 'clip_high'?"),
        ({"preset": "dr_grpo"}, "needs length_cap"),
    ],
)
def test_missing_input_is_refused(parts, message):
    arrays, lengths = masked_arrays(16)
    arrays = on_device(arrays)
    with pytest.raises(ValueError, match=message):
        grpo_loss(arrays["logprobs"], arrays["advantages"], mask_of(lengths), **parts)
