"""The weakest hint that helps revives a group whose samples are all wrong."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jaxgrpo.host.records import Group, Prompt
from jaxgrpo.host.regroup import Ask
from jaxgrpo.host.regroup.scaffold import Scaffold

from .conftest import rewarded, rewards_of

TIERS = ("knowledge", "knowledge", "planning", "solution")


def hinted(rewards: Sequence[float], problem_id: str = "p", number: int = 4) -> Group:
    group = rewarded(rewards, problem_id)
    hints = tuple(f"hint {i}" for i in range(number))
    problem = replace(group.problem, hints=hints, hint_tiers=TIERS[:number])
    return replace(group, problem=problem)


class Helper:
    """Draws one sample a hint; right from a level on."""

    def __init__(self, right_from: int):
        self._right_from = right_from
        self.asks: list[Ask] = []

    def __call__(self, asks: Sequence[Ask], num_samples: int) -> list[Group]:
        assert num_samples == 1
        self.asks += asks
        return [self._drawn(ask) for ask in asks]

    def _drawn(self, ask: Ask) -> Group:
        level = int(ask.variant.removeprefix("hint-"))
        reward = float(level >= self._right_from)
        group = rewarded([reward], ask.problem.id, draw=ask.draw)
        prompt = Prompt(
            problem_id=ask.problem.id, variant=ask.variant, text=ask.variant,
            token_ids=np.arange(4, dtype="i4"),
        )  # fmt: skip
        (completion,) = group.completions
        return replace(
            group,
            problem=ask.problem,
            prompts=(prompt,),
            completions=(replace(completion, prompt_variant=ask.variant),),
        )


def scaffold(**changes) -> Scaffold:
    settings: dict[str, Any] = {"exempt_share": 0.15} | changes
    return Scaffold(**settings)


def test_nothing_happens_while_the_policy_is_exempt(turn):
    helper = Helper(right_from=1)
    groups = [hinted((0.0, 0.0))]
    method = scaffold()
    assert method(groups, turn(step=14, draw=helper)) == groups
    assert not helper.asks
    assert method(groups, turn(step=15, draw=helper)) != groups


def test_the_weakest_hint_that_helps_replaces_the_last_failure(turn):
    helper = Helper(right_from=3)
    method = scaffold()
    (revived,) = method([hinted((0.0, 0.0, 0.0))], turn(step=50, draw=helper))
    assert rewards_of(revived) == [0.0, 0.0, 1.0]
    assert [c.prompt_variant for c in revived.completions] == ["", "", "hint-3"]
    assert [prompt.variant for prompt in revived.prompts] == ["", "hint-3"]
    assert [ask.variant for ask in helper.asks] == [f"hint-{i}" for i in range(1, 5)]
    metrics = method.metrics()
    assert metrics["scaffold/revived_groups"] == 1.0
    assert metrics["scaffold/mean_level"] == 3.0
    assert metrics["scaffold/revived_by_planning"] == 1.0


def test_groups_with_a_success_or_without_hints_are_left_alone(turn):
    helper = Helper(right_from=1)
    groups = [hinted((1.0, 0.0), "solved"), rewarded((0.0, 0.0), "bare")]
    assert scaffold()(groups, turn(step=50, draw=helper)) == groups
    assert not helper.asks


def test_a_group_that_no_hint_helps_stays(turn):
    groups = [hinted((0.0, 0.0))]
    method = scaffold()
    assert method(groups, turn(step=50, draw=Helper(right_from=9))) == groups
    assert method.metrics()["scaffold/asked_groups"] == 1.0
    assert method.metrics()["scaffold/revived_groups"] == 0.0


def test_tiers_can_be_left_out(turn):
    helper = Helper(right_from=1)
    method = scaffold(tiers=["solution"])
    (revived,) = method([hinted((0.0, 0.0))], turn(step=50, draw=helper))
    assert [ask.variant for ask in helper.asks] == ["hint-4"]
    assert revived.completions[-1].prompt_variant == "hint-4"


def test_every_ask_is_a_draw_of_its_own(turn):
    helper = Helper(right_from=9)
    groups = [hinted((0.0,), "a"), hinted((0.0,), "a"), hinted((0.0,), "b")]
    scaffold()(groups, turn(step=50, draw=helper))
    drawn = [(ask.problem.id, ask.draw) for ask in helper.asks]
    assert len(set(drawn)) == len(drawn) == 12
    assert all(draw >= 1 for _, draw in drawn)


def test_more_failures_may_be_asked_for_and_a_success_forgets_them(turn):
    method = scaffold(after_failures=2)
    helper = Helper(right_from=1)
    wrong, right = [hinted((0.0, 0.0))], [hinted((1.0, 0.0))]
    for groups, expected in [
        (wrong, 0), (wrong, 4), (right, 0), (wrong, 0), (wrong, 4), (wrong, 4),
    ]:  # fmt: skip
        helper.asks.clear()
        method(groups, turn(step=50, draw=helper))
        assert len(helper.asks) == expected


def test_saved_failures_go_on(turn):
    first, second = (scaffold(after_failures=2) for _ in range(2))
    first([hinted((0.0, 0.0))], turn(step=50))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    helper = Helper(right_from=1)
    second([hinted((0.0, 0.0))], turn(step=51, draw=helper))
    assert len(helper.asks) == 4


@pytest.mark.parametrize("number", [1, 4])
def test_prompts_that_do_not_fit_are_missing_from_what_is_drawn(turn, number):
    method = scaffold()
    groups = [hinted((0.0, 0.0), number=number)]
    assert method(groups, turn(step=50, draw=lambda asks, num_samples: [])) == groups
