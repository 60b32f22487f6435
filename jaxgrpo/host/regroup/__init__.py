"""Between scoring and update: the one place where groups are changed.

A regrouper takes scored groups and returns scored groups: it may drop some, add stored
ones, replace samples, or ask for more to be drawn. They are applied in order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from jaxgrpo.host.records import Completion, Group, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One more group that a regrouper wants drawn."""

    problem: Problem
    variant: str = ""
    """Of the prompt: empty for the plain one, else one of `prompt_variants`."""
    hint: str = ""
    """What it adds to the prompt; empty for the problem's own hint of that name."""
    draw: int = 0
    """Tells it from other groups of the same problem and step, whose completions it
    would repeat otherwise; 0 is the step's own first."""


DrawGroups = Callable[[Sequence[Ask], int], list[Group]]
"""Takes asks and the number of completions of each, and returns scored groups in the
order of the asks; those whose prompt is too long are left out."""
NextProblems = Callable[[int], list[Problem]]
"""Takes that many problems, whose prompts fit, from the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a regrouper may know of the step, and ask of it."""

    step: int
    """Steps made before this one."""
    num_steps: int
    """Of the whole run."""
    policy_step: int
    """Updates that the policy has seen."""
    weights: Mapping[str, float]
    """Factor of each reward in this step, by name."""
    is_decoupled: bool = False
    """Whether rewards are normalised one by one before they are added (GDPO)."""
    draw: DrawGroups
    next_problems: NextProblems


class Regrouper(Protocol):
    """One method that changes which groups are learned from."""

    name: str
    """Under which its state is saved."""

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups to learn from."""
        ...

    def metrics(self) -> dict[str, float]:
        """What the last call did, under the names of the metric log."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What it must remember, as JSON can hold it."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""
        ...


def regroup(
    groups: Sequence[Group], regroupers: Sequence[Regrouper], turn: Turn
) -> list[Group]:
    """The groups after all regroupers, in order; without any, the groups as they are.

    Args:
      groups: Scored.
      regroupers: Applied one after the other.
      turn: The step.
    """
    changed = list(groups)
    for regrouper in regroupers:
        changed = regrouper(changed, turn)
    return changed


def left_out(drawn: Sequence[Group], learned: Sequence[Group]) -> list[Group]:
    """Completions that were drawn and are not learned from, with their groups.

    Args:
      drawn: All groups of the step.
      learned: What regrouping made of them.
    """
    kept = {_identity(c) for group in learned for c in group.completions}
    remaining = []
    for group in drawn:
        rows = [
            (completion, score)
            for completion, score in zip(group.completions, group.scores, strict=True)
            if _identity(completion) not in kept
        ]
        if rows:
            completions, scores = zip(*rows, strict=True)
            remaining.append(replace(group, completions=completions, scores=scores))
    return remaining


def _identity(completion: Completion) -> tuple[object, ...]:
    """Tells a completion from all others of a run."""
    c = completion
    return c.problem_id, c.prompt_variant, c.policy_step, c.draw, c.sample


def regroup_metrics(regroupers: Sequence[Regrouper]) -> dict[str, float]:
    """What the last calls did, of all regroupers."""
    metrics: dict[str, float] = {}
    for regrouper in regroupers:
        metrics |= regrouper.metrics()
    return metrics
