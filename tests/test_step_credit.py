"""Credit by steps in the update: advantages, gradients, and what is refused."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from jaxgrpo.batching import rows_of_completions, update_arrays
from jaxgrpo.config import Config
from jaxgrpo.config_credit import (
    STEP_DATASETS,
    STEP_PRESETS,
    blame_settings,
    step_settings,
)
from jaxgrpo.config_data import known_datasets
from jaxgrpo.device.objective.loss import grpo_loss
from jaxgrpo.device.objective.presets import PRESETS
from jaxgrpo.device.records import Rollouts, Scored
from jaxgrpo.device.token_advantages import AdvantageSettings, token_advantages
from jaxgrpo.host.credit.steps import MAX_STEPS, StepSettings
from jaxgrpo.host.records import (
    Completion,
    Group,
    Problem,
    Prompt,
    Score,
    StepRewards,
)
from jaxgrpo.update_shape import update_shape

T, NUM_ROWS, A = 12, 11, 5
NAN = math.nan
GROUPS: list[list[tuple[list[float], list[int]]]] = [
    # Four steps; missing ones repeat the end before.
    [
        ([1, 0, 1, 1], [3, 5, 8, 12]),
        ([1, 0, 0, 1], [3, 3, 8, 9]),
        ([0, 0, 1, 0], [2, 4, 6, 7]),
    ],
    # Two steps, all right: nothing but the intra-trajectory part.
    [([1, 1], [4, 9]), ([1, 1], [5, 6])],
    # All wrong: no advantage.
    [([0, 0], [2, 4]), ([0, 0], [0, 3])],
    # A step whose credit is left out, in every row.
    [([NAN, 1, 1], [0, 4, 8]), ([NAN, 0, 1], [0, 4, 5])],
]
"""Rewards and ends of the steps of each completion, group by group."""
PLAIN = AdvantageSettings()
ROWS = [row for group in GROUPS for row in group]


def groups(factor: float = 1.0) -> list[Group]:
    made = []
    for number, rows in enumerate(GROUPS):
        name = f"p{number}"
        completions = tuple(
            Completion(
                problem_id=name, token_ids=np.ones(ends[-1], np.int32), text="",
                token_offsets=np.zeros((ends[-1], 2), np.int32), finish_reason="eos",
                sampler_logprobs=np.zeros(ends[-1], np.float32), sample=sample,
            )
            for sample, (_, ends) in enumerate(rows)
        )  # fmt: skip
        scores = tuple(
            Score(
                rewards={"exact": rewards[-1]}, advantage_factor=factor,
                steps=StepRewards(rewards=tuple(rewards), ends=tuple(ends)),
            )
            for rewards, ends in rows
        )  # fmt: skip
        prompt = Prompt(problem_id=name, text="", token_ids=np.zeros(2, np.int32))
        problem = Problem(id=name, kind="trace", prompt="", reference="")
        made.append(
            Group(
                problem=problem, prompts=(prompt,), completions=completions,
                scores=scores,
            )
        )  # fmt: skip
    return made


def arrays(factor: float = 1.0, num_steps: int = A) -> tuple[Rollouts, Scored]:
    _, rollouts, scored = update_arrays(
        groups(factor), ["exact"], seed=0, purpose=0, step=0, num_prompts=len(GROUPS),
        num_rows=NUM_ROWS, num_positions=4, num_columns=T, num_steps=num_steps,
        has_factors=factor != 1.0,
    )  # fmt: skip
    return rollouts, scored


def advantages(settings: AdvantageSettings = PLAIN, **options: Any):
    rollouts, scored = arrays(**options)
    weights_R = jnp.ones(1)
    return jax.jit(lambda r, s: token_advantages(r, s, weights_R, settings)._asdict())(
        rollouts, scored
    )


def transcribed(intra_coef: float) -> np.ndarray:
    """Equations 8-15 in float64, one completion and one step after the other."""
    at_tokens = []
    for rows in GROUPS:
        for rewards, ends in rows:
            of_tokens = np.zeros(T)
            begin = 0
            for i, (reward, end) in enumerate(zip(rewards, ends, strict=True)):
                if math.isnan(reward):
                    continue
                column = np.array([others[i] for others, _ in rows])
                spread = column.std(ddof=1)
                inter = (reward - column.mean()) / (spread + 1e-4) if spread else 0.0
                later = [r for r in rewards[i + 1 :] if not math.isnan(r)]
                intra = reward * (1 + np.mean(later)) if later else reward
                of_tokens[begin:end] = inter + intra_coef * intra
                begin = max(begin, end)
            at_tokens.append(of_tokens)
    return np.stack(at_tokens)


@pytest.mark.parametrize("intra_coef", [0.3, 0.0, 1.5])
def test_advantages_of_tokens_equal_the_transcription(intra_coef: float):
    found = advantages(AdvantageSettings(intra_coef=intra_coef))
    rows = rows_of_completions(groups())
    ours_BT = np.asarray(found["advantages_BT"])
    np.testing.assert_allclose(ours_BT[rows], transcribed(intra_coef), atol=2e-6)
    padding = np.setdiff1d(np.arange(NUM_ROWS), rows)
    assert len(padding) == NUM_ROWS - len(ROWS)
    assert (ours_BT[padding] == 0).all()
    assert not np.asarray(found["mask_BT"])[padding].any()


def test_advantage_of_a_row_is_the_mean_over_its_tokens():
    found = advantages()
    rows = rows_of_completions(groups())
    lengths = [ends[-1] for _, ends in ROWS]
    np.testing.assert_allclose(
        np.asarray(found["advantages_B"])[rows],
        transcribed(0.3).sum(axis=1) / lengths,
        atol=2e-6,
    )
    assert found["credit_BT"] is None


def test_share_of_the_intra_trajectory_part():
    assert advantages(AdvantageSettings(intra_coef=0.0))["metrics"][
        "credit/intra_share"
    ] == pytest.approx(0.0)
    inter = intra = 0.0
    for rows in GROUPS:
        for rewards, _ in rows:
            for i, reward in enumerate(rewards):
                if math.isnan(reward):
                    continue
                column = np.array([others[i] for others, _ in rows])
                inter += abs(reward - column.mean()) / (column.std(ddof=1) + 1e-4)
                later = [r for r in rewards[i + 1 :] if not math.isnan(r)]
                intra += 0.3 * reward * (1 + (np.mean(later) if later else 0.0))
    assert advantages()["metrics"]["credit/intra_share"] == pytest.approx(
        intra / (inter + intra), rel=1e-4
    )


def test_factors_of_rows_multiply_their_steps():
    plain, halved = advantages(), advantages(factor=0.5)
    np.testing.assert_allclose(
        halved["advantages_BT"], 0.5 * np.asarray(plain["advantages_BT"])
    )


def test_dead_groups_may_be_left_out_only_if_no_step_has_an_advantage():
    found = advantages(AdvantageSettings(masks_dead_groups=True))
    rows = rows_of_completions(groups())
    is_counted = np.asarray(found["mask_BT"])[rows].any(axis=1)
    assert is_counted.tolist() == [True] * 5 + [False] * 2 + [True] * 2


@pytest.mark.parametrize("preset", STEP_PRESETS)
def test_gradients_reach_each_steps_tokens_with_its_advantage_alone(preset: str):
    """On-policy: d loss / d log-prob = - A_t / (the preset's denominator)."""
    found = advantages()
    mask_BT, advantages_BT = found["mask_BT"], found["advantages_BT"]

    def loss(logprobs_BT):
        return grpo_loss(logprobs_BT, advantages_BT, mask_BT, preset=preset)[0]

    slopes_BT = np.asarray(jax.jit(jax.grad(loss))(jnp.full(mask_BT.shape, -1.0)))
    counts_B1 = np.asarray(mask_BT).sum(axis=1, keepdims=True)
    if PRESETS[preset].objective.aggregation == "token_mean":
        divisor = counts_B1.sum()
    else:
        divisor = np.maximum(counts_B1, 1) * len(ROWS)
    expected_BT = -np.where(mask_BT, advantages_BT, 0.0) / divisor
    np.testing.assert_allclose(slopes_BT, expected_BT, rtol=1e-4, atol=1e-7)


def test_uniform_credit_brings_no_array():
    rollouts, scored = arrays(num_steps=0)
    assert scored.steps is None
    found = token_advantages(rollouts, scored, jnp.ones(1), AdvantageSettings())
    assert "credit/intra_share" not in found.metrics
    plain_BT = np.asarray(found.advantages_B)[:, None]
    assert (np.asarray(found.advantages_BT) == plain_BT).all()


# The configuration

BILEVEL = {"method": "bilevel"}


def config(credit: dict[str, Any] = BILEVEL, **tables: Any) -> Config:
    given = {
        "model": {"checkpoint": "builtin:base"},
        "rewards": {"exact": {}},
        "data": {"dataset": "step_prediction"},
        "objective": {"preset": "grpo"},
        "credit": credit,
    }
    return Config.model_validate(given | tables)


def complaint(credit: dict[str, Any] = BILEVEL, **tables: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        config(credit, **tables)
    (error,) = caught.value.errors()
    return error["msg"]


def test_scorer_and_update_are_told():
    chosen = config(BILEVEL | {"step_dropout": 0.2}, run={"seed": 3})
    assert step_settings(chosen) == StepSettings(dropout=0.2, seed=3)
    assert update_shape(chosen).num_steps == MAX_STEPS
    assert blame_settings(chosen) is None and not update_shape(chosen).has_focus


@pytest.mark.parametrize(
    "credit", [{}, {"method": "egca"}], ids=["uniform", "egca"]
)  # fmt: skip
def test_other_credit_asks_for_no_steps(credit: dict[str, Any]):
    dataset = {"dataset": "mini_programs"}
    chosen = config(credit, data=dataset, rewards={"tests": {}})
    assert step_settings(chosen) is None
    assert update_shape(chosen).num_steps == 0


def test_the_presets_that_fit_are_those_that_measure_alike():
    fitting = [
        name
        for name, preset in PRESETS.items()
        if (preset.scale, preset.baseline) == ("group", "mean")
        and preset.objective.ratio_level in ("token", "sequence_token")
    ]
    assert sorted(STEP_PRESETS) == sorted(fitting)


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - set(STEP_PRESETS)))
def test_losses_that_would_mix_steps_are_refused(preset: str):
    message = complaint(objective={"preset": preset})
    assert f"objective.preset {preset!r}" in message and "dapo" in message


