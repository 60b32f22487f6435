"""`token_logprobs` against whole logits in float64, and what it must never do."""

import inspect
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec

from jaxgrpo.device.head import (
    KeptTokens,
    TokenConstraint,
    head_logits,
    token_logprobs,
)
from jaxgrpo.device.sampling.constraint import ConstraintState, ConstraintTables
from tests.reference.head import token_statistics

NUM_ROWS, NUM_POSITIONS, WIDTH, VOCABULARY, NUM_TOKENS = 3, 5, 8, 24, 21


def drawn_inputs(seed, dtype=jnp.float32):
    rng = np.random.default_rng(seed)
    hidden_BTD = rng.normal(0, 1, (NUM_ROWS, NUM_POSITIONS, WIDTH))
    head_VD = rng.normal(0, 1, (VOCABULARY, WIDTH))
    targets_BT = rng.integers(0, NUM_TOKENS, (NUM_ROWS, NUM_POSITIONS))
    return (
        jnp.asarray(hidden_BTD, dtype), jnp.asarray(head_VD, dtype),
        jnp.asarray(targets_BT),
    )  # fmt: skip


def whole(hidden_BTD, head_VD, targets_BT, temperature=1.0, allowed_BTV=None):
    """The same from whole logits, by jax's own log_softmax and autodiff."""
    logits_BTV = jnp.einsum("btd,vd->btv", hidden_BTD, head_VD) / temperature
    is_valid_BTV = jnp.broadcast_to(
        jnp.arange(VOCABULARY) < NUM_TOKENS, logits_BTV.shape
    )
    if allowed_BTV is not None:
        is_valid_BTV &= allowed_BTV
    logits_BTV = jnp.where(is_valid_BTV, logits_BTV, -1e30)
    logps_BTV = jax.nn.log_softmax(logits_BTV)
    logprobs_BT = jnp.take_along_axis(logps_BTV, targets_BT[..., None], 2)[..., 0]
    entropies_BT = -jnp.where(is_valid_BTV, jnp.exp(logps_BTV) * logps_BTV, 0).sum(-1)
    return logprobs_BT, entropies_BT


def scalar(logprobs_BT, entropies_BT):
    """Mixes both outputs with fixed, uneven weights."""
    weights_BT = jnp.cos(jnp.arange(logprobs_BT.size, dtype=jnp.float32))
    weights_BT = weights_BT.reshape(logprobs_BT.shape)
    return (weights_BT * logprobs_BT).sum() + (weights_BT * entropies_BT**2).sum()


def chunked_scalar(hidden_BTD, head_VD, targets_BT, temperature=1.0, **options: Any):
    out = token_logprobs(
        hidden_BTD, head_VD, targets_BT, temperature,
        **{"num_tokens": NUM_TOKENS, **options},
    )  # fmt: skip
    return scalar(out.logprobs_BT, out.entropies_BT)


def whole_scalar(*arrays, **options):
    return scalar(*whole(*arrays, **options))


compiled = jax.jit(
    partial(token_logprobs, num_tokens=NUM_TOKENS, chunk=6, with_self_certainty=True)
)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), temperature=st.sampled_from([0.6, 1.0, 1.3]))
def test_values_equal_the_transcription(seed, temperature):
    hidden_BTD, head_VD, targets_BT = drawn_inputs(seed)
    ours = compiled(hidden_BTD, head_VD, targets_BT, jnp.float32(temperature))
    for i in range(NUM_ROWS):
        for t in range(NUM_POSITIONS):
            expected = token_statistics(
                np.asarray(hidden_BTD[i, t], np.float64),
                np.asarray(head_VD, np.float64),
                int(targets_BT[i, t]), temperature, set(range(NUM_TOKENS)),
            )  # fmt: skip
            found = [values_BT[i, t] for values_BT in ours]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


# 3 rows: one position at a time, two with a padded last chunk, all at once.
@pytest.mark.parametrize("chunk", [1, 6, 1000])
def test_gradients_equal_autodiff_through_whole_logits(chunk):
    inputs = drawn_inputs(0)
    ours = jax.jit(jax.grad(partial(chunked_scalar, chunk=chunk), (0, 1)))
    theirs = jax.jit(jax.grad(whole_scalar, (0, 1)))
    for mine, expected in zip(ours(*inputs, 0.7), theirs(*inputs, 0.7), strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=2e-5)


def test_padded_vocabulary_gets_no_probability_and_no_gradient():
    hidden_BTD, head_VD, targets_BT = drawn_inputs(1)
    loud_VD = head_VD.at[NUM_TOKENS:].set(100.0)
    run = jax.jit(jax.value_and_grad(chunked_scalar, 1))
    quiet, loud = (run(hidden_BTD, w_VD, targets_BT) for w_VD in (head_VD, loud_VD))
    assert quiet[0] == loud[0]
    np.testing.assert_array_equal(quiet[1], loud[1])
    assert not loud[1][NUM_TOKENS:].any()


