"""The fused step: what it computes, what it leaves out, and how it may be cut."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.device.head import token_logprobs
from jaxgrpo.device.mesh import (
    batch_sharding,
    make_mesh,
    param_shardings,
    replicated,
)
from jaxgrpo.device.model.decoder import bind, forward_completions
from jaxgrpo.device.objective.advantages import group_advantages
from jaxgrpo.device.objective.loss import grpo_loss
from jaxgrpo.device.objective.presets import resolve_objective
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import Prompts, Rollouts, Scored, TrainState
from jaxgrpo.device.sampling.choose import Choice
from jaxgrpo.device.sampling.constraint import ConstraintTables
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.device.update import UpdateOutputs, UpdateSettings, update
from jaxgrpo.host.constraints import (
    Vocabulary,
    compile_constraints,
    parse_constraint,
)
from tests.drawn import drawn_rollouts

P, G, S, T = 8, 4, 10, 6
B = P * G
NUM_TOKENS = 440
LEARNING_RATE = 0.1
# The gradient is a sum over tokens whose terms largely cancel: another order of
# summation leaves some ten roundings of float32. A wrong denominator leaves per cents.
REORDERED = 3e-6

SAMPLER = SamplerSettings(
    group_size=G,
    num_slots=P,
    rows_per_slot=G,
    max_prompt_tokens=S,
    max_new_tokens=T,
    segment_steps=T,
    # A tenth of all tokens: completions of every length.
    eos_ids=tuple(range(44)),
    num_tokens=NUM_TOKENS,
)
PLAIN = UpdateSettings(
    objective=resolve_objective("dapo"),
    num_tokens=NUM_TOKENS,
    logprob_chunk=64,
)
RAGGED = PLAIN._replace(is_prompt_major=False)
# Two groups are tied, one at each end of the scale.
REWARDS_B1 = np.random.default_rng(5).choice([0.0, 0.3, 1.0], (B, 1)).astype(np.float32)
REWARDS_B1[:G], REWARDS_B1[G : 2 * G] = 0.0, 0.3


def _descend(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
    del state, params
    return jax.tree.map(lambda g: -LEARNING_RATE * g, updates), updates


# Plain gradient descent that keeps the gradient, exactly, as its state.
DESCENT = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params), _descend
)


class Result(NamedTuple):
    state: TrainState
    metrics: dict[str, float]
    outputs: UpdateOutputs

    @property
    def grads(self) -> Any:
        """Of the last update made."""
        return self.state.opt_state


Run = Callable[..., Result]


@pytest.fixture(scope="module")
def prompts() -> Prompts:
    rng = np.random.default_rng(3)
    lengths_P = rng.integers(2, S + 1, P).astype(np.int32)
    token_ids_PS = rng.integers(0, NUM_TOKENS, (P, S)).astype(np.int32)
    return Prompts(jnp.asarray(token_ids_PS), jnp.asarray(lengths_P))


@pytest.fixture(scope="module")
def sampled(tiny, tiny_params, prompts) -> Callable[[float], Rollouts]:
    """Returns rollouts of the tiny model at a temperature, as NumPy arrays."""
    return lambda temperature: drawn_rollouts(
        tiny, tiny_params, prompts, SAMPLER, temperature
    )


@pytest.fixture(scope="module")
def rollouts(sampled) -> Rollouts:
    rollouts = sampled(1.0)
    assert 1 < len(set(rollouts.lengths_B.tolist()))
    return rollouts


@pytest.fixture(scope="module")
def run(tiny, tiny_params, prompts) -> Run:
    """Returns what `update` makes of rollouts and rewards. Programs are shared."""

    def run(
        rollouts: Rollouts,
        rewards_BR: Any = REWARDS_B1,
        settings: UpdateSettings = PLAIN,
        *,
        params: Any = tiny_params,
        prompts: Prompts = prompts,
        reference: Any = None,
        credit_BT: Any = None,
        focus_B2: Any = None,
        temperature: float = 1.0,
        constraints: ConstraintTables | None = None,
        weights_R: Any = None,
    ) -> Result:
        params, reference = jax.tree.map(jnp.copy, (params, reference))
        state = TrainState(jnp.int32(0), params, DESCENT.init(params), reference)
        state, metrics, outputs = update(
            state,
            prompts,
            rollouts,
            Scored(jnp.asarray(rewards_BR, jnp.float32), credit_BT, focus_B2),
            jnp.float32(temperature),
            constraints,
            None if weights_R is None else jnp.array(weights_R, jnp.float32),
            architecture=tiny,
            optimizer=DESCENT,
            settings=settings,
        )
        numbers = {name: float(value) for name, value in metrics.items()}
        return Result(state, numbers, outputs)

    return run


@pytest.fixture(scope="module")
def plain(run, rollouts) -> Result:
    """The update that others are compared with; its gradient is not small."""
    result = run(rollouts)
    assert result.metrics["grad_norm"] > 1e-2
    return result


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-6) -> None:
    """Compares trees leaf by leaf: norm of the difference, relative to the norm."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        error, size = np.linalg.norm(np.subtract(a, b)), np.linalg.norm(b)
        assert error <= tolerance * max(size, 1e-3), (error, size)


