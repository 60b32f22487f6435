"""What the shipped recipes pay for: their variants, on answers made by hand."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config, shipped_configs
from jaxgrpo.device.objective.presets import PRESETS
from jaxgrpo.host.rewards import load_reward
from jaxgrpo.host.rewards.gate import gated
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.reward_setup import reward_gates, reward_specs, reward_weights
from tests.host.rewards.groups import completion, of_literals, of_programs, of_tests
from tests.test_recipes import header_of, named_overrides

Counted = dict[str, list[float]]


def variant(name: str, *marks: str, without: str = "nothing") -> Config:
    """A shipped configuration with the overrides of its header that have all marks."""
    path = shipped_configs()[name]
    if not marks:
        return load_config(path)
    for overrides in named_overrides(header_of(name)):
        text = " ".join(overrides)
        if all(mark in text for mark in marks) and without not in text:
            return load_config(path, overrides)
    raise AssertionError(f"{name}: no variant with {marks}")


def counted(config: Config, judged: Judged) -> Counted:
    """Each reward of a configuration as it counts, before its weight."""
    specs = reward_specs(config.rewards)
    values = {spec.name: load_reward(spec)(judged) for spec in specs}
    gates = reward_gates(config.rewards)
    rows = [
        gated({name: column[row] for name, column in values.items()}, gates)
        for row in range(len(judged.verdicts))
    ]
    return {name: [row[name] for row in rows] for name in values}


def totals(config: Config, judged: Judged, step: int) -> Sequence[float]:
    """The weighted sums with which a step's advantages are made."""
    weights = reward_weights(config).at(step)
    columns = counted(config, judged)
    parts_RB = [weights[name] * np.array(columns[name]) for name in columns]
    return np.sum(parts_RB, axis=0).tolist()


# Pass rates

PASSED = ("++++", "+++-", "+---", "+---", "----")
PASS_RATE_RECIPES = ("passrate_qwen3_4b", "methods/pass_rate")


def transcribed_reweighting(rows: Sequence[str]) -> np.ndarray:
    """Weight of a test: 1 - success rate in the group, normalised to a sum of 1."""
    passed_GJ = np.array([[mark == "+" for mark in row] for row in rows], np.float64)
    weights_J = 1.0 - passed_GJ.mean(axis=0)
    return passed_GJ @ (weights_J / weights_J.sum())


EXPECTED = {
    "binary": [1.0, 0.0, 0.0, 0.0, 0.0],
    "pass_rate": [1.0, 0.75, 0.25, 0.25, 0.0],
    # Passed by 4, 2, 2 and 1 of 5: weights 1, 3, 3 and 4 elevenths.
    "reweighted": [1.0, 7 / 11, 1 / 11, 1 / 11, 0.0],
}


@pytest.mark.parametrize("name", PASS_RATE_RECIPES)
@pytest.mark.parametrize("mode", EXPECTED)
def test_pass_rate_variants_earn_what_they_should(name: str, mode: str):
    marks = () if mode == "binary" else (f"tests.mode={mode}",)
    config = variant(name, *marks)
    for step in (0, config.run.num_steps - 1):
        found = totals(config, of_tests(*PASSED), step)
        assert found == pytest.approx(EXPECTED[mode], abs=1e-15)


def test_reweighting_is_that_of_its_transcription():
    config = variant("passrate_qwen3_4b", "mode=reweighted")
    found = totals(config, of_tests(*PASSED), 0)
    np.testing.assert_allclose(found, transcribed_reweighting(PASSED), rtol=1e-14)
    np.testing.assert_allclose(found, EXPECTED["reweighted"], rtol=1e-14)


@pytest.mark.parametrize("name", PASS_RATE_RECIPES)
def test_two_stages_change_at_their_step(name: str):
    config = variant(name, "dense.mode=pass_rate")
    change = config.run.num_steps // 2
    for step, mode in (
        (0, "pass_rate"), (change - 1, "pass_rate"), (change, "binary"),
        (config.run.num_steps - 1, "binary"),
    ):  # fmt: skip
        assert totals(config, of_tests(*PASSED), step) == EXPECTED[mode], step


def test_pass_rate_recipe_has_the_numbers_of_its_source():
    config = variant("passrate_qwen3_4b")
    sampling, objective = config.sampling, config.objective
    assert (sampling.problems_per_step, sampling.group_size) == (64, 16)
    assert (config.run.num_steps, config.optimizer.learning_rate) == (768, 1e-6)
    assert (sampling.temperature, objective.kl_coef) == (1.0, 0.0)
    # Strictly on-policy: one update of each batch.
    assert objective.minibatches == objective.updates_per_rollout == 1
    assert config.evaluation.pass_at == (1, 4, 8, 16)
    assert not config.scorer.stop_at_failure


# Tests and Ruff

UNUSED, CLEAN, BROKEN, EMPTY = "import os\n", "x = 1\n", "x = (\n", ""
RUFF_RECIPES = (
    "mbpp_qwen3_0.6b_ruff",
    "mbpp_llama3.2_1b_ruff",
    "methods/tests_and_ruff",
)


@pytest.mark.parametrize("name", RUFF_RECIPES)
def test_ruff_recipes_earn_what_they_should(name: str):
    # All fail their tests. F401 is of severity 2 of 10, once.
    judged = of_programs(CLEAN, UNUSED, BROKEN, EMPTY)
    lint = np.array([0.0, -0.2, -1.0, -1.0])
    assert totals(variant(name), judged, 0) == pytest.approx(0.2 * lint)
    assert totals(variant(name, "ruff.weight=0"), judged, 0) == [0.0] * 4
    alone = totals(variant(name, "tests.weight=0"), judged, 0)
    assert alone == pytest.approx(0.2 * lint)
    behind = counted(variant(name, "as_credit=true"), judged)
    assert behind["ruff"] == [0.0] * 4


