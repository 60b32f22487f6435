"""Writes small Python functions with a call, from a seed."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.output_prediction.grammar import (
    ARGUMENT_WEIGHTS,
    CONDITIONS,
    END,
    EXPRESSIONS,
    LETTERS,
    LOOPS,
    MUTATIONS,
    NAMES,
)

LEVELS = ("trivial", "easy", "medium", "hard")
"""Names of the difficulties: functions drawn with 0, 1, 2 and 3 steps before the
return."""

_LEVEL_WEIGHTS = (2.0, 4.0, 3.0, 1.0)
_SECOND_ARGUMENT = 0.35
_CHANGE_VARIABLE = 0.25
_MUTATE = 0.35
_LOOP = 0.2
_GUARD = 0.3
_OVERWRITE = 0.6
_EARLY_RETURN = 0.12
_RETURN_VARIABLE = 0.35
_VARIABLE_AS_CONSTANT = 0.5

_SLOT = re.compile(r"\$([A-Z])")

Variable = tuple[str, str]
"""A variable's name and its type in the grammar."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A function and a call of it, not yet executed: the call may well fail."""

    code: str
    """Source of a function named `f`, without a final newline."""
    call: str
    """An expression that calls `f` with literal arguments."""
    level: str
    """One of `LEVELS`."""


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
    writer = _Writer(_Dice(f"{seed}/{chunk}"))
    return [writer.draft() for _ in range(count)]


class _Dice(Dice):
    """Random choices, and the values that programs are about."""

    def letters(self, low: int, high: int) -> str:
        return "".join(self.pick(LETTERS) for _ in range(self.between(low, high)))

    def digits(self, low: int, high: int) -> list[int]:
        return [self.between(0, 9) for _ in range(self.between(low, high))]

    def distinct_letters(self, low: int, high: int) -> list[str]:
        left = list(LETTERS)
        count = self.between(low, high)
        return [left.pop(self.between(0, len(left) - 1)) for _ in range(count)]


_DICE_SLOTS: dict[str, Callable[[_Dice], str]] = {
    "B": lambda dice: str(dice.between(0, 1)),
    "C": lambda dice: repr(dice.pick(LETTERS)),
    "I": lambda dice: str(dice.between(1, 3)) if dice.chance(0.8) else "0",
    "L": lambda dice: str(dice.between(2, 4)),
    "P": lambda dice: dice.pick(("<", "<", ">", ">", "==")),
    "S": lambda dice: str(dice.between(2, 3)),
}

_VALUES: dict[str, Callable[[_Dice], object]] = {
    "int": lambda dice: dice.between(0, 9),
    "str": lambda dice: dice.letters(2, 5),
    "list": lambda dice: dice.digits(2, 5),
    "tuple": lambda dice: tuple(dice.digits(2, 4)),
    "strs": lambda dice: [dice.letters(1, 3) for _ in range(dice.between(2, 3))],
    "dict": lambda dice: {c: dice.between(0, 9) for c in dice.distinct_letters(2, 3)},
    "lists": lambda dice: [dice.digits(1, 3) for _ in range(dice.between(2, 3))],
    "groups": lambda dice: {c: dice.digits(1, 2) for c in dice.distinct_letters(2, 2)},
    "pairs": lambda dice: [
        (dice.pick(LETTERS), dice.between(0, 9)) for _ in range(dice.between(2, 3))
    ],
}


@cache
def _slots(template: str) -> tuple[str, ...]:
    """Splits a template: text at even positions, slot letters at odd ones."""
    return tuple(_SLOT.split(template))


@cache
def _cumulative(type_name: str) -> tuple[float, ...]:
    return tuple(accumulate(weight for _, _, weight in EXPRESSIONS[type_name]))


_ARGUMENT_TYPES = tuple(ARGUMENT_WEIGHTS)
_ARGUMENT_CUMULATIVE = tuple(accumulate(ARGUMENT_WEIGHTS.values()))
_LEVEL_CUMULATIVE = tuple(accumulate(_LEVEL_WEIGHTS))