@pytest.mark.parametrize("dataset", sorted(set(known_datasets()) - set(STEP_DATASETS)))
def test_data_without_steps_is_refused(dataset: str):
    message = complaint(data={"dataset": dataset})
    assert f"data.dataset {dataset!r} records no steps" in message


@pytest.mark.parametrize(
    ("credit", "tables", "expected"),
    [
        ({"intra_coef": 0.1}, {}, "credit.intra_coef 0.1 has no effect while "
         "credit.method is 'uniform'"),
        ({"method": "egca", "step_dropout": 0.1}, {"data": {"dataset":
         "mini_programs"}}, "credit.step_dropout 0.1 has no effect while "
         "credit.method is 'egca'"),
        (BILEVEL | {"localization": "last"}, {}, "credit.localization 'last' has no "
         "effect while credit.method is 'bilevel'"),
        (BILEVEL | {"prompt_constraints": True}, {}, "credit.prompt_constraints True"),
        (BILEVEL, {"objective": {"preset": "grpo", "advantage_scale": "none"}},
         "objective.advantage_scale 'none' has no effect"),
        (BILEVEL, {"rewards": {"exact": {}, "steps": {}}},
         "rewards.steps, of kind 'steps' and weight 1.0, would teach nothing"),
        (BILEVEL, {"rewards": {"exact": {"weight": 0.5}}},
         "rewards.exact, of kind 'exact' and weight 0.5, would teach nothing"),
        (BILEVEL, {"objective": {"preset": "grpo", "combine": "normalize_then_sum"}},
         "Bi-Level cannot be combined with GDPO"),
        (BILEVEL, {"dynamic_sampling": {"max_tries": 1}},
         "Bi-Level cannot be combined with dynamic_sampling"),
        (BILEVEL, {"replay": {"method": "groups"}},
         "Bi-Level cannot be combined with replay of groups"),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_cannot_be_is_refused(credit, tables, expected: str):
    assert expected in complaint(credit, **tables)


def test_rewards_may_be_logged_beside():
    rewards = {"exact": {}, "steps": {"weight": 0.0}}
    assert config(rewards=rewards).rewards["steps"].weight == 0.0


def test_supervised_runs_have_no_credit():
    message = complaint(
        run={"mode": "supervised"}, rewards={}, objective={},
        supervised={"stages": [{"name": "one", "num_steps": 10}]},
    )  # fmt: skip
    assert "credit.method 'bilevel' has no effect while run.mode is" in message
