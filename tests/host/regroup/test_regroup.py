"""Regroupers are applied in order; without any, groups pass."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jaxgrpo.host.records import Group, Score
from jaxgrpo.host.regroup import Turn, left_out, regroup, regroup_metrics

TURN = Turn(
    step=0,
    num_steps=1,
    policy_step=0,
    weights={"exact": 1.0},
    draw=lambda asks, num_samples: [],
    next_problems=lambda number: [],
)


class Dropping:
    """Leaves out the first group it sees, and remembers how often it was asked."""

    name = "dropping"

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        self.num_calls += 1
        return list(groups[1:])

    def metrics(self) -> dict[str, float]:
        return {self.name: float(self.num_calls)}

    def state_dict(self) -> dict[str, Any]:
        return {"num_calls": self.num_calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_calls = state["num_calls"]


class Doubling(Dropping):
    name = "doubling"

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        return [group for group in groups for _ in range(2)]


def test_without_regroupers_groups_stay(make_group: Callable[..., Group]):
    groups = (make_group("1", "1"), make_group("2", "3"))
    assert regroup(groups, (), TURN) == list(groups)


def test_regroupers_follow_one_another(make_group: Callable[..., Group]):
    first, second = make_group("1", "1"), make_group("2", "3")
    dropping = Dropping()
    both = [first, second]
    assert regroup(both, [dropping, Doubling()], TURN) == [second, second]
    assert regroup(both, [Doubling(), dropping], TURN) == [first, second, second]
    assert dropping.state_dict() == {"num_calls": 2}
    assert regroup_metrics([dropping, Doubling()]) == {"dropping": 2.0, "doubling": 0.0}


def test_the_groups_that_were_given_are_not_changed(make_group: Callable[..., Group]):
    groups = [make_group("1", "1")]
    regroup(groups, [Dropping()], TURN)
    assert len(groups) == 1


def test_what_is_left_out_is_told_completion_by_completion(
    make_group: Callable[..., Group],
):
    first, second = make_group("1", "1", "2"), make_group("2", "3", problem_id="q")
    first, second = (
        replace(
            group,
            completions=tuple(
                replace(completion, sample=sample)
                for sample, completion in enumerate(group.completions)
            ),
            scores=tuple(Score(rewards={}) for _ in group.completions),
        )
        for group in (first, second)
    )
    halved = replace(first, completions=first.completions[:1], scores=first.scores[:1])
    (rest,) = left_out([first, second], [halved, second])
    assert rest.completions == first.completions[1:] and len(rest.scores) == 1
    assert left_out([first, second], [second, first]) == []
    assert left_out([first], []) == [first]
