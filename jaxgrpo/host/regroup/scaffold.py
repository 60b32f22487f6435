"""Scaffolding: the smallest hint that lets a hopeless problem be solved once."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jaxgrpo.host.hints import TIERS, Hint, hints_of, second_stage_hint
from jaxgrpo.host.hints.own_trace import notes_of
from jaxgrpo.host.prompt_variants import FIRST_STAGE, hint_level
from jaxgrpo.host.records import Group, Verdict
from jaxgrpo.host.regroup import Ask, Turn
from jaxgrpo.host.regroup.liveness import draws_after


class _Asked(NamedTuple):
    """A group that is asked again, and how."""

    group: Group
    hint: Hint


class _Solution(NamedTuple):
    """A right sample, and the hint that it was found under."""

    place: int
    """Of the hint among those asked for: the weaker, the smaller."""
    hint: Hint
    drawn: Group


class Scaffold:
    """Puts a solution found under a hint in the place of one failed sample.

    From the end of an exemption on, a problem whose samples are all wrong is asked
    again under each of its hints, one sample a hint, by the policy as it is. If any of
    them is right, that of the first such hint (the weakest) replaces the group's last
    failed sample. It keeps its hinted prompt: sampler and trainer condition on it, so
    that its ratio is that of the policy under the hint. Means and spreads are taken of
    the group as it then is. Groups with a right sample, and groups that no hint helps,
    stay as they are.

    The tier `two_stage` draws twice: a first completion writes the run down, and a
    second is drawn of a prompt that shows it. Only the second may replace a sample.

    Args:
      exempt_share: Share of the run's steps, at its beginning, without hints.
      after_failures: Times in a row that a problem's samples must have been all wrong,
        this step included. Times when none of them could be judged do not count.
      tiers: Kinds of hints that are tried: some of `hints.TIERS`, `hints.OWN_TRACES`.
      source: Of the hints, one of `hints.SOURCES`.

    Reference:
      Scaf-GRPO, 2025, https://arxiv.org/abs/2510.19807: exemption of 15 %, three tiers
      of cumulative hints, the minimal successful hint, one replacement.
      Differs from it: `after_failures` may ask for more than one failure, as the
      paper's text does and its code does not; all three tiers are tried (its code
      leaves out planning), all levels in one batch as in its code; hints may be derived
      from the reference. `trace` and `two_stage` are not its: they are what a
      practitioner's thread on stalled exact match proposes for output prediction.
    """

    name = "scaffold"

    def __init__(
        self,
        *,
        exempt_share: float,
        after_failures: int = 1,
        tiers: Sequence[str] = TIERS,
        source: str = "data",
    ):
        self._exempt_share = exempt_share
        self._after_failures = after_failures
        self._tiers = tuple(tiers)
        self._source = source
        self._failures: Counter[str] = Counter()
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups, hopeless ones revived where a hint helps."""
        hopeless = [group for group in groups if _is_all_wrong(group)]
        # A group of which nothing was judged tells of no failure and of no success.
        for problem_id in {group.problem.id for group in groups if _judged(group)}:
            if any(group.problem.id == problem_id for group in hopeless):
                self._failures[problem_id] += 1
            else:
                del self._failures[problem_id]
        due = [group for group in hopeless if self._is_due(group, turn)]
        hints = [[_Asked(group, hint) for hint in self._hints(group)] for group in due]
        drawing = _Drawing(groups, turn)
        found = _solutions([asked for row in hints for asked in row], drawing)
        tiers = Counter(solution.hint.tier for solution in found.values())
        levels = [hint_level(solution.hint.variant) for solution in found.values()]
        levels = [level for level in levels if level]
        named = dict.fromkeys((*TIERS, *self._tiers))
        self._metrics = {
            "scaffold/all_wrong_groups": float(len(hopeless)),
            "scaffold/asked_groups": float(sum(map(bool, hints))),
            "scaffold/unhinted_groups": float(len(due) - sum(map(bool, hints))),
            "scaffold/revived_groups": float(len(found)),
            "scaffold/mean_level": sum(levels) / len(levels) if levels else 0.0,
            "scaffold/dropped_prompts": float(drawing.num_dropped),
            **{f"scaffold/revived_by_{tier}": float(tiers[tier]) for tier in named},
        }
        return [_revived(group, found.get(id(group))) for group in groups]

    def metrics(self) -> dict[str, float]:
        """All-wrong groups, those asked again and revived, and by which hints."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """Failures in a row, by problem."""
        return dict(self._failures)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with saved counts."""
        self._failures = Counter(state)

    def _is_due(self, group: Group, turn: Turn) -> bool:
        is_exempt = turn.step < math.ceil(self._exempt_share * turn.num_steps)
        failures = self._failures[group.problem.id]
        return not is_exempt and failures >= self._after_failures

    def _hints(self, group: Group) -> list[Hint]:
        return hints_of(group.problem, self._tiers, self._source)


