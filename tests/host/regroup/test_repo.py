"""Samples of earlier steps come back beside those of the same problem."""

import itertools
import json
import math
import warnings
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.records import Score, Span, Verdict
from jaxgrpo.host.regroup.repo import (
    STRATEGIES,
    SampleReplay,
    highest_k,
    max_variance_k,
    recent_k,
)
from jaxgrpo.rollout_table import rollout_rows

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


def test_samples_come_back_next_to_their_problem(turn):
    """So that minibatches of neighbours hold new and stored rows."""
    method = replay(num_replays=2, min_stored=2)
    groups = [rewarded((1.0, 0.0), "a"), rewarded((0.0, 1.0), "b")]
    method(groups, turn())
    again = method(groups, turn(step=1))
    assert [group.problem.id for group in again] == ["a", "a", "b", "b"]


def test_samples_that_abstain_take_no_places(turn):
    method = replay(min_stored=2, max_stored=2)
    method([rewarded((1.0, 0.0, math.nan))], turn())
    assert method.metrics()["replay/stored_samples"] == 2.0
    again = method([rewarded((0.0, 0.0))], turn(step=1))
    assert [rewards_of(group) for group in again] == [[0.0, 0.0], [1.0, 0.0]]


def test_a_step_that_could_not_be_judged_has_no_reward_and_no_warning(turn):
    method = replay()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method([rewarded((math.nan, math.nan))], turn())
    assert method.metrics()["replay/online_reward"] == 0.0


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


def test_stale_samples_of_all_problems_are_dropped(turn):
    """Also of problems that do not come up: a checkpoint holds what is stored."""
    method = replay(max_staleness=3, max_stored=16)
    method([rewarded((1.0, 0.0), "old"), rewarded((1.0, 0.0), "seen")], turn())
    late = rewarded((1.0, 0.0), "seen", policy_step=2)
    method([late], turn(step=1, policy_step=2))
    method([rewarded((0.0,), "new", policy_step=4)], turn(step=2, policy_step=4))
    assert method.metrics()["replay/stored_problems"] == 2.0
    assert method.metrics()["replay/stored_samples"] == 3.0
    assert sorted(method.state_dict()) == ["new", "seen"]


def long_sample(num_tokens: int, top_k: int):
    """A group of one completion under top-k sampling, of a large vocabulary."""
    rng = np.random.default_rng(0)
    group = rewarded((1.0,))
    ends = np.cumsum(rng.integers(1, 9, num_tokens)).astype(np.int32)
    completion = replace(
        group.completions[0],
        token_ids=rng.integers(0, 151_643, num_tokens).astype(np.int32),
        text="x = 1;" * (ends[-1] // 6),
        token_offsets=np.stack([np.append(0, ends[:-1]), ends], axis=1).astype("i4"),
        sampler_logprobs=np.log(rng.random(num_tokens)).astype(np.float32),
        kept_ids=rng.integers(0, 151_643, (num_tokens, top_k)).astype(np.int32),
    )
    if not top_k:
        completion = replace(completion, kept_ids=None)
    return replace(group, completions=(completion,))


@pytest.mark.parametrize(("top_k", "most"), [(50, 72_000), (0, 8_000)])
def test_a_stored_sample_is_packed(turn, top_k, most):
    """Its ids are drawn at random here, which nothing can compress further."""
    group = long_sample(400, top_k)
    method = replay(min_stored=1)
    method([group], turn())
    size = len(json.dumps(method.state_dict()))
    told = 1e6 * method.metrics()["replay/stored_mb"]
    assert told < size < most and size - told < 1_000
    _, again = method([group], turn(step=1))
    (ours,), (theirs,) = again.completions, group.completions
    for field in fields(theirs):
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        np.testing.assert_array_equal(one, other, strict=isinstance(one, np.ndarray))


def test_a_replayed_sample_has_its_rows_in_the_table_of_rollouts(turn):
    group = long_sample(8, 2)
    score = Score(
        rewards={"exact": 1.0},
        verdict=Verdict(status="OK", error_class="exact", extracted="1", detail="x"),
        error_class="exact",
        extracted="1",
        spans=(Span(start=0, end=1, label="answer"),),
        extra={"x": 1.0},
        timings={"judge": 1.0},
        logged={"y": 1.0},
    )
    group = replace(group, scores=(score,))
    method = replay(min_stored=1)
    method([group], turn())
    kept = json.dumps(method.state_dict()["p"]["scores"])
    assert "logged" in kept and "judge" not in kept
    _, again = method([group], turn(step=1))
    left_out = ["extra", "timings"]
    ours, theirs = (rollout_rows(0, [g]).drop_columns(left_out) for g in (again, group))
    assert ours.equals(theirs)


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