class _Writer:
    """Writes one function after the other from one stream of random numbers."""

    def __init__(self, dice: _Dice):
        self._dice = dice
        self._variables: list[Variable] = []
        self._current: Variable = ("", "")
        self._lines: list[str] = []

    def draft(self) -> Draft:
        """Returns a new function and a call of it."""
        arguments = self._arguments()
        self._variables = list(arguments)
        self._current = arguments[0]
        self._lines = []
        steps = LEVELS.index(self._dice.weighted(LEVELS, _LEVEL_CUMULATIVE))
        for _ in range(steps):
            self._step()
        result = self._result(may_be_variable=steps > 0)
        parameters = ", ".join(name for name, _ in arguments)
        body = "".join(f"\n {line}" for line in [*self._lines, f"return {result}"])
        values = ", ".join(repr(_VALUES[kind](self._dice)) for _, kind in arguments)
        return Draft(f"def f({parameters}):{body}", f"f({values})", LEVELS[steps])

    def _arguments(self) -> list[Variable]:
        dice = self._dice
        kind = dice.weighted(_ARGUMENT_TYPES, _ARGUMENT_CUMULATIVE)
        arguments = [(dice.pick(NAMES[kind]), kind)]
        if dice.chance(_SECOND_ARGUMENT):
            is_int = kind != "int" or dice.chance(0.5)
            second = "int" if is_int else dice.pick(("list", "str"))
            arguments.append((self._fresh_name(second, arguments), second))
        return arguments

    def _fresh_name(self, kind: str, variables: list[Variable]) -> str:
        """Returns an unused name for the type, or a used one if none is left."""
        used = {name for name, _ in variables}
        free = [name for name in NAMES[kind] if name not in used]
        return self._dice.pick(free or NAMES[kind])

    def _step(self) -> None:
        """Adds a mutation, a loop or an assignment, and perhaps an early return."""
        dice = self._dice
        if dice.chance(_CHANGE_VARIABLE):
            self._current = dice.pick(self._variables)
        kind = self._current[1]
        draw = dice.fraction()
        if draw < _MUTATE and MUTATIONS[kind]:
            self._mutate()
        elif draw < _MUTATE + _LOOP and LOOPS[kind]:
            self._loop()
        else:
            self._assign()
        if self._lines and dice.chance(_EARLY_RETURN):
            variable = dice.pick(self._variables)
            self._lines.append(f"if {self._condition()}:")
            self._lines.append(f" return {self._expression(variable)[0]}")

    def _mutate(self) -> None:
        statement = self._fill(
            self._dice.pick(MUTATIONS[self._current[1]]), self._current
        )
        self._add(statement, may_be_guarded="\n" not in statement)

    def _loop(self) -> None:
        template, kind = self._dice.pick(LOOPS[self._current[1]])
        result = self._fresh_name(kind, self._variables)
        if result == self._current[0]:
            return  # Every name is taken, and the loop would read what it resets.
        self._add(self._fill(template, self._current, result), may_be_guarded=False)
        self._define(result, kind)

    def _assign(self) -> None:
        name, kind = self._current
        expression, result_kind = self._expression(self._current)
        if result_kind == END:
            return
        is_overwritten = result_kind == kind and self._dice.chance(_OVERWRITE)
        target = (
            name if is_overwritten else self._fresh_name(result_kind, self._variables)
        )
        self._add(f"{target} = {expression}", may_be_guarded=target == name)
        self._define(target, result_kind)

    def _define(self, name: str, kind: str) -> None:
        """Makes a variable the current one, and the only one of its name."""
        self._current = (name, kind)
        others = [variable for variable in self._variables if variable[0] != name]
        self._variables = [*others, self._current]

    def _add(self, statement: str, *, may_be_guarded: bool) -> None:
        """Adds a statement, sometimes under an `if`."""
        if may_be_guarded and self._dice.chance(_GUARD):
            statement = f"if {self._condition()}:\n {statement}"
        self._lines.extend(statement.split("\n"))

    def _condition(self) -> str:
        variable = self._dice.pick(self._variables)
        return self._fill(self._dice.pick(CONDITIONS[variable[1]]), variable)

    def _expression(self, variable: Variable) -> tuple[str, str]:
        """Returns an expression of the variable and the type of its value."""
        kind = variable[1]
        template, result_kind, _ = self._dice.weighted(
            EXPRESSIONS[kind], _cumulative(kind)
        )
        return self._fill(template, variable), result_kind

    def _result(self, *, may_be_variable: bool) -> str:
        if may_be_variable and self._dice.chance(_RETURN_VARIABLE):
            return self._current[0]
        return self._expression(self._current)[0]

    def _fill(self, template: str, variable: Variable, result: str = "") -> str:
        """Writes a template's slots; every occurrence of a slot is drawn anew."""
        pieces = list(_slots(template))
        for index in range(1, len(pieces), 2):
            slot = pieces[index]
            if slot == "V":
                pieces[index] = variable[0]
            elif slot == "R":
                pieces[index] = result
            elif slot == "K":
                pieces[index] = self._constant(variable)
            else:
                pieces[index] = _DICE_SLOTS[slot](self._dice)
        return "".join(pieces)

    def _constant(self, variable: Variable) -> str:
        """Returns a digit, or another variable that holds an int."""
        ints = [
            name
            for name, kind in self._variables
            if kind == "int" and name != variable[0]
        ]
        if ints and self._dice.chance(_VARIABLE_AS_CONSTANT):
            return self._dice.pick(ints)
        return str(self._dice.between(0, 9))