class _Drawing:
    """Draws one sample an ask, each under a draw number of its own."""

    def __init__(self, groups: Sequence[Group], turn: Turn):
        self._free = draws_after(groups)
        self._turn = turn
        self.num_dropped = 0
        """Prompts so far that were too long."""

    def samples(self, asked: Sequence[_Asked]) -> dict[int, Group]:
        """What was drawn, by the place of the ask; without prompts that do not fit."""
        asks: list[Ask] = []
        for group, hint in asked:
            problem = group.problem
            draw = self._free[problem.id]
            self._free[problem.id] = draw + 1
            asks.append(
                Ask(problem=problem, variant=hint.variant, hint=hint.text, draw=draw)
            )
        places = {(ask.problem.id, ask.draw): i for i, ask in enumerate(asks)}
        drawn = self._turn.draw(asks, 1) if asks else []
        self.num_dropped += len(asks) - len(drawn)
        return {
            places[group.problem.id, group.completions[0].draw]: group
            for group in drawn
        }


def _solutions(asked: Sequence[_Asked], drawing: _Drawing) -> dict[int, _Solution]:
    """The right sample under the weakest hint, by `id` of the group it helps.

    Args:
      asked: The hints of each group together, from the weakest on.
      drawing: Draws.
    """
    tried, drawn = list(asked), drawing.samples(asked)
    found = _right(tried, drawn)
    second: dict[int, _Asked] = {}
    for place, (group, hint) in enumerate(asked):
        # Where a weaker way was right already, no second stage is drawn.
        is_helped = id(group) in found and found[id(group)].place < place
        if hint.variant == FIRST_STAGE and place in drawn and not is_helped:
            notes = notes_of(drawn[place].completions[0])
            if notes:
                second[place] = _Asked(group, second_stage_hint(notes))
    drawn_again = drawing.samples(list(second.values()))
    for number, (place, again) in enumerate(second.items()):
        if number in drawn_again:
            tried[place], drawn[place] = again, drawn_again[number]
    return _right(tried, drawn)


def _right(asked: Sequence[_Asked], drawn: Mapping[int, Group]) -> dict[int, _Solution]:
    """The first right sample of each group, by its `id`."""
    found: dict[int, _Solution] = {}
    for place, (group, hint) in enumerate(asked):
        if place not in drawn or hint.variant == FIRST_STAGE:
            continue
        (score,) = drawn[place].scores
        if score.verdict is not None and score.verdict.is_correct:
            found.setdefault(id(group), _Solution(place, hint, drawn[place]))
    return found


def _is_all_wrong(group: Group) -> bool:
    judged = _judged(group)
    return bool(judged) and not any(verdict.is_correct for verdict in judged)


def _judged(group: Group) -> list[Verdict]:
    verdicts = [s.verdict for s in group.scores if s.verdict is not None]
    return [verdict for verdict in verdicts if verdict.status != "INFRA"]


def _revived(group: Group, solution: _Solution | None) -> Group:
    """The group with the solution in the place of its last failed sample."""
    if solution is None:
        return group
    judged = [
        place
        for place, score in enumerate(group.scores)
        if score.verdict is not None and score.verdict.status != "INFRA"
    ]
    place, drawn = judged[-1], solution.drawn
    completions, scores = list(group.completions), list(group.scores)
    completions[place], scores[place] = drawn.completions[0], drawn.scores[0]
    return replace(
        group,
        prompts=(*group.prompts, *drawn.prompts),
        completions=tuple(completions),
        scores=tuple(scores),
    )
