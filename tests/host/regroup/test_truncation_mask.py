"""Which truncated completions lose their advantage."""

import math
from dataclasses import replace

import numpy as np
import pytest

from jaxgrpo.config import Config
from jaxgrpo.host.judge.error_classes import UNCLOSED_CODE_BLOCK
from jaxgrpo.host.records import Group
from jaxgrpo.host.regroup import regroup
from jaxgrpo.host.regroup.truncation_mask import CONDITIONS, TruncationMask, repeats
from jaxgrpo.methods import build_regroupers

from .conftest import rewarded

NUMBER = 4


def cut_off(rewards, **changes) -> Group:
    """A group of completions that ran into the budget; the last one repeats itself."""
    group = rewarded(rewards)
    completions = []
    for place, completion in enumerate(group.completions):
        is_last = place == len(rewards) - 1
        ids = [1, 2] * NUMBER if is_last else range(2 * NUMBER)
        completions.append(
            replace(completion, token_ids=np.array(ids), finish_reason="length")
        )
    return replace(group, completions=tuple(completions), **changes)


def mask(condition: str = "any", probability: float = 1.0) -> TruncationMask:
    return TruncationMask(
        probability=probability, condition=condition, repeat_tokens=2, seed=0
    )


def factors(group: Group) -> list[float]:
    return [score.advantage_factor for score in group.scores]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        # right, wrong, nothing to judge, rewarded in part, repeating
        ("any", [0.0, 0.0, 0.0, 0.0, 1.0]),
        ("correct", [0.0, 1.0, 1.0, 1.0, 1.0]),
        ("incorrect", [1.0, 0.0, 1.0, 1.0, 1.0]),
        ("non_incorrect", [0.0, 1.0, 0.0, 0.0, 1.0]),
    ],
)
def test_the_condition_decides(turn, condition, expected):
    group = cut_off((1.0, 0.0, 0.0, 0.5, 1.0))
    scores = list(group.scores)
    scores[2] = replace(scores[2], error_class=UNCLOSED_CODE_BLOCK)
    (changed,) = mask(condition)([replace(group, scores=tuple(scores))], turn())
    assert factors(changed) == expected
    assert condition in CONDITIONS


def test_rewards_stay_so_that_the_group_keeps_its_statistics(turn):
    group = cut_off((1.0, 0.0, 0.0))
    (changed,) = mask()([group], turn())
    assert [s.rewards for s in changed.scores] == [s.rewards for s in group.scores]


def test_completions_that_ended_are_left_alone(turn):
    (changed,) = mask()([rewarded((1.0, 0.0))], turn())
    assert factors(changed) == [1.0, 1.0]


def test_stored_completions_are_left_alone(turn):
    (changed,) = mask()([cut_off((1.0, 0.0))], turn(policy_step=3))
    assert factors(changed) == [1.0, 1.0]


def test_the_share_is_the_probability(turn):
    """Frequency over steps against the law."""
    number, probability = 1500, 0.1
    method = mask(probability=probability)
    group = cut_off((1.0, 0.0))
    masked = sum(
        factors(method([group], turn(step=step))[0])[0] == 0.0 for step in range(number)
    )
    deviation = math.sqrt(number * probability * (1 - probability))
    assert abs(masked - probability * number) < 4 * deviation


def test_a_step_masks_the_same_again(turn):
    groups = [cut_off((1.0, 0.0, 1.0, 0.0))]
    first, second = (mask(probability=0.5)(groups, turn(step=3))[0] for _ in range(2))
    assert factors(first) == factors(second)


def test_metrics_are_shares_of_completions(turn):
    method = mask()
    method([cut_off((1.0, 0.0, 0.0, 0.0))], turn())
    assert method.metrics() == {
        "truncation_mask/truncated_share": 1.0,
        "truncation_mask/repeating_share": 0.25,
        "truncation_mask/masked_share": 0.75,
    }


def test_repetition_is_exact():
    assert repeats([9, *[1, 2, 3] * 2], 3)
    assert not repeats([1, 2, 3, 1, 2, 4], 3)
    assert not repeats([1, 2, 3, 2, 3], 3)


@pytest.mark.parametrize("method", ["groups", "samples"])
def test_what_is_spared_stays_spared_when_it_is_replayed(turn, method):
    config = Config.model_validate(
        {
            "model": {"checkpoint": "builtin:output_prediction_base"},
            "rewards": {"exact": {}},
            "truncation_mask": {"probability": 1.0, "condition": "any"},
            "sampling": {"group_size": 4},
            "replay": {"method": method}
            | ({"min_stored": 4, "num_replays": 4} if method == "samples" else {}),
        }
    )
    steps = build_regroupers(config)
    first = regroup([cut_off((1.0, 0.0, 0.0, 0.5))], steps, turn())
    assert factors(first[0]) == [0.0, 0.0, 0.0, 0.0]
    dead = rewarded((0.0,) * 4, policy_step=1)
    again = regroup([dead], steps, turn(step=1, policy_step=1))
    (stored,) = [g for g in again if g.completions[0].policy_step == 0]
    assert factors(stored) == [0.0, 0.0, 0.0, 0.0]