ALLOWED_AV = jnp.asarray(np.random.default_rng(7).random((4, VOCABULARY)) < 0.4)
STATES_BT = jnp.asarray(
    np.random.default_rng(8).integers(0, 4, (NUM_ROWS, NUM_POSITIONS))
)
KEPT_BTk = jnp.asarray(
    np.random.default_rng(9).integers(0, NUM_TOKENS, (NUM_ROWS, NUM_POSITIONS, 9))
)


def constraint_of(states_BT: jax.Array, allowed_AV: jax.Array) -> TokenConstraint:
    """States that allow the given tokens, whatever is on the stack."""
    num_tokens = allowed_AV.shape[1]
    tables = ConstraintTables(
        start_J=jnp.zeros(1, int),
        class_V=jnp.arange(num_tokens),
        effect_AC=allowed_AV.astype(jnp.int32),
        num_pops_E=jnp.zeros(2, int),
        pops_EU=jnp.full((2, 1), 2**16 - 1),
        outcome_EZ=jnp.array([[0] * 16, [1] * 16]),
        state_X=jnp.zeros(2, int),
        size_X=jnp.ones(2, int),
        symbols_XY=jnp.zeros((2, 1), jnp.uint8),
        depth_X=jnp.zeros(2, int),
        finish_X=jnp.zeros(2, int),
        closing_Z=jnp.zeros(16, int),
    )
    stack_BT2 = jnp.zeros((*states_BT.shape, 2), jnp.uint32)
    return TokenConstraint(
        tables, ConstraintState(states_BT, stack_BT2, jnp.full_like(states_BT, 99))
    )


def allowed_sets(kind):
    """Whole masks [B, T, V], as only a test may hold them."""
    if kind == "constraint":
        return ALLOWED_AV[STATES_BT].at[..., NUM_TOKENS:].set(False)
    one_hot_BTkV = jax.nn.one_hot(KEPT_BTk, VOCABULARY) > 0
    return one_hot_BTkV.any(axis=2)


def restriction(kind) -> dict[str, Any]:
    if kind == "constraint":
        return {"constraint": constraint_of(STATES_BT, ALLOWED_AV)}
    # One kept id is the filler, which lies beyond the vocabulary.
    filled_BTk = jnp.concatenate(
        [KEPT_BTk, jnp.full((NUM_ROWS, NUM_POSITIONS, 1), VOCABULARY)], axis=2
    )
    return {"kept": KeptTokens(filled_BTk)}


@pytest.mark.parametrize("kind", ["constraint", "kept"])
def test_restricted_tokens_share_all_probability(kind):
    hidden_BTD, head_VD, _ = drawn_inputs(2)
    allowed_BTV = allowed_sets(kind)
    targets_BT = allowed_BTV.argmax(axis=2)
    options = restriction(kind)
    ours = jax.jit(jax.value_and_grad(partial(chunked_scalar, chunk=6), (0, 1)))
    theirs = jax.jit(jax.value_and_grad(whole_scalar, (0, 1)))
    mine = ours(hidden_BTD, head_VD, targets_BT, **options)
    expected = theirs(hidden_BTD, head_VD, targets_BT, allowed_BTV=allowed_BTV)
    for one, two in zip(jax.tree.leaves(mine), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["constraint", "kept"])
def test_target_that_is_not_allowed_has_minus_infinity_and_no_gradient(kind):
    hidden_BTD, head_VD, _ = drawn_inputs(3)
    targets_BT = allowed_sets(kind).argmin(axis=2)

    def total(hidden_BTD, head_VD):
        out = token_logprobs(hidden_BTD, head_VD, targets_BT, **restriction(kind))
        return out.logprobs_BT.sum(), out.logprobs_BT

    slopes, logprobs_BT = jax.jit(jax.grad(total, (0, 1), has_aux=True))(
        hidden_BTD, head_VD
    )
    assert (logprobs_BT == -jnp.inf).all()
    assert all(not slope.any() for slope in slopes)


def test_state_that_allows_nothing_sends_no_nan():
    hidden_BTD, head_VD, targets_BT = drawn_inputs(4)
    constraint = constraint_of(STATES_BT * 0, jnp.zeros((1, VOCABULARY), bool))

    def total(hidden_BTD, head_VD):
        out = token_logprobs(
            hidden_BTD, head_VD, targets_BT, constraint=constraint,
            with_self_certainty=True,
        )  # fmt: skip
        is_finite_BT = jnp.isfinite(out.logprobs_BT)
        clean_BT = jnp.where(is_finite_BT, out.logprobs_BT, 0.0)
        return clean_BT.sum() + out.entropies_BT.sum(), out

    slopes, out = jax.jit(jax.grad(total, (0, 1), has_aux=True))(hidden_BTD, head_VD)
    assert (out.entropies_BT == 0).all() and (out.self_certainties_BT == 0).all()
    assert all(not slope.any() for slope in slopes)