def assert_same_bits(actual: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def assert_same_metrics(actual: dict[str, float], expected: dict[str, float]) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        # Sampler and trainer differ by roundings only, which differ themselves.
        assert actual[name] == pytest.approx(expected[name], rel=1e-5, abs=2e-6), name


def without(rollouts: Rollouts, rows: Any) -> Rollouts:
    is_real_B = rollouts.is_real_B.copy()
    is_real_B[rows] = False
    return rollouts._replace(is_real_B=is_real_B)


def with_garbage(rollouts: Rollouts) -> Rollouts:
    """The same rollouts with nonsense in all that must not be looked at."""
    is_padding_BT = np.arange(T)[None, :] >= rollouts.lengths_B[:, None]
    is_padding_BT |= ~rollouts.is_real_B[:, None]
    is_padding_B = ~rollouts.is_real_B
    return rollouts._replace(
        completion_BT=np.where(is_padding_BT, 2**30, rollouts.completion_BT),
        sampler_logprobs_BT=np.where(
            is_padding_BT, np.nan, rollouts.sampler_logprobs_BT
        ),
        lengths_B=np.where(is_padding_B, T, rollouts.lengths_B).astype(np.int32),
        group_id_B=np.where(is_padding_B, 0, rollouts.group_id_B),
    )


# Cuts


@pytest.mark.parametrize("microbatches", [4, 16], ids=["of prompts", "of rows"])
def test_microbatches_give_gradient_and_metrics_of_one_batch(
    run, rollouts, microbatches
):
    # Completions that abstain make microbatches of different weight.
    rewards_B1 = REWARDS_B1.copy()
    rewards_B1[[8, 9, 10, 13]] = np.nan
    whole = run(rollouts, rewards_B1)
    cut = run(rollouts, rewards_B1, PLAIN._replace(microbatches=microbatches))
    assert_close(cut.grads, whole.grads, REORDERED)
    assert_same_metrics(cut.metrics, whole.metrics)
    assert_close(cut.outputs, whole.outputs)


@pytest.mark.parametrize("microbatches", [1, 4])
def test_ragged_shuffled_rows_give_the_gradient_of_the_plain_layout(
    run, rollouts, prompts, microbatches
):
    dropped = [1, 8, 9, 17, 30]
    expected = run(without(rollouts, dropped))

    rng = np.random.default_rng(0)
    order_P, group_of = rng.permutation(P), rng.permutation(B).astype(np.int32)
    place_of = np.argsort(order_P).astype(np.int32)
    kept = rng.permutation([b for b in range(B) if b not in dropped])
    order_B = np.concatenate([kept, dropped])
    shuffled = jax.tree.map(
        lambda x: x[order_B], without(rollouts, dropped)._replace(row_key_B=None)
    )
    shuffled = shuffled._replace(
        prompt_index_B=place_of[shuffled.prompt_index_B],
        group_id_B=group_of[shuffled.group_id_B],
        row_key_B=rollouts.row_key_B,
    )
    rewards_B1 = REWARDS_B1[order_B]
    rewards_B1[len(kept) :] = np.nan
    actual = run(
        with_garbage(shuffled),
        rewards_B1,
        RAGGED._replace(microbatches=microbatches),
        prompts=jax.tree.map(lambda x: x[order_P], prompts),
    )
    assert_close(actual.grads, expected.grads, REORDERED)
    assert_same_metrics(actual.metrics, expected.metrics)
    assert_close(
        jax.tree.map(lambda x: x[: len(kept)], actual.outputs),
        jax.tree.map(lambda x: x[kept], expected.outputs),
    )


@pytest.mark.parametrize(
    ("axes", "microbatches"),
    [((8, 1, 1), 1), ((2, 2, 2), 1), ((2, 2, 2), 8)],
    ids=["data", "all axes", "all axes, groups cut"],
)
def test_eight_devices_make_the_update_of_one(
    tiny, tiny_params, prompts, rollouts, plain, axes, microbatches
):
    mesh = make_mesh(*axes)
    params = jax.device_put(tiny_params, param_shardings(tiny, mesh))
    zeros = DESCENT.init(tiny_params)
    state = TrainState(
        step=jax.device_put(jnp.int32(0), replicated(mesh)),
        params=jax.tree.map(jnp.copy, params),
        opt_state=jax.device_put(zeros, state_shardings(zeros, mesh)),
        ref_params=None,
    )
    batch = jax.device_put(
        (prompts, rollouts, Scored(jnp.asarray(REWARDS_B1), None)),
        batch_sharding(mesh),
    )
    state, metrics, outputs = update(
        state,
        *batch,
        jnp.float32(1.0),
        architecture=tiny,
        optimizer=DESCENT,
        settings=PLAIN._replace(microbatches=microbatches),
    )
    assert_close(state.params, plain.state.params, 1e-5)
    assert_close(state.opt_state, plain.grads, 1e-5)
    assert_close(outputs, plain.outputs, 1e-5)
    assert float(metrics["loss"]) == pytest.approx(
        plain.metrics["loss"], rel=1e-5, abs=1e-6
    )
    for new, old in zip(
        jax.tree.leaves(state.params), jax.tree.leaves(params), strict=True
    ):
        assert new.sharding.is_equivalent_to(old.sharding, new.ndim)


# What takes part


def test_garbage_in_padding_changes_no_bit(run, rollouts):
    some = without(rollouts, [1, 8, 9, 17, 30])
    rewards_B1 = np.where(some.is_real_B[:, None], REWARDS_B1, np.nan)
    clean, dirty = run(some), run(with_garbage(some), rewards_B1)
    assert_same_bits(dirty.grads, clean.grads)
    assert dirty.metrics == clean.metrics
    assert_same_bits(dirty.outputs, clean.outputs)


def test_tied_groups_give_exactly_no_gradient(run, rollouts, tiny_params):
    rewards_B1 = np.repeat(np.linspace(0, 0.9, P, dtype=np.float32), G)[:, None]
    result = run(rollouts, rewards_B1)
    assert result.metrics["grad_norm"] == 0.0
    assert_same_bits(result.state.params, tiny_params)


@pytest.mark.parametrize("nobody", ["abstains", "is real"])
def test_a_batch_without_rows_keeps_the_parameters(run, rollouts, tiny_params, nobody):
    if nobody == "abstains":
        result = run(rollouts, np.full((B, 1), np.nan))
    else:
        result = run(without(rollouts, slice(None)))
    assert_same_bits(result.state.params, tiny_params)
    assert np.isfinite(list(result.metrics.values())).all(), result.metrics
    assert result.metrics["loss"] == result.metrics["update_skipped"] == 0.0


def test_an_abstaining_row_is_as_if_absent(run, rollouts):
    rewards_B1 = REWARDS_B1.copy()
    rewards_B1[14] = np.nan
    abstaining, absent = run(rollouts, rewards_B1), run(without(rollouts, [14]))
    assert float(abstaining.outputs.advantages_B[14]) == 0.0
    assert not np.any(abstaining.outputs.logprobs_BT[14])
    assert_same_bits(abstaining.grads, absent.grads)
    assert_same_bits(abstaining.outputs, absent.outputs)


def test_decoupled_rewards_abstain_one_by_one(run, rollouts):
    settings = PLAIN._replace(combine="normalize_then_sum")
    second_B1 = np.random.default_rng(8).uniform(size=(B, 1)).astype(np.float32)
    rewards_BR = np.concatenate([REWARDS_B1, second_B1], axis=1)
    rewards_BR[14, 0] = np.nan
    rewards_BR[21] = np.nan
    outputs = run(rollouts, rewards_BR, settings).outputs
    assert np.any(outputs.logprobs_BT[14]) and float(outputs.advantages_B[14]) != 0.0
    assert not np.any(outputs.logprobs_BT[21])
    assert float(outputs.advantages_B[21]) == 0.0


def test_weights_change_without_another_program(run, rollouts):
    second_B1 = np.random.default_rng(8).choice([0.0, 1.0], (B, 1)).astype(np.float32)
    rewards_BR = np.concatenate([REWARDS_B1, second_B1], axis=1)
    of_first = run(rollouts, rewards_BR, weights_R=[1.0, 0.0])
    num_programs = update._cache_size()  # pyright: ignore[reportAttributeAccessIssue]
    of_second = run(rollouts, rewards_BR, weights_R=[0.0, 2.0])
    both = run(rollouts, rewards_BR, weights_R=[0.5, 0.25])
    assert update._cache_size() == num_programs  # pyright: ignore[reportAttributeAccessIssue]
    for weighted, alone_B1 in (
        (of_first, REWARDS_B1),
        (of_second, 2 * second_B1),
        (both, 0.5 * REWARDS_B1 + 0.25 * second_B1),
    ):
        np.testing.assert_allclose(
            weighted.outputs.advantages_B,
            run(rollouts, alone_B1).outputs.advantages_B,
            rtol=1e-5,
            atol=1e-6,
        )


def test_masked_dead_groups_leave_the_denominator(run, rollouts, plain):
    masked = run(rollouts, settings=PLAIN._replace(masks_dead_groups=True))
    advantages_PG = np.asarray(plain.outputs.advantages_B).reshape(P, G)
    tokens_P = rollouts.lengths_B.reshape(P, G).sum(axis=1)
    tokens_of_live = tokens_P[np.any(advantages_PG, axis=1)].sum()
    assert tokens_of_live < tokens_P.sum()
    scale = tokens_P.sum() / tokens_of_live
    assert_close(masked.grads, jax.tree.map(lambda g: scale * g, plain.grads), 1e-5)


# What is computed


@pytest.fixture(scope="module")
def naive_logprobs(tiny) -> Callable[..., jax.Array]:
    """Returns log-probs by a softmax over all logits, which exist whole here."""

    def logprobs(params: Any, prompts: Prompts, rollouts: Rollouts) -> jax.Array:
        model = bind(tiny, params, jnp.dtype("float32"))
        hidden_BTD = forward_completions(
            model, prompts, rollouts.completion_BT, rollouts.prompt_index_B
        )
        head_VD = model.output_head_VD[:NUM_TOKENS]
        logits_BTV = jnp.einsum("btd,vd->btv", hidden_BTD, head_VD)
        tokens_BT1 = rollouts.completion_BT[:, :, None]
        all_BTV = jax.nn.log_softmax(logits_BTV)
        return jnp.take_along_axis(all_BTV, tokens_BT1, axis=2)[:, :, 0]

    return logprobs


def test_on_policy_gradient_is_that_of_reinforce(
    tiny_params, prompts, rollouts, plain, naive_logprobs
):
    prompts, rollouts = jax.tree.map(jnp.asarray, (prompts, rollouts))
    mask_BT = jnp.arange(T)[None, :] < rollouts.lengths_B[:, None]
    advantages_B = group_advantages(jnp.asarray(REWARDS_B1), rollouts.group_id_B)

    @jax.jit
    @jax.grad
    def gradient(params: Any) -> jax.Array:
        logprobs_BT = naive_logprobs(params, prompts, rollouts)
        weighted_BT = jnp.where(mask_BT, advantages_B[:, None] * logprobs_BT, 0.0)
        return -weighted_BT.sum() / mask_BT.sum()

    # Two programs of the same sum: rounding differs, in deep layers most.
    assert_close(plain.grads, gradient(tiny_params), 1e-5)


def test_credit_multiplies_the_advantage(run, rollouts, plain):
    credit_BT = jnp.zeros((B, T)).at[: B // 2].set(2.0)
    credited = run(rollouts, credit_BT=credit_BT)
    rewards_B1 = REWARDS_B1.copy()
    rewards_B1[B // 2 :] = 0.0  # tied: counted, without a gradient
    first_half = run(rollouts, rewards_B1)
    assert_close(credited.grads, jax.tree.map(lambda g: 2 * g, first_half.grads))
    assert_same_bits(credited.outputs.advantages_B, plain.outputs.advantages_B)


def test_later_updates_see_new_weights_and_old_logprobs(
    tiny, tiny_params, run, prompts, rollouts, plain
):
    prompts, rollouts = jax.tree.map(jnp.asarray, (prompts, rollouts))
    advantages_B = plain.outputs.advantages_B

    def logprobs_of(params: Any, rows: slice) -> tuple[jax.Array, jax.Array]:
        part = slice(rows.start // G, rows.stop // G)
        model = bind(tiny, params, jnp.dtype("float32"))
        hidden_BTD = forward_completions(
            model,
            jax.tree.map(lambda x: x[part], prompts),
            rollouts.completion_BT[rows],
            rollouts.prompt_index_B[rows] - part.start,
        )
        mask_BT = jnp.arange(T)[None, :] < rollouts.lengths_B[rows, None]
        tokens = token_logprobs(
            hidden_BTD,
            model.output_head_VD,
            rollouts.completion_BT[rows],
            num_tokens=NUM_TOKENS,
            mask_BT=mask_BT,
        )
        return tokens.logprobs_BT, mask_BT

    @partial(jax.jit, static_argnums=1)
    def updated_by_hand(params: Any, start: int) -> tuple[Any, jax.Array]:
        rows = slice(start, start + B // 2)
        old_BT, _ = logprobs_of(tiny_params, rows)

        def loss_fn(params: Any) -> tuple[jax.Array, Any]:
            logprobs_BT, mask_BT = logprobs_of(params, rows)
            advantages_BT = jnp.broadcast_to(advantages_B[rows, None], mask_BT.shape)
            return grpo_loss(
                logprobs_BT, advantages_BT, mask_BT,
                old_logprobs_BT=old_BT, preset="dapo",
            )  # fmt: skip

        grads, metrics = jax.grad(loss_fn, has_aux=True)(params)
        params = jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)
        mean = metrics["ratio/mean"]
        return params, mean.total / mean.weight

    params, ratios = tiny_params, []
    for start in [0, B // 2] * 2:
        params, ratio = updated_by_hand(params, start)
        ratios.append(float(ratio))
    assert ratios[0] == pytest.approx(1.0, abs=1e-6)
    assert all(abs(ratio - 1.0) > 1e-5 for ratio in ratios[1:])

    settings = PLAIN._replace(updates_per_rollout=2, minibatches=2, microbatches=2)
    result = run(rollouts, settings=settings)
    assert_close(result.state.params, params, 1e-5)
    assert int(result.state.step) == 4
    assert result.metrics["ratio/mean"] == pytest.approx(np.mean(ratios), abs=1e-6)
    assert_close(result.outputs, plain.outputs, 1e-5)  # before the first update


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_sampler_and_trainer_agree_at_any_temperature(run, sampled, plain, temperature):
    rollouts = sampled(temperature)
    result = run(rollouts, temperature=temperature)
    mask_BT = np.arange(T)[None, :] < rollouts.lengths_B[:, None]
    gap_BT = np.abs(result.outputs.logprobs_BT - rollouts.sampler_logprobs_BT)
    assert gap_BT[mask_BT].max() < 1e-5
    assert not np.any(result.outputs.logprobs_BT[~mask_BT])
    assert result.metrics["sampling/sampling_logp_difference/mean"] < 1e-5
    largest = result.metrics["sampling/sampling_logp_difference/max"]
    assert largest == pytest.approx(gap_BT[mask_BT].max(), abs=1e-9)
    assert result.metrics["token_mult_prob_error"] == pytest.approx(1.0, abs=1e-5)
    assert result.metrics["ratio/mean"] == 1.0


def test_another_temperature_than_the_samplers_shows_as_a_gap(run, sampled):
    result = run(sampled(0.6), temperature=1.3)
    mean = result.metrics["sampling/sampling_logp_difference/mean"]
    assert 1e-2 < mean < result.metrics["sampling/sampling_logp_difference/max"]


def test_truncated_sampling_is_replayed(run, tiny, tiny_params, prompts):
    settings = SAMPLER._replace(choice=Choice(top_k=8, top_p=0.8))
    rollouts = drawn_rollouts(tiny, tiny_params, prompts, settings)
    correction = resolve_objective("dapo", correction="token_truncate")
    result = run(rollouts, settings=PLAIN._replace(objective=correction))
    ratio = result.metrics["sampling/importance_sampling_ratio_raw/mean"]
    assert f"{ratio:.3f}" == "1.000"
    assert result.metrics["sampling/sampling_logp_difference/max"] < 1e-5
    assert result.metrics["entropy"] < np.log(8)
    forgotten = rollouts._replace(kept_BTk=None)
    result = run(forgotten, settings=PLAIN._replace(objective=correction))
    assert result.metrics["sampling/importance_sampling_ratio_raw/mean"] < 0.95


def test_a_constraint_is_replayed_with_the_budget_of_each_row(
    run, tiny, tiny_params, prompts, tmp_path
):
    pieces = (*(bytes([byte]) for byte in range(256)), b"")
    host = compile_constraints(
        [parse_constraint("python_literal")],
        Vocabulary(pieces, {"<end>": 256}, (256,)),
        num_logits=tiny.vocab_size,
        cache_folder=tmp_path,
    )
    tables = ConstraintTables(*map(jnp.asarray, host))
    rollouts = drawn_rollouts(
        tiny, tiny_params, prompts, SAMPLER._replace(eos_ids=(256,), num_tokens=257),
        budgets=[2, 3, 5, T], constraints=tables,
    )  # fmt: skip
    assert rollouts.budget_B[:G].tolist() == [2, 3, 5, T]
    settings = PLAIN._replace(num_tokens=257)
    result = run(rollouts, settings=settings, constraints=tables)
    assert result.metrics["sampling/sampling_logp_difference/max"] < 1e-5
    # With a longer budget, tokens that could not have been drawn would take a share.
    longer = rollouts._replace(budget_B=np.full(B, T, np.int32))
    result = run(longer, settings=settings, constraints=tables)
    assert result.metrics["sampling/sampling_logp_difference/max"] > 0.1


# The reference

WITH_REFERENCE = PLAIN._replace(
    objective=resolve_objective("dapo", kl_coef=0.5), ref_sync_steps=2, ref_mixup=0.25
)


@pytest.fixture(scope="module")
def reference(tiny_params) -> Any:
    return jax.tree.map(lambda x: x * 1.05, tiny_params)


def test_divergence_is_from_the_references_logprobs(
    run, rollouts, tiny_params, reference, plain
):
    at_itself = run(rollouts, settings=WITH_REFERENCE, reference=tiny_params)
    assert at_itself.metrics["kl"] == pytest.approx(0.0, abs=1e-6)
    assert_close(at_itself.grads, plain.grads, 1e-5)  # k3 is flat there

    result = run(rollouts, settings=WITH_REFERENCE, reference=reference)
    ref_BT = run(rollouts, params=reference).outputs.logprobs_BT
    mask_BT = np.arange(T)[None, :] < rollouts.lengths_B[:, None]
    gap = np.asarray(ref_BT - plain.outputs.logprobs_BT, np.float64)[mask_BT]
    expected = (np.exp(gap) - gap - 1).mean()
    assert expected > 1e-3
    assert result.metrics["kl"] == pytest.approx(expected, rel=1e-4)


def test_a_masked_dead_group_feels_no_divergence(run, rollouts, reference):
    settings = WITH_REFERENCE._replace(masks_dead_groups=True)
    tied_B1 = np.ones((B, 1), np.float32)
    masked = run(rollouts, tied_B1, settings, reference=reference)
    assert masked.metrics["grad_norm"] == 0.0
    pulled = run(rollouts, tied_B1, WITH_REFERENCE, reference=reference)
    assert pulled.metrics["grad_norm"] > 0.0


def test_the_reference_moves_when_it_is_due(run, rollouts, reference, tiny, prompts):
    result = run(rollouts, settings=WITH_REFERENCE, reference=reference)
    assert_same_bits(result.state.ref_params, reference)
    state, _, _ = update(
        result.state,
        prompts,
        rollouts,
        Scored(jnp.asarray(REWARDS_B1), None),
        jnp.float32(1.0),
        architecture=tiny,
        optimizer=DESCENT,
        settings=WITH_REFERENCE,
    )
    expected = jax.tree.map(lambda p, r: 0.25 * p + 0.75 * r, state.params, reference)
    assert_close(state.ref_params, expected)


# The program


@pytest.mark.parametrize("cause", ["weight", "reward"])
def test_an_update_that_is_not_finite_is_left_out(run, rollouts, tiny_params, cause):
    params, rewards_B1 = tiny_params, REWARDS_B1.copy()
    if cause == "reward":
        rewards_B1[9] = np.inf
    else:
        name, layers = "gate_DF", tiny_params["layers"]
        params = tiny_params | {
            "layers": layers | {name: layers[name].at[0, 0, 0].set(np.nan)}
        }
    result = run(rollouts, rewards_B1, params=params)
    assert result.metrics["update_skipped"] == 1.0
    assert_same_bits(result.state.params, params)
    assert_same_bits(result.state.opt_state, DESCENT.init(params))
    assert int(result.state.step) == 1


def test_every_skipped_update_of_a_step_is_counted(run, rollouts):
    rewards_B1 = REWARDS_B1.copy()
    rewards_B1[9] = np.inf  # only in the first of two minibatches
    settings = PLAIN._replace(updates_per_rollout=2, minibatches=2, microbatches=2)
    result = run(rollouts, rewards_B1, settings)
    assert result.metrics["update_skipped"] == 2.0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.state.params))


def test_the_old_state_is_given_up(tiny, tiny_params, prompts, rollouts):
    params = jax.tree.map(jnp.copy, tiny_params)
    state = TrainState(jnp.int32(0), params, DESCENT.init(params), None)
    update(
        state,
        prompts,
        rollouts,
        Scored(jnp.asarray(REWARDS_B1), None),
        jnp.float32(1.0),
        architecture=tiny,
        optimizer=DESCENT,
        settings=PLAIN,
    )
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))


def test_one_program_serves_every_batch_of_a_shape(run, sampled, plain):
    compiled: Any = update
    num_programs = compiled._cache_size()
    run(sampled(0.6), REWARDS_B1[::-1], temperature=0.6)
    run(without(sampled(1.3), [3]), temperature=1.3)
    assert compiled._cache_size() == num_programs


def test_without_stored_rows_nothing_changes(run, rollouts, plain):
    result = run(rollouts, settings=PLAIN._replace(has_stored_rows=True))
    assert result.metrics["loss"] == plain.metrics["loss"]
    for ours, theirs in zip(
        jax.tree.leaves(result.grads), jax.tree.leaves(plain.grads), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_stored_rows_are_weighed_against_the_policy_that_sampled_them(
    run, rollouts, plain
):
    """Within the clip, the gradient of ratio * A is the ratio times that of log p."""
    likelier_by = 0.05
    stored = rollouts._replace(
        policy_step_B=np.full_like(rollouts.policy_step_B, -1),
        sampler_logprobs_BT=plain.outputs.logprobs_BT - likelier_by,
    )
    result = run(stored, settings=PLAIN._replace(has_stored_rows=True))
    for ours, theirs in zip(
        jax.tree.leaves(result.grads), jax.tree.leaves(plain.grads), strict=True
    ):
        expected = np.exp(likelier_by) * theirs
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-6)
    assert result.metrics["sampling/sampling_logp_difference/max"] == 0.0


def test_stored_rows_leave_the_others_alone(run, rollouts, plain):
    """Rows far above the clip with A > 0 have no gradient; new rows keep theirs."""
    rewards_B1 = REWARDS_B1
    is_better_B = plain.outputs.advantages_B > 0
    is_stored_B = is_better_B & (np.arange(B) >= 2 * G)
    assert is_stored_B.any()
    stored = rollouts._replace(
        policy_step_B=np.where(is_stored_B, -1, 0).astype(np.int32),
        sampler_logprobs_BT=plain.outputs.logprobs_BT
        - np.where(is_stored_B, 1.0, 0.0)[:, None].astype(np.float32),
    )
    with_stored = run(stored, settings=PLAIN._replace(has_stored_rows=True))
    without_gradient = run(
        rollouts,
        rewards_B1,
        credit_BT=jnp.broadcast_to(
            jnp.where(is_stored_B, 0.0, 1.0)[:, None], rollouts.completion_BT.shape
        ),
    )
    for ours, theirs in zip(
        jax.tree.leaves(with_stored.grads),
        jax.tree.leaves(without_gradient.grads),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-6)
    metrics = with_stored.metrics
    assert metrics["clip_ratio/off_high"] == metrics["clip_ratio/off_region"] == 1.0
    assert metrics["clip_ratio/on_region"] == metrics["clip_ratio/off_low"] == 0.0
    parts = metrics["policy_loss/on"] + metrics["policy_loss/off"]
    assert parts == pytest.approx(metrics["policy_loss"], abs=1e-6)
    assert not [name for name in plain.metrics if name.endswith(("/on", "/off"))]
    halved = PLAIN._replace(has_stored_rows=True, microbatches=2)
    in_parts = run(stored, settings=halved).metrics
    for name in ("policy_loss/on", "policy_loss/off", "clip_ratio/off_high"):
        assert in_parts[name] == pytest.approx(metrics[name], abs=1e-6)


def test_blame_falls_on_the_tokens_of_a_span_alone(run, rollouts, plain):
    """As the same credit written out; rows that are praised keep uniform credit."""
    lengths_B, advantages_B = rollouts.lengths_B, plain.outputs.advantages_B
    ends_B = np.minimum(2, lengths_B)
    focus_B2 = np.stack([ends_B - 1, ends_B], axis=1).astype(np.int32)
    is_blamed_B = np.asarray(advantages_B < 0)
    credit_BT = np.ones(rollouts.completion_BT.shape, np.float32)
    for row in np.flatnonzero(is_blamed_B):
        credit_BT[row] = 0.0
        credit_BT[row, ends_B[row] - 1] = lengths_B[row]
    focused = run(rollouts, focus_B2=jnp.asarray(focus_B2))
    written_out = run(rollouts, credit_BT=jnp.asarray(credit_BT))
    for ours, theirs in zip(
        jax.tree.leaves(focused.grads), jax.tree.leaves(written_out.grads), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    share = is_blamed_B.mean()
    assert focused.metrics["credit/focused_share"] == pytest.approx(share, abs=1e-6)
    real_BT = np.arange(T)[None, :] < lengths_B[:, None]
    np.testing.assert_allclose(
        focused.outputs.credit_BT, np.where(real_BT, credit_BT, 0.0), rtol=1e-6
    )
    assert plain.outputs.credit_BT is None
    assert not [name for name in plain.metrics if name.startswith("credit/")]
    nowhere = run(rollouts, focus_B2=jnp.zeros((B, 2), jnp.int32))
    for ours, theirs in zip(
        jax.tree.leaves(nowhere.grads), jax.tree.leaves(plain.grads), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
