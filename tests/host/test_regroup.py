"""Regroupers are applied in order; without any, groups pass."""

from collections.abc import Callable, Sequence
from typing import Any

from jaxgrpo.host.records import Group
from jaxgrpo.host.regroup import regroup


class Dropping:
    """Leaves out the first group it sees, and remembers how often it was asked."""

    name = "dropping"

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, groups: Sequence[Group]) -> list[Group]:
        self.num_calls += 1
        return list(groups[1:])

    def state_dict(self) -> dict[str, Any]:
        return {"num_calls": self.num_calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_calls = state["num_calls"]


class Doubling(Dropping):
    name = "doubling"

    def __call__(self, groups: Sequence[Group]) -> list[Group]:
        return [group for group in groups for _ in range(2)]


def test_without_regroupers_groups_stay(make_group: Callable[..., Group]):
    groups = (make_group("1", "1"), make_group("2", "3"))
    assert regroup(groups, ()) == list(groups)


def test_regroupers_follow_one_another(make_group: Callable[..., Group]):
    first, second = make_group("1", "1"), make_group("2", "3")
    dropping = Dropping()
    assert regroup([first, second], [dropping, Doubling()]) == [second, second]
    assert regroup([first, second], [Doubling(), dropping]) == [first, second, second]
    assert dropping.state_dict() == {"num_calls": 2}


def test_the_groups_that_were_given_are_not_changed(make_group: Callable[..., Group]):
    groups = [make_group("1", "1")]
    regroup(groups, [Dropping()])
    assert len(groups) == 1
