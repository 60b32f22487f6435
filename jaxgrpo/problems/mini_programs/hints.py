"""Three tiers of hints for a sketch: what to know, what to do, how it is written."""

from jaxgrpo.problems.mini_programs.code import loop_code
from jaxgrpo.problems.mini_programs.sketch import Sketch
from jaxgrpo.problems.mini_programs.wording import (
    change,
    elements,
    test_in_words,
)

ITEMS = 4
"""Most items of a tier."""


def tiers(sketch: Sketch) -> dict[str, list[str]]:
    """Returns the items of each tier, from abstract to concrete.

    Tier k's level l is its first l items. `knowledge` states facts without any code,
    `planning` the steps in words, `solution` lines of the reference but for its last.
    """
    return {
        "knowledge": _knowledge(sketch),
        "planning": _planning(sketch),
        "solution": _solution(sketch),
    }


def _knowledge(sketch: Sketch) -> list[str]:
    branch = sketch.branch
    pieces = [
        sketch.source,
        sketch.stop,
        *sketch.conditions,
        *([branch.condition, branch.mapping, branch.otherwise] if branch else []),
        sketch.mapping,
        sketch.ending,
    ]
    chosen = [piece for piece in pieces if piece is not None and piece.fact]
    # What is easily misread first.
    chosen.sort(key=lambda piece: not piece.slip)
    facts = [sketch.fold.fact, *(piece.fact for piece in chosen)]
    return list(dict.fromkeys(facts))[:ITEMS]


def _planning(sketch: Sketch) -> list[str]:
    start, update, end = sketch.fold.plan
    first = []
    if sketch.guard is not None:
        first.append("Answer a short argument first.")
    if start:
        first.append(start.replace("{m}", sketch.start))
    through = f"Go through {elements(sketch)}"
    if sketch.stop is not None:
        through += f" until one {sketch.stop.words}"
    it = f"it {change(sketch)}".rstrip()
    update = update.replace("{it}", it)
    test = test_in_words(sketch, is_plural=False)
    if test:
        unless = "Unless" if sketch.fold_name == "all" else "If"
        update = f"{unless} one {test}: {update[0].lower()}{update[1:]}"
    last = end.replace("{m}", sketch.start)
    if sketch.ending is not None:
        last += f", but first {sketch.ending.words}"
    steps = [" ".join(first), f"{through}.", update, f"{last}."]
    return [step for step in steps if step]


def _solution(sketch: Sketch) -> list[str]:
    lines = loop_code(sketch).split("\n")[:-1]
    count = min(ITEMS, len(lines))
    cuts = [len(lines) * index // count for index in range(count + 1)]
    return [
        "\n".join(lines[start:end]) for start, end in zip(cuts, cuts[1:], strict=False)
    ]
