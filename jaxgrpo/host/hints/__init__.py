"""Hints that a problem may be asked again with, from the weakest on.

    trace       asks for the run's values before the answer (problems of a literal)
    two_stage   the same in two prompts
    knowledge   what is of use
    planning    the steps in words
    solution    the beginning of the program

The first two tell nothing, and come before the others. Those are the problem's own, as
its data has them, or are derived from the syntax tree of its reference: no language
model, and no program is run.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

from jaxgrpo.host.hints.knowledge import knowledge, modules_of
from jaxgrpo.host.hints.layout import cumulated
from jaxgrpo.host.hints.literals import knowledge_of_arguments, knowledge_of_value
from jaxgrpo.host.hints.own_trace import FIRST_STAGE_TEXT, TRACE_TEXT, second_stage
from jaxgrpo.host.hints.planning import planning
from jaxgrpo.host.hints.solution import solution
from jaxgrpo.host.judge.source_names import parsed
from jaxgrpo.host.prompt_variants import FIRST_STAGE, TRACE, hint_variant
from jaxgrpo.host.records import HintTier, Problem, ProblemKind

TIERS: tuple[HintTier, ...] = get_args(HintTier)
"""Tiers of hints, from abstract to concrete."""
OWN_TRACES = ("trace", "two_stage")
"""Tiers in which the model writes the run down itself."""
SOURCES = ("data", "reference")
LITERAL_KINDS: tuple[ProblemKind, ...] = ("output", "trace", "input")
"""Kinds of problems that these tiers are for, and whose references are no programs."""


class Hint(NamedTuple):
    """One way of asking a problem again."""

    tier: str
    """Empty for a hint of the data that has none."""
    variant: str
    """Name of the prompt."""
    text: str
    """What it adds."""


def hints_of(
    problem: Problem, tiers: Sequence[str], source: str = "data"
) -> list[Hint]:
    """Returns the hints of some tiers, from the weakest on.

    Args:
      problem: With its reference, or hints of its own.
      tiers: Some of OWN_TRACES and TIERS. Hints of the data without a tier count as of
        each of TIERS.
      source: Of the hints of TIERS, one of SOURCES.

    Returns:
      None at all where there is nothing to derive them from.
    """
    found: list[Hint] = []
    if problem.kind in LITERAL_KINDS:
        asked = (
            ("trace", TRACE, TRACE_TEXT),
            ("two_stage", FIRST_STAGE, FIRST_STAGE_TEXT),
        )
        found += [Hint(*one) for one in asked if one[0] in tiers]
    if not set(TIERS) & set(tiers):
        return found
    hints = _of_data(problem) if source == "data" else derived_hints(problem)
    return found + [
        Hint(tier, hint_variant(level), text)
        for level, (tier, text) in enumerate(hints, start=1)
        if not tier or tier in tiers
    ]


def second_stage_hint(notes: str) -> Hint:
    """Returns the hint of the second stage.

    Args:
      notes: What the model wrote in the first, not empty.
    """
    return Hint("two_stage", *second_stage(notes))


def derived_hints(problem: Problem) -> list[tuple[HintTier, str]]:
    """Returns hints derived from a problem's reference, with their tiers.

    Three tiers of at most four hints each, the l-th of a tier made of its first l
    items; fewer where there is less to say. None of them holds the whole reference. A
    reference that is a literal is told of by `knowledge` alone.

    Args:
      problem: Its reference may be missing or unreadable; then there are no hints.

    Reference:
      Scaf-GRPO, 2025, https://arxiv.org/abs/2510.19807: three tiers of four items.
      Differs from it: there a large language model wrote them, once, from problem and
      solution.
    """
    derive = _of_literal if problem.kind in LITERAL_KINDS else _of_program
    try:
        tiers = derive(problem)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        (tier, text) for tier, parts in tiers.items() for text in cumulated(tier, parts)
    ]


def _of_data(problem: Problem) -> list[tuple[str, str]]:
    tiers = problem.hint_tiers or ("",) * len(problem.hints)
    return list(zip(tiers, problem.hints, strict=True))


def _of_program(problem: Problem) -> dict[HintTier, list[str]]:
    source = problem.reference
    tree = parsed(source)
    if not tree.body:
        return {}
    return {
        "knowledge": knowledge(source, tree),
        "planning": planning(tree, modules_of(tree)),
        "solution": solution(source, tree),
    }


def _of_literal(problem: Problem) -> dict[HintTier, list[str]]:
    tell: Callable[[str], list[str]] = (
        knowledge_of_arguments if problem.kind == "input" else knowledge_of_value
    )
    return {"knowledge": tell(problem.reference)}
