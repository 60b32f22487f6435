"""Dead groups make room for stored live ones."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from jaxgrpo.host.regroup.group_replay import GroupReplay

from .conftest import rewarded, rewards_of

LIVE, DEAD = (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)


def replay(capacity: int = 4, max_staleness: int = 100, seed: int = 0) -> GroupReplay:
    return GroupReplay(capacity=capacity, max_staleness=max_staleness, seed=seed)


def ids(groups) -> list[str]:
    return [group.problem.id for group in groups]


def test_an_empty_buffer_leaves_everything(turn):
    groups = [rewarded(DEAD, "a"), rewarded(LIVE, "b")]
    method = replay()
    assert method(groups, turn()) == groups
    assert method.metrics()["replay/replaced_groups"] == 0.0
    assert method.metrics()["replay/stored_groups"] == 1.0


def test_dead_groups_alone_are_replaced(turn):
    method = replay()
    method([rewarded(LIVE, "old")], turn())
    batch = [rewarded(LIVE, "new"), rewarded(DEAD, "dead"), rewarded(LIVE, "newer")]
    changed = method(batch, turn(step=1, policy_step=3))
    assert ids(changed) == ["new", "old", "newer"]
    assert rewards_of(changed[1]) == list(LIVE)
    assert changed[1].completions[0].policy_step == 0
    assert method.metrics()["replay/mean_age"] == 3.0


def test_groups_are_tested_one_by_one(turn):
    """The source's own code took the batch's largest reward for every group's."""
    method = replay()
    method([rewarded(LIVE, "old")], turn())
    batch = [rewarded(DEAD, "dead"), rewarded((1.0, 1.0, 1.0, 1.0), "solved")]
    changed = method(batch, turn(step=1))
    assert sorted(ids(changed)).count("old") == 1
    assert len(changed) == 2
    assert method.metrics()["replay/stored_groups"] == 1.0


def test_too_few_stored_groups_replace_as_many_as_there_are(turn):
    method = replay()
    method([rewarded(LIVE, "old")], turn())
    batch = [rewarded(DEAD, name) for name in "abc"]
    assert Counter(ids(method(batch, turn(step=1)))) == Counter(["old", "b", "c"])


def test_the_lowest_score_makes_room_and_ties_do_no_harm(turn):
    method = replay(capacity=2)
    weak, strong = (0.6, 0.5), (1.0, 0.0)
    method([rewarded(weak, f"weak{i}") for i in range(5)], turn())
    method([rewarded(strong, f"strong{i}") for i in range(4)], turn(step=1))
    method.load_state_dict(json.loads(json.dumps(method.state_dict())))
    batch = [rewarded((0.0, 0.0), "a"), rewarded((0.0, 0.0), "b")]
    found = ids(method(batch, turn(step=2)))
    assert sorted(found) == ["strong0", "strong1"]


def test_old_groups_are_dropped(turn):
    method = replay(max_staleness=5)
    method([rewarded(LIVE, "old")], turn())
    batch = [rewarded(DEAD, "dead")]
    assert ids(method(batch, turn(step=1, policy_step=5))) == ["old"]
    assert ids(method(batch, turn(step=2, policy_step=6))) == ["dead"]
    assert method.metrics()["replay/dropped_stale"] == 1.0


def test_stored_groups_are_scored_under_the_weights_of_the_step(turn):
    """As when a schedule moves from a dense reward to a sparse one."""

    def of_both(dense: float, sparse: float, name: str):
        group = rewarded((dense, 0.0), name)
        first, other = group.scores
        scores = (
            replace(first, rewards={"dense": dense, "sparse": sparse}),
            replace(other, rewards={"dense": 0.0, "sparse": 0.0}),
        )
        return replace(group, scores=scores)

    method = replay(capacity=2)
    dense, sparse = ({"dense": 1.0, "sparse": 0.0}, {"dense": 0.0, "sparse": 1.0})
    method([of_both(1.0, 0.0, "a"), of_both(0.5, 1.0, "b")], turn(weights=dense))
    batch = [of_both(0.0, 0.0, "dead0"), of_both(0.0, 0.0, "dead1")]
    assert ids(method(batch, turn(step=1, weights=sparse))) == ["b", "dead1"]
    assert method.metrics()["replay/stored_groups"] == 2.0
    back = ids(method(batch, turn(step=2, weights=dense)))
    assert sorted(back) == ["a", "b"]
    # What is dead under the present weights is the first to make room.
    method([of_both(0.1, 0.1, "c")], turn(step=3, weights=sparse))
    assert sorted(ids(method(batch, turn(step=4, weights=sparse)))) == ["b", "c"]


def test_rounding_makes_no_stored_group_alive(turn):
    """The mean of three times 0.1 is not 0.1, so that the spread is not quite 0."""
    group = rewarded((1.0, 0.0, 0.0))
    scores = [replace(s, rewards=s.rewards | {"same": 0.1}) for s in group.scores]
    group = replace(group, scores=tuple(scores))
    method = replay()
    method([group], turn(weights={"exact": 1.0, "same": 0.0}))
    changed = method(
        [replace(rewarded((0.0,) * 3, "dead"), scores=(scores[1],) * 3)],
        turn(step=1, weights={"exact": 0.0, "same": 1.0}),
    )
    assert ids(changed) == ["dead"]


def test_groups_that_abstain_are_never_stored(turn):
    method = replay()
    method([rewarded((math.nan, math.nan), "none")], turn())
    assert method.metrics()["replay/stored_groups"] == 0.0


def test_draws_follow_the_scores(turn):
    """Frequencies against the law p_i = score_i / sum of scores."""
    counts: Counter[str] = Counter()
    method = replay()
    method([rewarded((1.0, 0.0), "big"), rewarded((0.25, 0.0), "small")], turn())
    number = 400
    for step in range(number):
        counts.update(ids(method([rewarded((0.0, 0.0), "dead")], turn(step=step + 1))))
    expected = 0.8 * number
    deviation = math.sqrt(number * 0.8 * 0.2)
    assert abs(counts["big"] - expected) < 4 * deviation


def test_a_saved_buffer_goes_on_bit_for_bit(turn):
    first, second = replay(), replay()
    groups = [rewarded((float(i), 0.0), f"p{i}") for i in range(1, 4)]
    first(groups, turn())
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    batch = [rewarded((0.0, 0.0), name) for name in "ab"]
    ours, theirs = (m(batch, turn(step=7, policy_step=2)) for m in (first, second))
    assert ids(ours) == ids(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one.completions, other.completions, strict=True):
            np.testing.assert_array_equal(a.sampler_logprobs, b.sampler_logprobs)
            np.testing.assert_array_equal(a.token_ids, b.token_ids)
            assert a.text == b.text and a.policy_step == b.policy_step
        assert one.scores == other.scores
    assert first.state_dict() == second.state_dict()


@pytest.mark.parametrize("step", [0, 1, 12])
def test_a_step_draws_the_same_again(turn, step):
    def drawn() -> list[str]:
        method = replay()
        method([rewarded((float(i), 0.0), f"p{i}") for i in range(1, 4)], turn())
        return ids(method([rewarded((0.0, 0.0), "dead")], turn(step=step)))

    assert drawn() == drawn()
