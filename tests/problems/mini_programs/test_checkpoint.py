"""The shipped base model writes programs, most right and some careless."""

from typing import Any

import pytest

from jaxgrpo.config import Config
from jaxgrpo.evaluate import Evaluation, evaluate
from jaxgrpo.policy import initial_weights, load_policy
from jaxgrpo.scorer_setup import build_scorer


@pytest.fixture(scope="module")
def evaluation(load_mini_split) -> Evaluation:
    """Greedy results on a small test split."""
    tables: dict[str, Any] = {
        "model": {"checkpoint": "builtin:mini_programs_base", "unroll_layers": True},
        "data": {"dataset": "mini_programs"},
        "prompt": {"max_prompt_tokens": 64},
        "sampling": {"max_new_tokens": 56},
        "scorer": {"extraction": "raw", "num_workers": 1},
        "rewards": {"tests": {}},
        "evaluation": {"batch_problems": 8, "samples_per_problem": 8},
    }
    config = Config.model_validate(tables)
    policy = load_policy(config.model, config.prompt)
    with build_scorer(config.scorer, ["tests"]) as scorer:
        return evaluate(
            initial_weights(policy, config),
            policy,
            load_mini_split("test"),
            scorer,
            config,
            step=0,
            with_samples=False,
        )


def test_all_prompts_fit(evaluation):
    assert evaluation["dropped_prompts"] == 0


def test_it_solves_most_problems_and_not_all(evaluation):
    # 67 % of the large split; four standard errors of 40 problems to either side.
    assert 0.37 < evaluation["exact_match"]["value"] < 0.97


def test_it_ends_its_programs(evaluation):
    assert evaluation["clipped_ratio"]["value"] < 0.05
    assert 15 < evaluation["mean_length"]["value"] < 45
