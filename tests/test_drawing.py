"""What a step draws: which problems come next, and how many may fail to be scored."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jaxgrpo.config import Config
from jaxgrpo.drawing import Drawing
from jaxgrpo.host.curriculum import Curriculum
from jaxgrpo.host.records import Group, Problem, Score, Verdict
from jaxgrpo.step_metrics import Counters

CHECKPOINT = {"checkpoint": "builtin:output_prediction_base"}
NUM_PROBLEMS = 8
PROBLEMS = [
    Problem(id=str(n), kind="output", prompt="", reference="1", tags={"level": "easy"})
    for n in range(NUM_PROBLEMS)
]
SOLVED = Score(
    rewards={"exact": 1.0}, verdict=Verdict(status="OK", error_class="exact")
)
LOST = Score(
    rewards={"exact": math.nan}, verdict=Verdict(status="INFRA", error_class="infra")
)


def config(**tables: Any) -> Config:
    return Config.model_validate(
        {"model": CHECKPOINT, "rewards": {"exact": {}}} | tables
    )


def group_of(*scores: Score) -> Group:
    return Group(problem=PROBLEMS[0], prompts=(), completions=(), scores=scores)


def drawing(curriculum: Curriculum, *, num_tokens: int = 3) -> Any:
    """As much of one as choosing problems needs; all prompts have `num_tokens`."""
    return SimpleNamespace(
        config=config(prompt={"max_prompt_tokens": 16}),
        policy=SimpleNamespace(
            encode=lambda problem: SimpleNamespace(token_ids=np.zeros(num_tokens))
        ),
        problems=((problem,) for problem in itertools.cycle(PROBLEMS)),
        num_available=NUM_PROBLEMS,
        curriculum=curriculum,
        counters=Counters(),
        asked=lambda problem: problem,
    )


def nearly_solved(seed: int = 0) -> Curriculum:
    """A level whose problems are taken once in twenty times."""
    curriculum = Curriculum(
        tag="level", order=["easy"], min_groups=1, floor=0.05, seed=seed
    )
    curriculum.observe([group_of(SOLVED, SOLVED)])
    return curriculum


@pytest.mark.parametrize("seed", range(3))
def test_problems_that_wait_for_their_turn_are_not_too_long(seed: int):
    """A whole pass goes by without one, in two of three cases: no reason to stop."""
    problems, prompts = Drawing.next_prompts(drawing(nearly_solved(seed)), 6)
    assert len(problems) == len(prompts) == 6


def test_prompts_that_are_all_too_long_stop_the_run():
    with pytest.raises(ValueError, match="none of the 8 training prompts fits"):
        Drawing.next_prompts(drawing(nearly_solved(), num_tokens=17), 1)


def test_one_lost_row_of_a_request_does_not_stop_a_run():
    """What is drawn on request may be one row: it counts with the whole step."""
    step: Any = SimpleNamespace(config=config(), requested=[group_of(LOST)])
    Drawing.require_scored(step, [group_of(SOLVED, SOLVED)])
    step.requested = [group_of(LOST)] * 3
    with pytest.raises(RuntimeError, match="60% of 5 rows"):
        Drawing.require_scored(step, [group_of(SOLVED, SOLVED)])


def test_rewards_of_a_group_are_not_given_to_a_hinted_completion_alone():
    scaffold = {"tiers": ["knowledge"], "source": "reference"}
    for name in ("empo", "ttrl"):
        with pytest.raises(ValueError, match=r"a hinted.*scaffold.tiers=\[\]"):
            config(
                rewards={"exact": {}, name: {}},
                scaffold=scaffold,
                evaluation={"every_steps": 5},
            )
