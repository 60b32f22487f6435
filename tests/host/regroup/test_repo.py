"""Samples of earlier steps come back beside those of the same problem."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.regroup.repo import (
    STRATEGIES,
    SampleReplay,
    highest_k,
    max_variance_k,
    recent_k,
)

from .conftest import rewarded, rewards_of

ANY = np.random.default_rng(0)


def replay(**changes) -> SampleReplay:
    settings = {
        "strategy": "highest", "num_replays": 2, "min_stored": 2, "max_stored": 4,
        "is_mixed": False, "factor": 1.0, "max_staleness": 100, "seed": 0,
    }  # fmt: skip
    return SampleReplay(**(settings | changes))


def test_no_sample_of_this_step_comes_back(turn):
    method = replay(min_stored=1)
    groups = [rewarded((1.0, 0.0))]
    assert method(groups, turn()) == groups
    again = method(groups, turn(step=1))
    assert [rewards_of(group) for group in again] == [[1.0, 0.0], [1.0, 0.0]]


def test_a_problem_replays_its_own_samples_only(turn):
    method = replay()
    method([rewarded((1.0, 0.0), "a")], turn())
    changed = method([rewarded((0.0, 0.0), "b")], turn(step=1))
    assert len(changed) == 1


def test_a_sample_drawn_under_a_hint_is_not_stored(turn):
    """Its prompt is another one, of which there may be many: the update has no room."""
    group = rewarded((1.0, 0.0, 0.5))
    (prompt,), last = group.prompts, group.completions[-1]
    hinted = replace(
        group,
        prompts=(prompt, replace(prompt, variant="hint-1")),
        completions=(*group.completions[:-1], replace(last, prompt_variant="hint-1")),
    )
    method = replay(strategy="all")
    method([hinted], turn())
    _, stored = method([group], turn(step=1))
    assert rewards_of(stored) == [1.0, 0.0]
    assert [p.variant for p in stored.prompts] == [""]


def test_too_few_stored_samples_are_left_alone(turn):
    method = replay(min_stored=3)
    group = rewarded((1.0, 0.0))
    method([group], turn())
    assert len(method([group], turn(step=1))) == 1
    assert len(method([group], turn(step=2))) == 2


def test_the_oldest_make_room(turn):
    method = replay(max_stored=3, strategy="all", min_stored=1)
    method([rewarded((0.1, 0.2))], turn())
    method([rewarded((0.3, 0.4))], turn(step=1))
    changed = method([rewarded((0.5, 0.6))], turn(step=2))
    assert rewards_of(changed[1]) == [0.2, 0.3, 0.4]


def test_mixed_samples_join_the_group_with_their_factor(turn):
    method = replay(is_mixed=True, factor=0.5)
    method([rewarded((1.0, 0.0))], turn())
    (changed,) = method([rewarded((0.0, 0.0))], turn(step=1, policy_step=4))
    assert rewards_of(changed) == [0.0, 0.0, 1.0, 0.0]
    assert [s.advantage_factor for s in changed.scores] == [1.0, 1.0, 0.5, 0.5]
    assert len(changed.prompts) == 1
    assert method.metrics()["replay/mean_age"] == 4.0
    assert method.metrics()["replay/online_reward"] == 0.0


def test_samples_that_abstained_are_not_replayed(turn):
    method = replay(min_stored=1)
    method([rewarded((math.nan, 1.0))], turn())
    changed = method([rewarded((0.0, 0.0))], turn(step=1))
    assert rewards_of(changed[1]) == [1.0]


def test_stale_samples_are_dropped(turn):
    method = replay(max_staleness=3)
    method([rewarded((1.0, 0.0))], turn())
    assert len(method([rewarded((0.0, 0.0), policy_step=4)], turn(policy_step=4))) == 1


def test_a_saved_store_goes_on_bit_for_bit(turn):
    first, second = replay(strategy="random"), replay(strategy="random")
    for step in range(3):
        first([rewarded((0.1 * step, 0.0))], turn(step=step))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    group = rewarded((0.0, 1.0))
    ours, theirs = (method([group], turn(step=3)) for method in (first, second))
    assert rewards_of(ours[1]) == rewards_of(theirs[1])
    assert first.state_dict() == second.state_dict()


def test_the_highest_are_the_earliest_of_the_highest():
    totals = np.array([0.5, 1.0, 0.0, 1.0, 1.0])
    assert highest_k(totals, 2, ANY) == [1, 3]
    assert recent_k(totals, 2, ANY) == [3, 4]


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9), st.data()
)
def test_the_largest_variance_is_that_of_an_exhaustive_search(rewards, data):
    number = data.draw(st.integers(1, len(rewards)))
    totals = np.array(rewards)
    chosen = totals[max_variance_k(totals, number, ANY)]
    subsets = [
        totals[list(c)] for c in itertools.combinations(range(len(totals)), number)
    ]
    best = max(subset.var() for subset in subsets)
    assert chosen.var() == pytest.approx(best, abs=1e-12)
    tied = [s.sum() for s in subsets if s.var() == pytest.approx(best, abs=1e-12)]
    assert chosen.sum() == pytest.approx(max(tied))


@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.lists(st.floats(0, 1), min_size=1),
    st.data(),
)
def test_every_strategy_takes_different_samples(name, rewards, data):
    number = data.draw(st.integers(1, len(rewards)))
    places = STRATEGIES[name](np.array(rewards), number, np.random.default_rng(1))
    assert (
        len(set(places)) == len(places) == (len(rewards) if name == "all" else number)
    )
    assert all(0 <= place < len(rewards) for place in places)
