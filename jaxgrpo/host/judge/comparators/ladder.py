"""MicroCoder's evaluator: rule after rule until one matches. Opt-in.

Whoever names this comparator accepts that the loosest rung decides, which is why it
says which one it was: a run that climbs is being paid for something else than answers.

Reference:
  MicroCoder-GRPO, 2026, https://arxiv.org/abs/2603.07777 (MicroCoder-Evaluator): direct
  equality, conversions between sequences, closeness of numbers and rounding, splitting
  of lines, sets, blanks. Its code is not released and its tolerances are not stated.
  Differs from it: order is only free on request, and then counts how often each item
  occurs (a set would take [1, 1, 2] for [1, 2]); tolerances are NumPy's defaults.
"""

import math
from collections.abc import Callable

from jaxgrpo.host.judge.comparators import text, values
from jaxgrpo.host.judge.literal_values import NotALiteralError, read_literal

Rung = tuple[str, Callable[[], bool]]


def ladder_of_text(
    expected: str,
    actual: str,
    *,
    rel: float = 1e-5,
    abs: float = 1e-8,
    digits: int = 6,
    unordered: bool = False,
) -> str:
    """Returns the first rung on which two outputs match, or nothing.

        exact      as the comparator `exact`
        lines      each line without blanks around it, empty lines left out
        tokens     all words, whatever the line breaks
        literal    both are one literal, and these agree as by `value`
        close      numbers within |x - y| <= abs + rel |x|, in text or literal
        rounded    numbers equal after rounding to `digits` decimals
        unordered  lines in any order (only if asked for)

    Args:
      expected: The wanted output.
      actual: The program's output.
      rel: Relative tolerance, >= 0.
      abs: Absolute tolerance, >= 0.
      digits: Decimals to round to.
      unordered: Whether the last rung is there.

    Example:
      >>> ladder_of_text("[1, 2]", "(1,2)"), ladder_of_text("0.3", "0.30000001")
      ('literal', 'close')
    """
    literals = _literals(expected, actual)
    words = expected.split(), actual.split()

    def numbers_agree(is_close: values.IsClose) -> bool:
        if literals and _agree(*literals, is_close):
            return True
        return _words_agree(*words, is_close)

    rungs: list[Rung] = [
        ("exact", lambda: text.exact(expected, actual)),
        ("lines", lambda: _stripped(expected) == _stripped(actual)),
        ("tokens", lambda: words[0] == words[1]),
        ("literal", lambda: bool(literals) and values.value(*literals)),
        ("close", lambda: numbers_agree(_closeness(rel, abs))),
        ("rounded", lambda: numbers_agree(_rounding(digits))),
    ]
    if unordered:
        same = sorted(_stripped(expected)) == sorted(_stripped(actual))
        rungs.append(("unordered", lambda: same))
    return _first_match(rungs)


def ladder_of_values(
    expected: object,
    actual: object,
    *,
    rel: float = 1e-5,
    abs: float = 1e-8,
    digits: int = 6,
    unordered: bool = False,
) -> str:
    """Returns the first rung on which two values match, or nothing.

        exact      as the comparator `exact`
        equal      as Python's `==`
        sequences  lists, tuples and sets of the same items in the same order
        close, rounded, unordered    as for text

    Args:
      expected: Plain data.
      actual: Plain data.
      rel: Relative tolerance, >= 0.
      abs: Absolute tolerance, >= 0.
      digits: Decimals to round to.
      unordered: Whether the last rung is there.
    """
    pair = _as_lists(expected), _as_lists(actual)
    rungs: list[Rung] = [
        ("exact", lambda: values.exact(expected, actual)),
        ("equal", lambda: expected == actual),
        ("sequences", lambda: values.value(*pair)),
        ("close", lambda: _agree(*pair, _closeness(rel, abs))),
        ("rounded", lambda: _agree(*pair, _rounding(digits))),
    ]
    if unordered:
        rungs.append(("unordered", lambda: values.unordered(*pair)))
    return _first_match(rungs)


def _first_match(rungs: list[Rung]) -> str:
    for name, is_match in rungs:
        try:
            if is_match():
                return name
        except (ValueError, TypeError, OverflowError):
            continue  # As the original: a rule that fails gives way to the next.
    return ""


def _stripped(output: str) -> list[str]:
    return [line.strip() for line in output.splitlines() if line.strip()]


def _literals(expected: str, actual: str) -> tuple[object, object] | None:
    try:
        return read_literal(expected), read_literal(actual)
    except NotALiteralError:
        return None


def _as_lists(item: object) -> object:
    if isinstance(item, set | frozenset):
        return sorted(map(_as_lists, item), key=values.canonical_text)
    if isinstance(item, list | tuple):
        return [_as_lists(part) for part in item]
    return item


def _closeness(rel: float, abs_: float) -> values.IsClose:
    def is_close(x: complex, y: complex) -> bool:
        return values.is_same_number(x, y) or abs(x - y) <= abs_ + rel * abs(x)

    return is_close


def _rounding(digits: int) -> values.IsClose:
    def is_close(x: complex, y: complex) -> bool:
        if isinstance(x, complex) or isinstance(y, complex):
            return False
        return round(x, digits) == round(y, digits)

    return is_close


def _agree(expected: object, actual: object, is_close: values.IsClose) -> bool:
    return values.agree(_floats(expected), actual, is_close)


def _floats(item: object) -> object:
    """The value with floats for ints, so that a tolerance applies to all numbers."""
    if isinstance(item, list | tuple):
        return [_floats(part) for part in item]
    if type(item) is int and abs(item) < 2**53:
        return float(item)
    return item


def _words_agree(wanted: list[str], given: list[str], is_close: values.IsClose) -> bool:
    if len(wanted) != len(given):
        return False
    return all(
        x == y or _numbers_agree(text.number(x), text.number(y), is_close)
        for x, y in zip(wanted, given, strict=True)
    )


def _numbers_agree(x: float | None, y: float | None, is_close: values.IsClose) -> bool:
    return x is not None and y is not None and not math.isnan(x) and is_close(x, y)