@pytest.mark.parametrize("name", RUFF_RECIPES)
def test_gspo_of_the_ruff_study_has_its_clips_and_several_updates(name: str):
    config = variant(name, "preset=gspo")
    objective = PRESETS[config.objective.preset].objective
    assert config.objective.clip_low == config.objective.clip_high == "preset"
    assert (objective.clip_low, objective.clip_high) == (3e-4, 4e-4)
    assert objective.ratio_level == "sequence"
    assert config.objective.minibatches == 4
    assert config.lora.rank > 0


# Gated shaping

GATED = "methods/gated_shaping"
# By how much is right: no literal, wrong values, one value in three spellings.
TABLE = of_literals(
    "[1, True]",
    "It is [1, True]", "", "[1, 1]", "[]", "[1,\nTrue,]", "[1,True]", "[1, True]",
)  # fmt: skip
RUNGS = np.array([0, 0, 1, 1, 2, 2, 3])


def is_ordered(values: Sequence[float]) -> bool:
    """Whether a higher rung always earns more, and strictly so."""
    pairs = [(i, j) for i in range(7) for j in range(7) if RUNGS[i] < RUNGS[j]]
    return all(values[i] < values[j] for i, j in pairs)


def of_the_spec(rung: int, alike: float) -> float:
    """0 without exactly one literal, 0.1 + 0.6 and up to 0.2 by the value, 1 exact."""
    if rung == 3:
        return 1.0
    is_right = rung == 2
    return 0.0 if rung == 0 else 0.1 + 0.6 * is_right + 0.2 * alike * is_right


def test_dense_phase_earns_the_heights_of_the_ladder():
    # Ratcliff and Metzener, by hand: 2 M / (sum of lengths) with M the characters of
    # the longest common runs: "[1," "True" "]" of 10 and 9; all of 8 and 9.
    alike = [0, 0, 0, 0, 2 * 8 / 19, 2 * 8 / 17, 1]
    expected = [of_the_spec(r, a) for r, a in zip(RUNGS, alike, strict=True)]
    assert totals(variant(GATED), TABLE, 0) == pytest.approx(expected)


@pytest.mark.parametrize("step", [0, 9, 10, 11, 20, 29])
def test_order_is_strict_while_there_is_any_shaping(step: int):
    assert is_ordered(totals(variant(GATED), TABLE, step))


def test_transition_is_the_mean_of_both_ends():
    config = variant(GATED)
    first, middle, last = (np.array(totals(config, TABLE, s)) for s in (0, 20, 30))
    np.testing.assert_allclose(middle, (first + last) / 2, rtol=1e-12)


@pytest.mark.parametrize("step", [30, 39])
def test_sparse_phase_pays_for_the_exact_answer_alone(step: int):
    assert totals(variant(GATED), TABLE, step) == [0.0] * 6 + [1.0]


def test_switch_at_a_step_leaves_no_transition():
    config = variant(GATED, "shape=switch", without="when=")
    assert totals(config, TABLE, 9) == totals(variant(GATED), TABLE, 0)
    assert totals(config, TABLE, 10) == [0.0] * 6 + [1.0]


def test_switch_waits_until_literals_are_the_rule():
    weights = reward_weights(variant(GATED, "falling=true"))
    dense = {"protocol": 0.0, "dense": 1.0, "exact": 0.0}
    sparse = {"protocol": 0.0, "dense": 0.0, "exact": 1.0}
    for step, share in enumerate((0.3, 0.03, 0.0201), start=1):
        assert weights.observe(step, {"error_class/not_one_literal": share}) == []
        assert weights.at(step) == dense
    told = weights.observe(4, {"error_class/not_one_literal": 0.02})
    assert told == ["dense", "exact"]
    assert weights.at(4) == sparse
    # And stays, though the share rises again.
    assert weights.observe(5, {"error_class/not_one_literal": 0.5}) == []
    assert weights.at(5) == sparse


def test_looks_earn_nothing_without_the_form():
    config = variant(GATED, "kind=similarity")
    found = counted(config, TABLE)
    assert found["protocol"] == [0.0, 0.0] + [1.0] * 5
    assert found["dense"][:2] == [0.0, 0.0] and min(found["dense"][2:]) > 0.0


def test_gate_of_the_ladder_is_the_protocol():
    # The same answers earn nothing with the gate and without it.
    config = variant(GATED)
    free = config.rewards["dense"].model_copy(update={"gate": ""})
    ungated = config.model_copy(update={"rewards": config.rewards | {"dense": free}})
    assert counted(config, TABLE) == counted(ungated, TABLE)


def test_programs_that_pass_earn_nothing_without_the_form():
    config = load_config(
        shipped_configs()["passrate_qwen3_4b"],
        ["rewards.protocol.kind=format", "rewards.protocol.weight=0",
         "rewards.tests.mode=pass_rate", "rewards.tests.gate=protocol"],
    )  # fmt: skip
    block = "```python\nprint(1)\n```\n"
    texts = (block, block + block, "print(1)", "```python\nprint(\n```\n")
    judged = replace(
        of_tests("++", "++", "++", "+-"), completions=tuple(map(completion, texts))
    )
    assert totals(config, judged, 0) == [1.0, 0.0, 0.0, 0.0]
