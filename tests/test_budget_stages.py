"""Token budgets that grow while a run trains, in programs of one shape."""

from typing import Any

import jax
import numpy as np
import pytest

from jaxgrpo.config import Config
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.device.sampling.segment import decode_segment
from jaxgrpo.host.records import Completion, Problem
from jaxgrpo.policy import Policy, load_policy
from jaxgrpo.sampling import drawn_groups, training_engine

STAGES = [
    {"num_steps": 2, "max_new_tokens": 3},
    {"num_steps": 1, "max_new_tokens": 6},
]
PROBLEM = Problem(id="p", kind="output", prompt="print(1)", reference="1")


def config_of(**sampling: Any) -> Config:
    return Config.model_validate(
        {
            "model": {
                "preset": "qwen3-tiny",
                "tokenizer": "builtin:output_prediction_tokenizer",
            },
            "rewards": {"exact": {}},
            "prompt": {"max_prompt_tokens": 48},
            "sampling": {
                "problems_per_step": 1,
                "group_size": 8,
                "max_new_tokens": 12,
                "stages": STAGES,
            }
            | sampling,
        }
    )


def test_budget_is_a_function_of_the_step():
    sampling = config_of().sampling
    budgets = [sampling.budget_at(step) for step in range(5)]
    assert budgets == [3, 3, 6, 12, 12]
    assert config_of(stages=[]).sampling.budget_at(0) == 12


def test_stages_are_told_in_a_line():
    assert config_of().sampling.stages_text() == (
        "tokens per completion: 3 up to step 2, 6 up to step 3, then 12."
    )


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ((6, 3), "3 is not more than 6"),
        ((3, 3), "3 is not more than 3"),
        ((3, 12), "12 is not more than 12"),
        ((3, 13), "12 is not more than 13"),
    ],
)
def test_budget_that_does_not_grow_is_refused(budgets: tuple[int, ...], words: str):
    stages = [{"num_steps": 1, "max_new_tokens": budget} for budget in budgets]
    with pytest.raises(ValueError, match=words):
        config_of(stages=stages)


def test_imitation_has_no_stages():
    data = config_of().model_dump()
    data["run"]["mode"] = "supervised"
    data["rewards"] = {}
    for name in ("problems_per_step", "group_size"):
        del data["sampling"][name]
    data["supervised"]["stages"] = [{"name": "a", "num_steps": 1}]
    with pytest.raises(ValueError, match=r"sampling\.stages .* has no effect"):
        Config.model_validate(data)


@pytest.fixture(scope="module")
def policy() -> Policy:
    config = config_of()
    return load_policy(config.model, config.prompt)


def test_a_stage_shortens_completions_and_compiles_nothing(policy: Policy):
    config = config_of()
    params = initial_params(policy.architecture, jax.random.key(0))
    engine = training_engine(config, policy)

    def drawn(budget: int | None) -> tuple[Completion, ...]:
        ((_, group),) = drawn_groups(
            engine, params, policy, [PROBLEM], [policy.encode(PROBLEM)],
            seed=0, purpose=PURPOSE_TRAIN, step=0, temperature=1.0, policy_step=0,
            budget=budget,
        )  # fmt: skip
        return group.completions

    whole = drawn(None)
    num_programs = decode_segment._cache_size()  # type: ignore[attr-defined]
    for step in range(4):
        budget = config.sampling.budget_at(step)
        for completion, full in zip(drawn(budget), whole, strict=True):
            # As the row would have been written anyway, up to its budget.
            np.testing.assert_array_equal(completion.token_ids, full.token_ids[:budget])
            assert completion.budget == budget
            is_cut = len(full.token_ids) > budget
            expected = "length" if is_cut else full.finish_reason
            assert completion.finish_reason == expected
    assert decode_segment._cache_size() == num_programs  # type: ignore[attr-defined]
    assert any(len(completion.token_ids) == 12 for completion in whole)
