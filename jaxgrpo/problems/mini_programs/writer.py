"""Draws sketches: which parts a specification has, and what fills their slots."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.mini_programs.folds import FOLDS, Fold
from jaxgrpo.problems.mini_programs.grammar import (
    ARGUMENTS,
    ENDINGS,
    MAPPINGS,
    PARTS,
    PREDICATES,
    RANGES,
    Part,
)
from jaxgrpo.problems.mini_programs.sketch import (
    Branch,
    Element,
    Guard,
    Piece,
    Sketch,
)

_ELEMENTS: tuple[Element, ...] = ("number", "letter", "word")
_ELEMENT_WEIGHTS = (6.0, 2.0, 2.0)
_NUMBER_ARGUMENT = 0.25
_DIGITS = 0.25
_K_ARGUMENT = 0.15
_MEASURED = 0.3
_SECOND_CONDITION = 0.35

_FOLDS: dict[Element, tuple[str, ...]] = {
    "number": (
        "sum", "sum", "sum", "count", "count", "product", "largest", "smallest",
        "first", "last", "list", "list", "list", "running", "distinct", "table",
        "any", "all",
    ),
    "letter": (
        "count", "join", "join", "join", "list", "distinct", "table", "any", "all",
        "first", "last",
    ),
    "word": (
        "count", "list", "list", "join", "distinct", "any", "all", "first", "last",
        "table",
    ),
}  # fmt: skip
"""Of equal weight each."""
_MEASURED_FOLDS = ("sum", "largest", "smallest", "list", "running", "product")
"""Of words that are replaced by their length."""

_OPTIONS = ("part", "condition", "stop", "branch", "mapping", "ending", "guard")
_EXCLUSIVE = (("branch", "condition"), ("branch", "mapping"))
"""Options of which a sketch has one at most."""
_NEEDS_CONDITION = ("count", "any", "all", "first", "last", "table")
"""Folds that say little of elements without a condition."""
_COMMON = ("other", "consonant", "indivisible", "lacks")
"""Predicates that hold for most elements: a loop that stops at them ends at once."""

_SLOTS: dict[str, Callable[[Dice], str]] = {
    "{k}": lambda dice: str(dice.between(1, 9)),
    "{d}": lambda dice: str(dice.between(3, 5)),
    "{p}": lambda dice: str(dice.between(2, 4)),
    "{a}": lambda dice: dice.pick("abcdefgh"),
}


@dataclass(frozen=True, slots=True)
class _Frame:
    """What decides which options a sketch may have."""

    element: Element
    is_number: bool
    """The argument is one number, not a list of elements."""
    fold_name: str
    is_measured: bool
    """Words are replaced by their length."""

    @property
    def fold(self) -> Fold:
        return FOLDS[self.fold_name]

    @property
    def argument(self) -> str:
        return "n" if self.is_number else ARGUMENTS[self.element]


class SketchWriter:
    """Draws one sketch.

    Args:
      dice: Decides everything.
    """

    def __init__(self, dice: Dice):
        self._dice = dice
        self._k_is_free = dice.chance(_K_ARGUMENT)
        self._uses_k = False

    def sketch(self, num_options: int) -> Sketch:
        """Returns a sketch with so many options, or fewer where they do not fit.

        Args:
          num_options: Parts besides argument and fold, and besides the condition that
            some folds need.
        """
        frame = self._frame()
        options = self._options(frame, num_options)
        element, fold_name = frame.element, frame.fold_name
        # In this order: every draw moves the dice.
        source = self._source(frame, "part" in options)
        conditions, connective = self._conditions(element, "condition" in options)
        stop = self._stop(element) if "stop" in options else None
        branch = self._branch(element) if "branch" in options else None
        mapping = self._mapping(frame, "mapping" in options)
        endings = ENDINGS.get(frame.fold.gives, {})
        ending = self._piece(endings) if "ending" in options else None
        start = self._start(fold_name, element)
        guard = self._guard(frame) if "guard" in options else None
        return Sketch(
            element=element,
            argument=frame.argument,
            has_k=self._uses_k,
            source=source,
            conditions=conditions,
            connective=connective,
            stop=stop,
            branch=branch,
            mapping=mapping,
            fold_name=fold_name,
            start=start,
            ending=ending,
            guard=guard,
        )

    def _frame(self) -> _Frame:
        dice = self._dice
        element = dice.weighted(_ELEMENTS, list(accumulate(_ELEMENT_WEIGHTS)))
        is_number = element == "number" and dice.chance(_NUMBER_ARGUMENT)
        fold_name = dice.pick(_FOLDS[element])
        is_measured = element == "word" and dice.chance(_MEASURED)
        if is_measured:
            fold_name = dice.pick(_MEASURED_FOLDS)
        return _Frame(element, is_number, fold_name, is_measured)

    def _options(self, frame: _Frame, num_options: int) -> set[str]:
        excluded = set()
        if frame.is_number or not num_options:
            excluded.add("part")
        if not frame.fold.maps or frame.is_measured:
            excluded |= {"branch", "mapping"}
        if frame.fold.gives not in ENDINGS:
            excluded.add("ending")
        if frame.element != "number":
            excluded.add("branch")
        if frame.fold_name == "first":
            excluded.add("stop")
        left = [name for name in _OPTIONS if name not in excluded]
        needs_condition = frame.fold_name in _NEEDS_CONDITION
        chosen = {"condition"} if needs_condition else set()
        wanted = num_options + len(chosen)
        while left and len(chosen) < wanted:
            name = left.pop(self._dice.between(0, len(left) - 1))
            chosen.add(name)
            for group in _EXCLUSIVE:
                if name in group:
                    left = [other for other in left if other not in group]
        return chosen - {"branch"} if needs_condition else chosen

    def _source(self, frame: _Frame, has_part: bool) -> Piece:
        if frame.is_number:
            if self._dice.chance(_DIGITS):
                fact = "The digits of a number are the letters of its text."
                return Piece(code="map(int, str(n))", words="", fact=fact)
            return self._piece(RANGES)
        name = frame.argument
        if not has_part:
            return Piece(code=name, words="", fact="")
        piece = self._piece(PARTS)
        return Piece(
            code=piece.code.replace("{v}", name),
            words=piece.words,
            fact=piece.fact,
            slip=piece.slip.replace("{v}", name),
        )

    def _conditions(
        self, element: Element, has_any: bool
    ) -> tuple[tuple[Piece, ...], Literal["and", "or"]]:
        if not has_any:
            return (), "and"
        first = self._piece(PREDICATES[element])
        if not self._dice.chance(_SECOND_CONDITION):
            return (first,), "and"
        second = self._piece(PREDICATES[element])
        if second.code.split(" ")[:3] == first.code.split(" ")[:3]:
            return (first,), "and"
        return (first, second), self._dice.pick(("and", "or"))

    def _stop(self, element: Element) -> Piece:
        parts = PREDICATES[element]
        return self._piece({k: v for k, v in parts.items() if k not in _COMMON})

    def _branch(self, element: Element) -> Branch:
        first = self._piece(MAPPINGS[element])
        second = self._piece(MAPPINGS[element])
        while second.code == first.code:
            second = self._piece(MAPPINGS[element])
        return Branch(
            condition=self._piece(PREDICATES[element]), mapping=first, otherwise=second
        )

    def _mapping(self, frame: _Frame, is_wanted: bool) -> Piece | None:
        if frame.is_measured:
            return self._filled(MAPPINGS["word"]["length"])
        if not is_wanted:
            return None
        parts = MAPPINGS[frame.element]
        # Folds fit the type of the element.
        return self._piece({k: v for k, v in parts.items() if not v.gives})

    def _start(self, fold_name: str, element: Element) -> str:
        if not FOLDS[fold_name].has_start:
            return ""
        if fold_name not in ("first", "last"):
            return str(self._dice.between(1, 9))
        if element == "number":
            return self._dice.pick(("-1", "0", "None", "99"))
        return self._dice.pick(("'none'", "'?'", "''"))

    def _guard(self, frame: _Frame) -> Guard:
        value = {
            "number": str(self._dice.between(-3, 9)),
            "list": f"[{self._dice.between(0, 9)}]",
            "text": "'short'",
            "truth": self._dice.pick(("True", "False")),
            "table": "None",
            "element": "None" if frame.element == "number" else "'short'",
        }[frame.fold.gives]
        return Guard(size=self._dice.between(2, 4), value=value)

    def _piece(self, parts: Mapping[str, Part]) -> Piece:
        return self._filled(parts[self._dice.pick(tuple(parts))])

    def _filled(self, part: Part) -> Piece:
        values = {slot: draw(self._dice) for slot, draw in _SLOTS.items()}
        if self._k_is_free and not self._uses_k and "{k}" in part.code:
            values["{k}"] = "k"
            self._uses_k = True
        words = part.words[0]
        if len(part.words) > 1:
            words = self._dice.pick(part.words)
        return Piece(
            code=_filled(part.code, values),
            words=_filled(words, values),
            fact=_filled(part.fact, values),
            slip=_tidied(_filled(part.slip, values)),
        )


def _filled(text: str, values: Mapping[str, str]) -> str:
    for slot, value in values.items():
        text = text.replace(slot, value)
    return text


def _tidied(code: str) -> str:
    """Writes the sums out that a filled slip may hold: `xs[2 + 1:]`."""
    for number in range(10):
        code = code.replace(f"[{number} + 1:]", f"[{number + 1}:]")
        code = code.replace(f"[:{number} - 1]", f"[:{number - 1}]")
    return code
