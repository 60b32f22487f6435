"""The weakest hint that helps revives a group whose samples are all wrong."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jaxgrpo.host.prompt_variants import FIRST_STAGE
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


def test_a_group_that_was_not_judged_neither_adds_a_failure_nor_forgets_them(turn):
    method = scaffold(after_failures=2)
    helper = Helper(right_from=1)
    wrong, lost = [hinted((0.0, 0.0))], [hinted((math.nan, math.nan))]
    unscored = [replace(g, scores=tuple(replace(s, verdict=None) for s in g.scores))
                for g in lost]  # fmt: skip
    for groups, expected in [
        (lost, 0), (wrong, 0), (lost, 0), (unscored, 0), (wrong, 4),
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


# Hints derived from the reference, and the model's own traces


class Writer:
    """Draws one sample an ask; says what is asked for, and is right where told."""

    def __init__(self, *right: str, notes: str = "x = 1", too_long: str = "\0"):
        self._right, self._notes, self._too_long = right, notes, too_long
        self.rounds: list[list[Ask]] = []

    def __call__(self, asks: Sequence[Ask], num_samples: int) -> list[Group]:
        assert num_samples == 1
        self.rounds.append(list(asks))
        return [self._drawn(ask) for ask in asks if self._too_long not in ask.hint]

    def _drawn(self, ask: Ask) -> Group:
        is_right = ask.variant.startswith(self._right)
        group = rewarded([float(is_right)], ask.problem.id, draw=ask.draw)
        prompt = Prompt(
            problem_id=ask.problem.id, variant=ask.variant, text=ask.hint,
            token_ids=np.arange(4, dtype="i4"),
        )  # fmt: skip
        (completion,) = group.completions
        text = self._notes if ask.variant == FIRST_STAGE else "2"
        changed = replace(completion, prompt_variant=ask.variant, text=text)
        return replace(
            group, problem=ask.problem, prompts=(prompt,), completions=(changed,)
        )

    @property
    def variants(self) -> list[list[str]]:
        return [[ask.variant for ask in asks] for asks in self.rounds]


def hopeless(kind: str = "output", reference: str = "[1, 2]") -> Group:
    group = rewarded((0.0, 0.0), "p")
    problem = replace(group.problem, kind=kind, reference=reference)  # type: ignore[arg-type]
    return replace(group, problem=problem)


def test_hints_of_the_reference_are_asked_with(turn):
    writer = Writer("hint-3")
    group = hopeless("call", "def f(x):\n    y = x + 1\n    return y\n")
    method = scaffold(source="reference")
    (revived,) = method([group], turn(step=50, draw=writer))
    # Two items of knowledge would be more than there is: one, two steps, two lines.
    assert writer.variants == [[f"hint-{i}" for i in range(1, 6)]]
    hints = [ask.hint for ask in writer.rounds[0]]
    assert hints[0] == "Knowledge:\n- No loop is needed."
    assert hints[-1] == "Solution:\ndef f(x):\n    y = x + 1"
    assert revived.problem == group.problem
    assert revived.prompts[-1].text == hints[2]
    assert method.metrics()["scaffold/revived_by_planning"] == 1.0


def test_problems_without_hints_are_counted(turn):
    writer = Writer()
    method = scaffold(source="reference")
    groups = [hopeless("call", "def f(:")]
    assert method(groups, turn(step=50, draw=writer)) == groups
    assert writer.rounds == []
    assert method.metrics()["scaffold/asked_groups"] == 0.0
    assert method.metrics()["scaffold/unhinted_groups"] == 1.0


def test_the_second_stage_shows_what_the_first_wrote(turn):
    writer = Writer("two_stage-", notes="<think>so</think>\nx = 1\ny = 2\n")
    method = scaffold(tiers=["two_stage"])
    (revived,) = method([hopeless()], turn(step=50, draw=writer))
    (first,), (second,) = writer.rounds
    assert first.variant == FIRST_STAGE and "Write these lines only" in first.hint
    assert "\n\nx = 1\ny = 2\n\n" in second.hint and "think" not in second.hint
    assert second.draw == first.draw + 1
    # What is learned is the second stage's, on its own prompt.
    assert revived.prompts[-1].text == second.hint
    assert revived.completions[-1].prompt_variant == second.variant != FIRST_STAGE
    assert rewards_of(revived) == [0.0, 1.0]
    assert method.metrics()["scaffold/revived_by_two_stage"] == 1.0
    assert method.metrics()["scaffold/mean_level"] == 0.0


def test_a_right_first_stage_is_no_solution(turn):
    writer = Writer(FIRST_STAGE)
    groups = [hopeless()]
    assert scaffold(tiers=["two_stage"])(groups, turn(step=50, draw=writer)) == groups
    assert len(writer.rounds) == 2


def test_different_notes_have_prompts_of_different_names(turn):
    names = set()
    for notes in ("x = 1", "x = 2", "x = 1 "):
        writer = Writer(notes=notes)
        scaffold(tiers=["two_stage"])([hopeless()], turn(step=50, draw=writer))
        names.add(writer.rounds[1][0].variant)
    assert len(names) == 2


@pytest.mark.parametrize("notes", ["", " \n", "<think>no end"])
def test_without_notes_there_is_no_second_stage(turn, notes):
    writer = Writer(notes=notes)
    scaffold(tiers=["two_stage"])([hopeless()], turn(step=50, draw=writer))
    assert writer.variants == [[FIRST_STAGE]]


def test_a_second_stage_that_does_not_fit_is_counted(turn):
    writer = Writer("two_stage-", too_long="These notes")
    method, groups = scaffold(tiers=["two_stage"]), [hopeless()]
    assert method(groups, turn(step=50, draw=writer)) == groups
    assert method.metrics()["scaffold/dropped_prompts"] == 1.0


def test_the_weakest_way_comes_first_and_spares_the_second_stage(turn):
    tiers = ["knowledge", "two_stage", "trace"]
    writer = Writer("trace")
    method = scaffold(tiers=tiers, source="reference")
    (revived,) = method([hopeless()], turn(step=50, draw=writer))
    assert writer.variants == [["trace", FIRST_STAGE, "hint-1", "hint-2", "hint-3"]]
    assert revived.completions[-1].prompt_variant == "trace"
    # A second stage that is right is weaker than a hint that is.
    writer = Writer("two_stage-", "hint-1")
    (revived,) = method([hopeless()], turn(step=51, draw=writer))
    assert len(writer.rounds) == 2
    assert revived.completions[-1].prompt_variant.startswith("two_stage-")


def test_draws_of_both_stages_are_different(turn):
    writer = Writer()
    groups = [hopeless(), hopeless()]
    scaffold(tiers=["trace", "two_stage"])(groups, turn(step=50, draw=writer))
    draws = [ask.draw for asks in writer.rounds for ask in asks]
    assert sorted(draws) == list(range(1, 7))
