"""Writes small specifications, with all that is known of them, from a seed."""

from dataclasses import dataclass
from itertools import accumulate

from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.mini_programs.code import idiomatic_code, loop_code
from jaxgrpo.problems.mini_programs.habits import careless
from jaxgrpo.problems.mini_programs.hints import tiers
from jaxgrpo.problems.mini_programs.inputs import Arguments, test_inputs
from jaxgrpo.problems.mini_programs.wording import specification
from jaxgrpo.problems.mini_programs.writer import SketchWriter

LEVELS = ("trivial", "easy", "medium", "hard", "expert")
"""Names of the difficulties: specifications of 0, 1, 2, 3 and 4 options."""

MAX_LINES = 8
"""Of a reference."""

_LEVEL_WEIGHTS = (0.5, 2.0, 3.0, 4.0, 4.0)


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem that has not been executed."""

    prompt: str
    reference: str
    """With a loop."""
    idiomatic: str
    """Equivalent, with a comprehension; empty where none fits."""
    careless: str
    """As a careless reader would write it; perhaps right all the same."""
    hints: dict[str, list[str]]
    """Items by tier."""
    family: str
    """Type of the elements, and how they become the result."""
    level: str
    """One of `LEVELS`."""
    inputs: list[Arguments]
    """Arguments to test with."""
    argument_types: str
    """Names of the arguments, which tell their types: `xs`, `xs k` ..."""


def drafts(seed: int, chunk: int, count: int) -> list[Draft]:
    """Returns the drafts of one chunk: the same ones for the same arguments.

    Args:
      seed: Seed of the data set.
      chunk: Index of the chunk within the data set; chunks are independent.
      count: Number of drafts.

    Returns:
      `count` drafts, possibly with repetitions.

    Example:
      >>> drafts(0, 0, 2) == drafts(0, 0, 2)
      True
    """
    dice = Dice(f"mini_programs/{seed}/{chunk}")
    return [_draft(dice) for _ in range(count)]


def _draft(dice: Dice) -> Draft:
    while True:
        level = dice.weighted(range(len(LEVELS)), list(accumulate(_LEVEL_WEIGHTS)))
        sketch = SketchWriter(dice).sketch(level)
        reference = loop_code(sketch)
        if len(reference.split("\n")) <= MAX_LINES:
            break
    return Draft(
        prompt=specification(sketch),
        reference=reference,
        idiomatic=idiomatic_code(sketch),
        careless=loop_code(careless(sketch, dice)),
        hints=tiers(sketch),
        family=f"{sketch.element}_{sketch.fold_name}",
        level=LEVELS[level],
        inputs=test_inputs(sketch, dice),
        argument_types=sketch.argument + (" k" if sketch.has_k else ""),
    )
