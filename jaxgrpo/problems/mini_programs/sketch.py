"""What a specification asks for, before it is put into words or into code."""

from dataclasses import dataclass
from typing import Literal

from jaxgrpo.problems.mini_programs.folds import FOLDS, Fold
from jaxgrpo.problems.mini_programs.grammar import VARIABLES

Element = Literal["number", "letter", "word"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part with its slots filled and its words chosen."""

    code: str
    words: str
    fact: str
    slip: str = ""
    """Code of the usual misreading; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Elements that become one thing where a condition holds, and another elsewhere."""

    condition: Piece
    mapping: Piece
    otherwise: Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Arguments that are answered without a loop."""

    size: int
    """Shorter lists and texts, or smaller numbers, are answered by `value`."""
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """Elements of an argument, chosen, changed, folded."""

    element: Element
    argument: str
    """Name of the first argument."""
    has_k: bool = False
    """Whether a number `k` is the second."""
    source: Piece
    """What the loop goes through."""
    conditions: tuple[Piece, ...] = ()
    connective: Literal["and", "or"] = "and"
    stop: Piece | None = None
    """Ends the loop before the element that it holds for."""
    branch: Branch | None = None
    mapping: Piece | None = None
    fold_name: str
    start: str = ""
    """What the fold starts from or falls back to; empty where that is fixed."""
    fold_slips: bool = False
    """Whether the fold's usual slip is made."""
    ending: Piece | None = None
    guard: Guard | None = None

    @property
    def fold(self) -> Fold:
        """How the elements become the result."""
        return FOLDS[self.fold_name]

    @property
    def variable(self) -> str:
        """Of the loop."""
        return VARIABLES[self.element]
