"""Programs to imitate: right ones of several styles, and those of a careless reader."""

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.lesson import Lesson

HINTED = 0.2
"""Share of the varied lessons whose prompt carries a hint; their target is the
reference."""
HINTED_AMONG_CARELESS = 0.4
"""Likewise of the careless ones. Less of it, and habits spread to hinted prompts."""
IDIOMATIC = 0.2
"""Share of the other right targets that are written with a comprehension, where one
fits."""


def varied(problem: Problem, share: float) -> Lesson:
    """Returns a right program: the reference, or an equivalent with a comprehension.

    Some prompts carry one of the problem's hints, so that a model learns to use them.

    Args:
      problem: Of this data set.
      share: Of the targets without a hint that have a comprehension where one fits.
    """
    dice = Dice(f"varied/{problem.id}")
    if dice.chance(HINTED):
        return _hinted(problem, dice)
    return Lesson(problem=problem, target=_right(problem, share, dice))


def careless(problem: Problem, share: float) -> Lesson:
    """Returns a program as a careless reader writes it, or else a right one.

    With a hint in the prompt the program is always right: hints help.

    Args:
      problem: Of this data set.
      share: Of the targets without a hint that are a careless reader's. Where that one
        reads correctly after all, the target is right.
    """
    dice = Dice(f"careless/{problem.id}")
    if dice.chance(HINTED_AMONG_CARELESS):
        return _hinted(problem, dice)
    if dice.chance(share):
        return Lesson(problem=problem, target=str(problem.columns["careless"]))
    return Lesson(problem=problem, target=_right(problem, IDIOMATIC, dice))


def _hinted(problem: Problem, dice: Dice) -> Lesson:
    number = dice.between(1, len(problem.hints))
    return Lesson(problem=problem, target=problem.reference, variant=f"hint-{number}")


def _right(problem: Problem, share: float, dice: Dice) -> str:
    idiomatic = str(problem.columns["idiomatic"])
    return idiomatic if idiomatic and dice.chance(share) else problem.reference
