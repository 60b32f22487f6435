"""Arguments to test functions with, and to tell functions apart by."""

import re
from collections.abc import Sequence

from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.mini_programs.sketch import Sketch

Arguments = tuple[object, ...]

NUM_TESTS = 8
"""Of a problem."""
NUM_CANDIDATES = 16
"""Inputs that the tests are chosen from."""
NUM_PROBES = 24
"""By which functions are told apart."""
NUM_EDGES = 3
"""Of the first inputs, which are empty or short, or as long as a guard asks for."""
_LETTERS = "abcdefghi"


def test_inputs(sketch: Sketch, dice: Dice) -> list[Arguments]:
    """Returns arguments that try a function at its edges.

    The first are empty or short; the others hold values at and beside every number
    that the code speaks of, so that a bound that is one off shows.

    Args:
      sketch: What is asked for.
      dice: Decides the rest.
    """
    pieces = [sketch.source, sketch.stop, *sketch.conditions, sketch.mapping]
    pieces += [sketch.branch.condition] if sketch.branch else []
    code = " ".join(piece.code for piece in pieces if piece is not None)
    numbers = sorted({int(text) for text in re.findall(r"\d+", code)})
    letters = sorted(set(re.findall(r"'([a-h])'", code)))
    edge = sketch.guard.size if sketch.guard else 2
    result = []
    for index in range(NUM_CANDIDATES):
        k = dice.between(0, 6)
        centres = [*numbers, k] if sketch.has_k else numbers
        near = [number + offset for number in centres for offset in (-1, 0, 1)]
        size = (0, 1, edge)[index] if index < NUM_EDGES else dice.between(2, 9)
        value = _value(sketch.argument, size, near, letters, dice)
        result.append((value, k) if sketch.has_k else (value,))
    return result


def probes(argument_types: str) -> list[Arguments]:
    """Returns the arguments by which functions of these types are told apart.

    Always the same ones: what a function returns for them decides its split.

    Args:
      argument_types: Names of the arguments, such as `xs k`.
    """
    name, *others = argument_types.split()
    dice = Dice(f"probes/{argument_types}")
    result = []
    for index in range(NUM_PROBES):
        size = index if index < NUM_EDGES else dice.between(2, 9)
        value = _value(name, size, range(-3, 11), _LETTERS, dice)
        result.append((value, dice.between(0, 6)) if others else (value,))
    return result


def _value(
    name: str, size: int, near: Sequence[int], letters: Sequence[str], dice: Dice
) -> object:
    """Returns one argument of a size; a number, where it is small, of that value."""
    if name == "n":
        return size if size < 2 else _number(size, near, dice)
    if name == "xs":
        return [
            dice.pick(near) if near and dice.chance(0.6) else dice.between(-9, 15)
            for _ in range(size)
        ]
    if name == "s":
        return _text(size, letters, dice)
    return [_text(_word_size(near, dice), letters, dice) for _ in range(size)]


def _number(size: int, near: Sequence[int], dice: Dice) -> int:
    if dice.chance(0.4):
        return size
    if near and dice.chance(0.4):
        return max(0, dice.pick(near)) + dice.between(0, 4)
    return dice.between(3, 30) if dice.chance(0.7) else dice.between(31, 130)


def _word_size(near: Sequence[int], dice: Dice) -> int:
    sizes = [size for size in near if 0 < size < 7]
    return dice.pick(sizes) if sizes and dice.chance(0.5) else dice.between(1, 6)


def _text(size: int, letters: Sequence[str], dice: Dice) -> str:
    return "".join(
        dice.pick(letters) if letters and dice.chance(0.4) else dice.pick(_LETTERS)
        for _ in range(size)
    )