def test_garbage_in_masked_positions_leaves_every_bit_in_place():
    hidden_BTD, head_VD, targets_BT = drawn_inputs(5)
    mask_BT = jnp.asarray([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]) > 0
    run = jax.jit(
        jax.value_and_grad(partial(chunked_scalar, mask_BT=mask_BT, chunk=6), (0, 1))
    )
    dirty_BTD = jnp.where(mask_BT[..., None], hidden_BTD, jnp.nan)
    dirty_BT = jnp.where(mask_BT, targets_BT, 10**6)
    clean = run(hidden_BTD, head_VD, targets_BT)
    dirty = run(dirty_BTD, head_VD, dirty_BT)
    for one, two in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not dirty[1][0][1].any()


def test_planted_token_is_found_at_its_own_position():
    """An off-by-one would read the neighbour's logits."""
    targets_BT = drawn_inputs(6)[2]
    head_VD = jnp.eye(VOCABULARY)
    hidden_BTD = 50.0 * jax.nn.one_hot(targets_BT, VOCABULARY)
    out = token_logprobs(hidden_BTD, head_VD, targets_BT)
    np.testing.assert_allclose(out.logprobs_BT, 0, atol=1e-6)


def test_peaked_and_flat_distributions_have_exact_entropies():
    head_VD = jnp.eye(VOCABULARY)
    hidden_BTD = jnp.stack(
        [500.0 * jnp.eye(VOCABULARY)[:1], jnp.zeros((1, VOCABULARY))]
    )
    out = token_logprobs(hidden_BTD, head_VD, jnp.zeros((2, 1), int))
    np.testing.assert_allclose(out.entropies_BT, [[0], [np.log(VOCABULARY)]], atol=1e-6)


def test_bfloat16_inputs_are_reduced_in_float32():
    inputs = drawn_inputs(7, jnp.bfloat16)
    in_float32 = [x.astype(jnp.float32) for x in inputs[:2]]
    ours = jax.jit(token_logprobs)(*inputs).logprobs_BT
    theirs = jax.jit(token_logprobs)(*in_float32, inputs[2]).logprobs_BT
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_head_gradient_of_many_chunks_is_summed_in_float32():
    """4096 equal contributions: a bfloat16 sum stalls at 256 of them."""
    hidden_BTD = jnp.ones((1, 4096, 1), jnp.bfloat16)
    head_VD = jnp.zeros((2, 1), jnp.bfloat16)
    targets_BT = jnp.zeros((1, 4096), int)

    def total(head_VD):
        return token_logprobs(
            hidden_BTD, head_VD, targets_BT, chunk=4
        ).logprobs_BT.sum()

    np.testing.assert_array_equal(
        jax.jit(jax.grad(total))(head_VD), jnp.asarray([[2048.0], [-2048.0]])
    )


def test_sampler_and_trainer_read_the_same_logits():
    hidden_BTD, head_VD, targets_BT = drawn_inputs(8)
    logits_BTV = jax.jit(head_logits, static_argnums=3)(
        hidden_BTD, head_VD, jnp.float32(0.7), NUM_TOKENS
    )
    logps_BTV = jax.nn.log_softmax(logits_BTV)
    theirs = jnp.take_along_axis(logps_BTV, targets_BT[..., None], 2)[..., 0]
    ours = compiled(hidden_BTD, head_VD, targets_BT, jnp.float32(0.7)).logprobs_BT
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


# Over devices


def device_inputs():
    rng = np.random.default_rng(10)
    hidden_BTD = jnp.asarray(rng.normal(0, 1, (8, 4, WIDTH)), jnp.float32)
    head_VD = jnp.asarray(rng.normal(0, 1, (VOCABULARY, WIDTH)), jnp.float32)
    return hidden_BTD, head_VD, jnp.asarray(rng.integers(0, NUM_TOKENS, (8, 4)))


def eight_devices(*axes):
    shape = (8,) if len(axes) == 1 else (4, 2)
    return jax.make_mesh(
        shape, axes, axis_types=(jax.sharding.AxisType.Auto,) * len(axes)
    )


def plain_sum(hidden_BTD, head_VD, targets_BT):
    out = token_logprobs(
        hidden_BTD, head_VD, targets_BT, num_tokens=NUM_TOKENS, chunk=8
    )
    return (out.logprobs_BT + 0.1 * out.entropies_BT).sum()


