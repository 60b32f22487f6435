"""Which methods go together: refused with the reason, and as a table to read."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxgrpo.config import Config


class Method(NamedTuple):
    """A method as combinations and documentation know it."""

    name: str
    """As users write it."""
    is_on: Callable[["Config"], bool]
    off: str
    """What turns it off."""
    conflicts: dict[str, str] = {}  # noqa: RUF012
    """Why it cannot be combined with the method of that name."""


_OF_A_GROUP = ("empo", "ttrl")
"""Kinds of rewards that a completion has by what the others of its group answer."""

METHODS = (
    Method(
        "EMPO or TTRL",
        lambda config: any(r.kind in _OF_A_GROUP for r in config.rewards.values()),
        "rewards of other kinds",
        {
            "scaffold": "a hinted completion is graded alone, and its group's answers "
            "decide",
            "replay of samples": "a stored completion was graded by the answers of "
            "others than those it joins",
        },
    ),
    Method(
        "curriculum",
        lambda config: bool(config.curriculum.order),
        "curriculum.order=[]",
    ),
    Method(
        "token constraint",
        lambda config: bool(config.sampling.constraint),
        "sampling.constraint=",
    ),
    Method("scaffold", lambda config: bool(config.scaffold.tiers), "scaffold.tiers=[]"),
    Method(
        "dynamic_sampling",
        lambda config: config.dynamic_sampling.max_tries > 0,
        "dynamic_sampling.max_tries=0",
    ),
    Method(
        "truncation_mask",
        lambda config: config.truncation_mask.probability > 0,
        "truncation_mask.probability=0",
    ),
    Method(
        "replay of groups",
        lambda config: config.replay.method == "groups",
        "replay.method=none",
        {
            "dynamic_sampling": "it replaces dead groups, which dynamic_sampling drops",
        },
    ),
    Method(
        "replay of samples",
        lambda config: config.replay.method == "samples",
        "replay.method=none",
    ),
    Method(
        "temperature stages",
        lambda config: bool(config.temperature.then),
        "temperature.then=[]",
    ),
    Method(
        "GDPO",
        lambda config: config.objective.is_decoupled,
        "objective.combine=sum_then_normalize",
    ),
    Method(
        "EGCA", lambda config: config.credit.method == "egca", "credit.method=uniform"
    ),
    Method(
        "Bi-Level",
        lambda config: config.credit.method == "bilevel",
        "credit.method=uniform",
        {
            "dynamic_sampling": "it drops groups of equal answers, whose steps may "
            "still differ",
            "replay of groups": "it takes groups of equal answers for dead, and their "
            "steps may still differ",
            "GDPO": "it normalises rewards, and Bi-Level learns from steps alone",
            "EGCA": "`credit.method` is one of them",
        },
    ),
    Method(
        "GAR",
        lambda config: bool(config.redistribution.graders),
        "redistribution.graders=[]",
        {
            "scaffold": "a hinted completion was graded among others than it joins",
            "replay of samples": "a stored completion was graded among others than "
            "those it joins",
            "Bi-Level": "its steps have advantages that no grade of the whole moves",
        },
    ),
    Method(
        "OAR",
        lambda config: config.experimental.method == "oar",
        "experimental.method=none",
        {
            "EGCA": "both say which tokens the advantage falls on",
            "Bi-Level": "both say which tokens the advantage falls on",
        },
    ),
    Method(
        "SC-GRPO",
        lambda config: config.experimental.method == "sc_grpo",
        "experimental.method=none",
        {
            "scaffold": "it revives the all-wrong groups that SC-GRPO explores",
            "dynamic_sampling": "it drops the all-wrong groups that SC-GRPO explores",
            "replay of groups": "it replaces the all-wrong groups that SC-GRPO "
            "explores",
            "EGCA": "both say which tokens the advantage falls on",
            "Bi-Level": "both say which tokens the advantage falls on",
            "OAR": "`experimental.method` is one of them",
        },
    ),
    Method(
        "S-trace",
        lambda config: config.experimental.method == "s_trace",
        "experimental.method=none",
        {
            "EGCA": "its traces carry a token's advantage to the tokens before it",
            "Bi-Level": "its traces carry a step's advantage to the steps before it",
            "OAR": "`experimental.method` is one of them",
            "SC-GRPO": "`experimental.method` is one of them",
        },
    ),
    Method(
        "distill", lambda config: bool(config.distill.at_steps), "distill.at_steps=[]"
    ),
)
"""All methods; those between scoring and update in the order in which they act."""


def check_combinations(config: "Config") -> None:
    """Refuses methods that cannot be combined.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Naming both, and why.
    """
    on = {method.name: method for method in METHODS if method.is_on(config)}
    for method in on.values():
        for other, reason in method.conflicts.items():
            if other in on:
                raise ValueError(
                    f"{method.name} cannot be combined with {other}: {reason}. Turn "
                    f"one of them off: {method.off}, or {on[other].off}."
                )


def combination_table() -> str:
    """Which methods go together, as a Markdown table with the reasons below it."""
    names = [method.name for method in METHODS]
    conflicts = {
        frozenset((method.name, other)): reason
        for method in METHODS
        for other, reason in method.conflicts.items()
    }
    lines = [
        "| | " + " | ".join(str(number) for number in range(1, len(names) + 1)) + " |",
        "| :-- |" + " :-: |" * len(names),
    ]
    for number, name in enumerate(names, start=1):
        marks = [
            "" if other == name else _mark(frozenset((name, other)) in conflicts)
            for other in names
        ]
        lines.append(f"| {number} {name} | " + " | ".join(marks) + " |")
    reasons = [
        f"- {method.name} with {other}: {reason}."
        for method in METHODS
        for other, reason in method.conflicts.items()
    ]
    return "\n".join([*lines, "", *reasons]) + "\n"


def _mark(is_conflict: bool) -> str:
    return "no" if is_conflict else "yes"
