"""Scaffolding: the smallest hint that lets a hopeless problem be solved once."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jaxgrpo.host.records import Group, Problem
from jaxgrpo.host.regroup import Ask, Turn
from jaxgrpo.host.regroup.liveness import draws_after

TIERS = ("knowledge", "planning", "solution")


class Scaffold:
    """Puts a solution found under a hint in the place of one failed sample.

    From the end of an exemption on, a problem whose samples are all wrong is asked
    again under each of its hints, one sample a hint, by the policy as it is. If any of
    them is right, that of the first such hint (the weakest) replaces the group's last
    failed sample. It keeps its hinted prompt: sampler and trainer condition on it, so
    that its ratio is that of the policy under the hint. Means and spreads are taken of
    the group as it then is. Groups with a right sample, and groups that no hint helps,
    stay as they are.

    Args:
      exempt_share: Share of the run's steps, at its beginning, without hints.
      after_failures: Times in a row that a problem's samples must have been all wrong,
        this step included.
      tiers: Kinds of hints that are tried.

    Reference:
      Scaf-GRPO, 2025, https://arxiv.org/abs/2510.19807: exemption of 15 %, three tiers
      of cumulative hints, the minimal successful hint, one replacement.
      Differs from it: `after_failures` may ask for more than one failure, as the
      paper's text does and its code does not; all three tiers are tried (its code
      leaves out planning), all levels in one batch as in its code.
    """

    name = "scaffold"

    def __init__(
        self,
        *,
        exempt_share: float,
        after_failures: int = 1,
        tiers: Sequence[str] = TIERS,
    ):
        self._exempt_share = exempt_share
        self._after_failures = after_failures
        self._tiers = tuple(tiers)
        self._failures: Counter[str] = Counter()
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups, hopeless ones revived where a hint helps."""
        hopeless = [group for group in groups if _is_all_wrong(group)]
        for problem_id in {group.problem.id for group in groups}:
            if any(group.problem.id == problem_id for group in hopeless):
                self._failures[problem_id] += 1
            else:
                del self._failures[problem_id]
        asked = self._asked(hopeless, turn)
        found = self._solutions(asked, groups, turn)
        changed = [_revived(group, found.get(id(group))) for group in groups]
        tiers = Counter(_tier(group.problem, found[id(group)]) for group in asked
                        if id(group) in found)  # fmt: skip
        levels = [_level(solution) for solution in found.values()]
        self._metrics = {
            "scaffold/all_wrong_groups": float(len(hopeless)),
            "scaffold/asked_groups": float(len(asked)),
            "scaffold/revived_groups": float(len(found)),
            "scaffold/mean_level": sum(levels) / len(levels) if levels else 0.0,
            **{f"scaffold/revived_by_{tier}": float(tiers[tier]) for tier in TIERS},
        }
        return changed

    def metrics(self) -> dict[str, float]:
        """All-wrong groups, those asked again and revived, and by which hints."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """Failures in a row, by problem."""
        return dict(self._failures)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with saved counts."""
        self._failures = Counter(state)

    def _asked(self, hopeless: Sequence[Group], turn: Turn) -> list[Group]:
        if turn.step < math.ceil(self._exempt_share * turn.num_steps):
            return []
        return [
            group
            for group in hopeless
            if self._failures[group.problem.id] >= self._after_failures
            and self._levels(group.problem)
        ]

    def _levels(self, problem: Problem) -> list[int]:
        """Numbers of the problem's hints that are tried, from 1, weakest first."""
        tiers = problem.hint_tiers or ("",) * len(problem.hints)
        return [
            level
            for level, tier in enumerate(tiers, start=1)
            if not tier or tier in self._tiers
        ]

    def _solutions(
        self, asked: Sequence[Group], groups: Sequence[Group], turn: Turn
    ) -> dict[int, Group]:
        """For each group that a hint helped, the right sample under the weakest."""
        free = draws_after(groups)
        asks: list[Ask] = []
        owners: dict[tuple[str, str, int], Group] = {}
        for group in asked:
            problem = group.problem
            for level in self._levels(problem):
                draw = free[problem.id]
                free[problem.id] = draw + 1
                ask = Ask(problem=problem, variant=f"hint-{level}", draw=draw)
                owners[problem.id, ask.variant, draw] = group
                asks.append(ask)
        found: dict[int, Group] = {}
        for drawn in turn.draw(asks, 1) if asks else []:
            (completion,), (score,) = drawn.completions, drawn.scores
            key = drawn.problem.id, completion.prompt_variant, completion.draw
            if score.verdict is not None and score.verdict.is_correct:
                # Asks come in the order of levels, so that the first is the weakest.
                found.setdefault(id(owners[key]), drawn)
        return found


def _is_all_wrong(group: Group) -> bool:
    verdicts = [s.verdict for s in group.scores if s.verdict is not None]
    judged = [verdict for verdict in verdicts if verdict.status != "INFRA"]
    return bool(judged) and not any(verdict.is_correct for verdict in judged)


def _revived(group: Group, solution: Group | None) -> Group:
    """The group with the solution in the place of its last failed sample."""
    if solution is None:
        return group
    judged = [
        place
        for place, score in enumerate(group.scores)
        if score.verdict is not None and score.verdict.status != "INFRA"
    ]
    place = judged[-1]
    completions, scores = list(group.completions), list(group.scores)
    completions[place], scores[place] = solution.completions[0], solution.scores[0]
    return replace(
        group,
        prompts=(*group.prompts, *solution.prompts),
        completions=tuple(completions),
        scores=tuple(scores),
    )


def _level(solution: Group) -> int:
    return int(solution.completions[0].prompt_variant.removeprefix("hint-"))


def _tier(problem: Problem, solution: Group) -> str:
    level = _level(solution)
    return problem.hint_tiers[level - 1] if problem.hint_tiers else ""