def test_eight_devices_equal_one_and_sum_the_head_gradient():
    hidden_BTD, head_VD, targets_BT = device_inputs()
    rows, same = PartitionSpec("data"), PartitionSpec()
    sharded = jax.shard_map(
        jax.grad(plain_sum, (0, 1)), mesh=eight_devices("data"),
        in_specs=(rows, same, rows), out_specs=(rows, same),
    )  # fmt: skip
    ours = jax.jit(sharded)(hidden_BTD, head_VD, targets_BT)
    theirs = jax.jit(jax.grad(plain_sum, (0, 1)))(hidden_BTD, head_VD, targets_BT)
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)


def test_sharded_vocabulary_is_never_gathered():
    hidden_BTD, head_VD, targets_BT = device_inputs()
    mesh = eight_devices("data", "tensor")

    def placed(array, *spec):
        return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))

    inputs = (
        placed(hidden_BTD, "data"),
        placed(head_VD, "tensor"),
        placed(targets_BT, "data"),
    )
    program = jax.jit(jax.value_and_grad(plain_sum, (0, 1))).lower(*inputs).compile()

    text = program.as_text() or ""
    assert "all-reduce(" in text and "all-gather(" not in text
    value, slopes = program(*inputs)
    expected = jax.jit(jax.value_and_grad(plain_sum, (0, 1)))(
        hidden_BTD, head_VD, targets_BT
    )
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    np.testing.assert_allclose(slopes[1], expected[1][1], rtol=1e-4, atol=1e-5)


def test_inside_shard_map_the_head_gradient_is_reduced_once_not_every_chunk():
    hidden_BTD, head_VD, targets_BT = device_inputs()
    mesh = eight_devices("data", "tensor")
    rows, same = PartitionSpec("data"), PartitionSpec()
    over_data = jax.shard_map(
        partial(token_logprobs, num_tokens=NUM_TOKENS, chunk=2), mesh=mesh,
        in_specs=(rows, same, rows), out_specs=rows, axis_names={"data"},
    )  # fmt: skip

    def total(hidden_BTD, head_VD, targets_BT):
        out = over_data(hidden_BTD, head_VD, targets_BT)
        return (out.logprobs_BT + 0.1 * out.entropies_BT).sum()

    inputs = [
        jax.device_put(array, NamedSharding(mesh, PartitionSpec(axis)))
        for array, axis in zip(
            (hidden_BTD, head_VD, targets_BT), ("data", "tensor", "data"), strict=True
        )
    ]
    program = jax.jit(jax.grad(total, 1)).lower(*inputs).compile()
    loop, entry = (program.as_text() or "").split("\nENTRY ")
    gradient = re.compile(rf"f32\[{VOCABULARY // 2},{WIDTH}\]\S* all-reduce\(")
    assert len(gradient.findall(entry)) == 1 and not gradient.findall(loop)
    expected = jax.jit(jax.grad(plain_sum, 1))(hidden_BTD, head_VD, targets_BT)
    np.testing.assert_allclose(program(*inputs), expected, rtol=1e-4, atol=1e-5)


# Memory


def temporary_bytes(fn, shape, chunk):
    rows, positions, width, vocabulary = shape
    inputs = (
        jax.ShapeDtypeStruct((rows, positions, width), jnp.float32),
        jax.ShapeDtypeStruct((vocabulary, width), jnp.float32),
        jax.ShapeDtypeStruct((rows, positions), jnp.int32),
    )

    def total(hidden_BTD, head_VD, targets_BT):
        out = token_logprobs(hidden_BTD, head_VD, targets_BT, 0.7, **chunk)
        return out.logprobs_BT.sum() + out.entropies_BT.sum()

    program = jax.jit(fn(total)).lower(*inputs).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


WAYS = {
    "forward": lambda total: total,
    "backward, frozen head": lambda total: jax.grad(total, 0),
    "backward": lambda total: jax.grad(total, (0, 1)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("shape", "chunk"),
    [((8, 64, 16, 8192), {"chunk": 16}), ((8, 512, 1024, 151936), {})],
    ids=["small", "Qwen3"],
)
def test_logits_of_all_tokens_never_exist(way, shape, chunk):
    """Peak temporary memory, the head's gradient apart, against one [B, T, V]."""
    rows, positions, width, vocabulary = shape
    peak = temporary_bytes(WAYS[way], shape, chunk)
    if way == "backward":
        peak -= 4 * vocabulary * width
    assert peak < 0.15 * 4 * rows * positions * vocabulary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets_BT": jnp.zeros((3, 4), int)}, "Pass one hidden state a target"),
        ({"head_VD": jnp.zeros((VOCABULARY, 3))}, "Give both the same width D"),
        ({"chunk": 0}, "chunk 0 is below 1"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, message):
    names = ("hidden_BTD", "head_VD", "targets_BT")
    inputs = dict(zip(names, drawn_inputs(9), strict=True)) | change
    # As users have it: without the shape checks of these tests.
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(token_logprobs)(**inputs)
