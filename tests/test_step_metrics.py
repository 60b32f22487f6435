"""The numbers of a step: from rewards as they are used, per group, all defined."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS as ARCHITECTURES
from jaxgrpo.device.objective import metrics as device_metrics
from jaxgrpo.device.objective.advantages import group_advantages, weighted_reward
from jaxgrpo.device.objective.presets import PRESETS, resolve_objective
from jaxgrpo.device.records import Prompts, Rollouts, Scored, TrainState
from jaxgrpo.device.supervised import Examples, SupervisedSettings, supervised_update
from jaxgrpo.device.update import UpdateSettings, update
from jaxgrpo.glossary import definition
from jaxgrpo.host.judge import infra_verdict
from jaxgrpo.host.records import (
    Completion,
    ExceptionInfo,
    FinishReason,
    Group,
    Problem,
    Prompt,
    Score,
    TestResult,
    Verdict,
)
from jaxgrpo.host.scoring import abstaining_score
from jaxgrpo.step_metrics import (
    completion_metrics,
    dead_group_metrics,
    error_share,
    group_metrics,
    is_judged,
    lengths_by_verdict,
    prompt_metrics,
    reward_metrics,
    total_rewards,
    updated_group_metrics,
    warnings_of,
)

NAN = math.nan
WEIGHTS = {"exact": 1.0, "similarity": 0.5, "logged": 0.0}


def completion(length: int, finish_reason: FinishReason = "eos") -> Completion:
    return Completion(
        problem_id="p",
        token_ids=np.arange(length, dtype=np.int32),
        text="x" * length,
        token_offsets=np.zeros((length, 2), np.int32),
        finish_reason=finish_reason,
        sampler_logprobs=np.zeros(length, np.float32),
    )


def score(exact: float, similarity: float = 0.0, logged: float = 0.0) -> Score:
    error_class = "exact" if exact == 1.0 else "wrong_value"
    return Score(
        rewards={"exact": exact, "similarity": similarity, "logged": logged},
        verdict=Verdict(status="OK" if exact == 1.0 else "WA", error_class=error_class),
        error_class=error_class,
    )


INFRA = abstaining_score(list(WEIGHTS), infra_verdict("worker died"), "worker died")


def group_of(*scores: Score) -> Group:
    return Group(
        problem=Problem(id="p", kind="output", prompt="", reference=""),
        prompts=(),
        completions=tuple(completion(index + 1) for index in range(len(scores))),
        scores=scores,
    )


MIXED = group_of(score(1.0, 1.0), score(0.0, 0.5), score(0.0, 0.0, logged=NAN))
DEAD = group_of(score(0.0), score(0.0))
FULL = group_of(score(1.0, 1.0), score(1.0, 1.0))
ABSENT = group_of(INFRA, INFRA)


# Rewards


def test_total_is_the_weighted_sum_and_nan_where_a_used_reward_is():
    some = group_of(score(1.0, 0.5), score(0.0, NAN), score(1.0, 1.0, logged=NAN))
    np.testing.assert_array_equal(total_rewards([some], WEIGHTS), [1.25, NAN, 1.5])


def test_logged_reward_is_the_mean_of_what_advantages_are_made_of():
    groups = [MIXED, group_of(score(0.0, 0.25), score(NAN, 1.0)), FULL]
    scores = [s for group in groups for s in group.scores]
    rewards_BR = jnp.array([list(s.rewards.values()) for s in scores], jnp.float32)
    weights_R = jnp.array(list(WEIGHTS.values()))
    total_B, is_counted_B = weighted_reward(
        rewards_BR, weights_R, jnp.ones(len(scores), bool)
    )
    expected = np.where(is_counted_B, total_B, NAN)
    np.testing.assert_allclose(total_rewards(groups, WEIGHTS), expected)
    metrics = reward_metrics(groups, WEIGHTS)
    assert metrics["reward"] == pytest.approx(np.nanmean(expected))
    assert metrics["abstained_rollouts"] == 1.0


def test_statistics_of_a_reward_leave_abstentions_out():
    groups = [group_of(score(1.0), score(NAN)), group_of(score(0.0), score(NAN))]
    metrics = reward_metrics(groups, WEIGHTS)
    assert metrics["rewards/exact/mean"] == 0.5
    assert metrics["rewards/exact/std"] == pytest.approx(math.sqrt(0.5))
    assert metrics["rewards/exact/abstained"] == 0.5
    assert metrics["rewards/similarity/abstained"] == 0.0


def test_reward_std_is_pooled_over_rows():
    spread = group_of(score(1.0), score(0.0))
    metrics = reward_metrics([spread, DEAD, ABSENT], WEIGHTS)
    assert metrics["reward_std"] == pytest.approx(np.std([1, 0, 0, 0], ddof=1))


def test_a_step_in_which_all_abstain_has_no_reward():
    metrics = group_metrics([ABSENT], WEIGHTS)
    assert math.isnan(metrics["reward"]) and math.isnan(metrics["rewards/exact/mean"])
    assert metrics["abstained_rollouts"] == metrics["errored_rollouts"] == 2.0
    assert metrics["exact_match"] == 0.0


# Dead groups


def test_shares_of_dead_groups_are_of_groups_not_of_rows():
    large = group_of(*[score(1.0, 0.5 * (index % 2)) for index in range(20)])
    metrics = dead_group_metrics([large, DEAD, FULL, MIXED], WEIGHTS)
    assert metrics == {
        "frac_reward_zero_std": 0.5,
        "frac_reward_many_values": 0.5,
        "frac_reward_all_zero": 0.25,
        "frac_reward_mixed": 0.25,
        "frac_reward_all_one": 0.5,
    }


def test_many_values_are_of_summed_rewards_in_groups_that_differ():
    two = group_of(score(1.0, 0.0), score(0.0, 0.0), score(0.5, 1.0), INFRA)
    three = group_of(score(1.0, 0.0), score(0.0, 0.0), score(0.5, 0.5))
    metrics = dead_group_metrics([two, two, three, DEAD, FULL, ABSENT], WEIGHTS)
    assert metrics["frac_reward_many_values"] == 1 / 3
    assert math.isnan(dead_group_metrics([DEAD], WEIGHTS)["frac_reward_many_values"])


def test_unjudged_rows_and_groups_are_left_out_of_the_shares():
    group = group_of(score(1.0, 1.0), INFRA, score(1.0, 1.0))
    metrics = dead_group_metrics([group, ABSENT], WEIGHTS)
    assert metrics["frac_reward_zero_std"] == 1.0
    assert metrics["frac_reward_all_one"] == 1.0
    assert metrics["frac_reward_all_zero"] == 0.0


def test_host_and_device_define_the_same_shares():
    groups = [MIXED, DEAD, FULL, group_of(score(0.0, 0.3), INFRA, score(1.0, 0.3))]
    scores = [s for group in groups for s in group.scores]
    ids_B = jnp.array([i for i, group in enumerate(groups) for _ in group.scores])
    is_judged_B = jnp.array([is_judged(s) for s in scores])
    is_exact_B = jnp.array(
        [s.verdict is not None and s.verdict.is_correct for s in scores]
    )
    rewards_BR = jnp.array([list(s.rewards.values()) for s in scores])
    total_B, is_counted_B = weighted_reward(
        rewards_BR, jnp.array(list(WEIGHTS.values())), jnp.ones(len(scores), bool)
    )
    on_device = device_metrics.dead_group_metrics(is_exact_B, ids_B, is_judged_B)
    on_device |= device_metrics.reward_metrics(total_B, ids_B, is_counted_B)
    on_host = dead_group_metrics(groups, WEIGHTS) | reward_metrics(groups, WEIGHTS)
    for name, value in on_device.items():
        assert on_host[name] == pytest.approx(float(value), abs=1e-6), name


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_dead_groups_are_those_without_an_advantage(scale):
    groups = [MIXED, DEAD, FULL, group_of(score(0.0, 0.3), score(0.0, 0.3), INFRA)]
    rewards_BR = jnp.array(
        [list(s.rewards.values()) for group in groups for s in group.scores]
    )
    ids_B = jnp.array([i for i, group in enumerate(groups) for _ in group.scores])
    advantages_B = group_advantages(
        rewards_BR, ids_B, weights_R=list(WEIGHTS.values()), scale=scale
    )
    is_dead = [not np.any(advantages_B[ids_B == i]) for i in range(len(groups))]
    metrics = dead_group_metrics(groups, WEIGHTS)
    assert metrics["frac_reward_zero_std"] == np.mean(is_dead) == 0.75


# Completions and verdicts


def test_lengths_of_all_and_of_those_that_ended():
    group = Group(
        problem=DEAD.problem,
        prompts=(),
        completions=(completion(2), completion(4), completion(9, "length")),
    )
    assert completion_metrics([group]) == {
        "completions/mean_length": 5.0,
        "completions/min_length": 2.0,
        "completions/max_length": 9.0,
        "completions/mean_terminated_length": 3.0,
        "completions/min_terminated_length": 2.0,
        "completions/max_terminated_length": 4.0,
        "completions/clipped_ratio": 1 / 3,
    }


def test_lengths_of_what_is_solved_and_of_what_is_not():
    # Completions of 1, 2 and 3 tokens; the last group's first could not be judged.
    groups = [MIXED, group_of(INFRA, score(1.0))]
    assert lengths_by_verdict(groups) == {
        "completions/mean_length_solved": (1 + 2) / 2,
        "completions/mean_length_unsolved": (2 + 3) / 2,
    }
    assert math.isnan(lengths_by_verdict([DEAD])["completions/mean_length_solved"])


def test_lengths_of_the_distinct_prompts():
    prompts = [
        Prompt(problem_id="p", text="", token_ids=np.zeros(length, np.int32))
        for length in (3, 8)
    ]
    asked = [replace(MIXED, prompts=(prompt,)) for prompt in prompts]
    assert prompt_metrics(asked) == {
        "prompt_length/mean": 5.5, "prompt_length/min": 3.0, "prompt_length/max": 8.0,
    }  # fmt: skip


def raising(*names: str) -> Score:
    """A program whose tests ended in these exceptions; an empty name passed."""
    results = tuple(
        TestResult(
            status="RE", error_class="exception",
            exception=ExceptionInfo(type_name=name, message=""),
        )
        if name
        else TestResult(status="OK", error_class="passed")
        for name in names
    )  # fmt: skip
    verdict = Verdict(
        status="RE", error_class="exception", num_tests=len(names), results=results
    )
    return replace(score(0.0), verdict=verdict, error_class="exception")


def test_exceptions_share_all_rows_and_add_up_to_their_class():
    group = group_of(
        raising("", "NameError", "KeyError"), raising("NameError"), raising("Mine"),
        raising("print"), score(1.0),
    )  # fmt: skip
    metrics = group_metrics([group], WEIGHTS)
    shares = {n: v for n, v in metrics.items() if n.startswith("exception/")}
    assert shares == {"exception/NameError": 0.4, "exception/other": 0.4}
    assert sum(shares.values()) == metrics["error_class/exception"]
    assert all(definition(name) for name in shares)


def test_error_classes_share_all_rows():
    metrics = group_metrics([MIXED, group_of(score(0.0), INFRA)], WEIGHTS)
    classes = {n: v for n, v in metrics.items() if n.startswith("error_class/")}
    assert classes == {
        "error_class/exact": 0.2,
        "error_class/infra": 0.2,
        "error_class/wrong_value": pytest.approx(0.6),
    }
    assert metrics["exact_match"] == 0.2


def test_error_share_counts_only_what_failed_on_our_side():
    assert error_share([MIXED, DEAD]) == 0.0
    assert error_share([DEAD, group_of(INFRA, score(NAN))]) == 0.25


# Names

TINY = ARCHITECTURES["qwen3-tiny"]


def shapes_of_state() -> Any:
    def make() -> TrainState:
        params = initial_params(TINY, jax.random.key(0))
        return TrainState(jnp.int32(0), params, optax.sgd(0.1).init(params), params)

    return jax.eval_shape(make)


def shapes_of_batch() -> Any:
    def make() -> tuple[Prompts, Rollouts, Scored, jax.Array]:
        row_B, row_BT = jnp.zeros(4, jnp.int32), jnp.zeros((4, 3), jnp.int32)
        rollouts = Rollouts(
            completion_BT=row_BT,
            lengths_B=row_B,
            budget_B=row_B,
            sampler_logprobs_BT=jnp.zeros((4, 3)),
            finish_reason_B=row_B,
            prompt_index_B=row_B,
            group_id_B=row_B,
            row_key_B=jax.random.split(jax.random.key(0), 4),
            policy_step_B=row_B,
            constraint_id_B=row_B,
            is_real_B=row_B == 0,
        )
        prompts = Prompts(jnp.zeros((2, 5), jnp.int32), jnp.ones(2, jnp.int32))
        return prompts, rollouts, Scored(jnp.zeros((4, 1)), None), jnp.float32(1.0)

    return jax.eval_shape(make)


@pytest.mark.parametrize("preset", [*PRESETS, "dapo with reference"])
def test_every_metric_of_an_update_is_defined(preset):
    name, _, has_reference = preset.partition(" with ")
    parts: dict[str, Any] = {"kl_coef": 0.1} if has_reference else {}
    if PRESETS[name].objective.aggregation == "constant":
        parts["length_cap"] = 3
    settings = UpdateSettings(
        objective=resolve_objective(name, **parts), num_tokens=440
    )
    _, metrics, _ = jax.eval_shape(
        lambda *arrays: update(
            *arrays, architecture=TINY, optimizer=optax.sgd(0.1), settings=settings
        ),
        shapes_of_state(),
        *shapes_of_batch(),
    )
    assert {"loss", "grad_norm", "entropy", "advantages/max"} <= metrics.keys()
    assert [name for name in metrics if definition(name) is None] == []


def test_every_metric_of_a_supervised_update_is_defined():
    examples = jax.eval_shape(
        lambda: Examples(
            jnp.zeros((2, 8), jnp.int32), jnp.ones(2, jnp.int32), jnp.ones(2, jnp.int32)
        )
    )
    _, metrics = jax.eval_shape(
        lambda *arrays: supervised_update(
            *arrays,
            architecture=TINY,
            optimizer=optax.sgd(0.1),
            settings=SupervisedSettings(num_tokens=440),
        ),
        shapes_of_state(),
        examples,
    )
    assert [name for name in metrics if definition(name) is None] == []


def test_every_metric_of_groups_is_defined():
    names = group_metrics([MIXED, DEAD, FULL, ABSENT], WEIGHTS)
    assert [name for name in names if definition(name) is None] == []


# Warnings


def test_a_gap_between_sampler_and_trainer_is_warned_of_above_its_limit():
    metrics = {
        "sampling/sampling_logp_difference/mean": 0.02,
        "sampling/sampling_logp_difference/max": 1.5,
        "update_skipped": 0.0,
        "update_empty": 0.0,
    }
    assert warnings_of(metrics, gap_limit=0.02) == []
    (text,) = warnings_of(metrics, gap_limit=0.01)
    assert text == (
        "sampler and trainer differ by 0.02 nats per token, at most by 1.5; "
        "log.sampler_gap_warning is 0.01."
    )


def test_an_update_that_was_left_out_is_warned_of():
    metrics = {"sampling/sampling_logp_difference/mean": 0.0, "update_skipped": 2.0}
    (text,) = warnings_of(metrics | {"update_empty": 0.0}, gap_limit=0.01)
    assert "not finite" in text


def test_updates_without_a_completion_are_warned_of():
    metrics = {"sampling/sampling_logp_difference/mean": 0.0, "update_skipped": 0.0}
    (text,) = warnings_of(metrics | {"update_empty": 2.0}, gap_limit=0.01)
    assert text.startswith("2 updates had no completion to learn from")


def test_the_dead_share_of_the_update_is_of_the_groups_that_reach_it():
    assert updated_group_metrics([DEAD, FULL, MIXED], WEIGHTS) == {
        "frac_update_zero_std": pytest.approx(2 / 3)
    }
    assert updated_group_metrics([MIXED], WEIGHTS) == {"frac_update_zero_std": 0.0}
