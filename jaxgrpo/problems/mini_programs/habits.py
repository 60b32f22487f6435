"""Sketches as a careless reader takes them: each mistake is one of a few habits."""

from dataclasses import replace

from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.mini_programs.sketch import Piece, Sketch

PREDICATE = 0.6
SOURCE = 0.55
MAPPING = 0.5
FORGOTTEN_MAPPING = 0.15
ENDING = 0.4
FORGOTTEN_ENDING = 0.2
FORGOTTEN_GUARD = 0.4
FORGOTTEN_STOP = 0.3
OTHER_CONNECTIVE = 0.25
SWAPPED_BRANCH = 0.25
FOLD = 0.55


def careless(sketch: Sketch, dice: Dice) -> Sketch:
    """Returns the sketch with some misreadings, perhaps with none.

    Each habit strikes on its own, with its own probability: bounds are taken in or
    left out, ranges end one early, parts at the end of a sentence are forgotten.

    Args:
      sketch: What was asked for.
      dice: Decides which habits strike.
    """

    def slipped(piece: Piece | None, probability: float) -> Piece | None:
        strikes = dice.chance(probability)
        if piece is None or not piece.slip or not strikes:
            return piece
        return replace(piece, code=piece.slip)

    def kept(piece: Piece, probability: float) -> Piece:
        result = slipped(piece, probability)
        assert result is not None
        return result

    source = kept(sketch.source, SOURCE)
    conditions = tuple(kept(piece, PREDICATE) for piece in sketch.conditions)
    stop = slipped(sketch.stop, PREDICATE)
    if dice.chance(FORGOTTEN_STOP):
        stop = None
    branch = sketch.branch
    if branch is not None:
        branch = replace(branch, condition=kept(branch.condition, PREDICATE))
        if dice.chance(SWAPPED_BRANCH):
            branch = replace(branch, mapping=branch.otherwise, otherwise=branch.mapping)
    mapping = slipped(sketch.mapping, MAPPING)
    if dice.chance(FORGOTTEN_MAPPING) and sketch.element != "word":
        mapping = None
    ending = slipped(sketch.ending, ENDING)
    if dice.chance(FORGOTTEN_ENDING):
        ending = None
    connective = sketch.connective
    if len(conditions) > 1 and dice.chance(OTHER_CONNECTIVE):
        connective = "or" if connective == "and" else "and"
    return replace(
        sketch,
        source=source,
        conditions=conditions,
        connective=connective,
        stop=stop,
        branch=branch,
        mapping=mapping,
        ending=ending,
        fold_slips=dice.chance(FOLD),
        guard=None if dice.chance(FORGOTTEN_GUARD) else sketch.guard,
    )
