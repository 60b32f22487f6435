"""What a run is too short for is told of before it begins."""

from typing import Any

import pytest

from jaxgrpo.config import Config
from jaxgrpo.reach import unreached

REPLAY = {"method": "samples", "min_stored": 16}


def config(num_steps: int = 250, **tables: Any) -> Config:
    return Config.model_validate(
        {
            "model": {"checkpoint": "builtin:output_prediction_base"},
            "rewards": {"exact": {}},
            "run": {"num_steps": num_steps},
            "sampling": {"problems_per_step": 8, "group_size": 8},
        }
        | tables
    )


def test_a_run_without_methods_reaches_everything():
    assert unreached(config(2), 10**6) == []


@pytest.mark.parametrize(
    ("num_problems", "num_steps", "part"),
    [
        # Three visits of a problem: at best at steps 0, 100 and 200.
        (800, 200, "every 100 steps, and replay.min_stored 16 takes 2 visits"),
        (480, 250, "some 120 updates old, and replay.max_staleness is 100. Few"),
    ],
)
def test_replay_that_seldom_comes_is_told_of(num_problems, num_steps, part):
    (text,) = unreached(config(num_steps, replay=REPLAY), num_problems)
    assert part in text
    assert not unreached(config(num_steps, replay=REPLAY), 320)


def test_replay_that_no_length_helps_is_refused():
    run = config(10_000, replay=REPLAY | {"max_staleness": 90})
    with pytest.raises(ValueError, match="at least 100 updates old.*data.num_train"):
        unreached(run, 800)


def test_other_draws_are_not_judged_by_epochs():
    curriculum = {"order": ["easy"]}
    assert not unreached(config(10, replay=REPLAY, curriculum=curriculum), 800)


def test_more_failures_than_visits_are_told_of():
    scaffold = {"tiers": ["knowledge"], "source": "reference", "after_failures": 3}
    run = config(20, scaffold=scaffold)
    assert unreached(run, 79) == []
    (text,) = unreached(run, 80)
    assert "each of the 80 problems comes 2 times at most in 20 steps" in text


def test_a_level_that_never_opens_is_told_of():
    (text,) = unreached(config(4, curriculum={"order": ["easy", "hard"]}), 800)
    assert "min_groups 32 is not less than the 32 groups of 4 steps" in text
    assert not unreached(config(5, curriculum={"order": ["easy", "hard"]}), 800)
