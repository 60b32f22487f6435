"""Comparators of returned values. Each takes the expected value and the actual one.

Both are plain data, rebuilt on this side of the sandbox's border: they hold no type
but Python's own, so that no comparison runs a program's code.
"""

import cmath
import math
from collections.abc import Callable

from jaxgrpo.host.judge.literal_values import is_same_value, value_key

IsClose = Callable[[complex, complex], bool]


def exact(expected: object, actual: object) -> bool:
    """Returns whether two values are the same, types included, at every depth.

    True is not 1, 1 is not 1.0, a tuple is not a list, 0.0 is not -0.0; nan is nan.

    Args:
      expected: Plain data.
      actual: Plain data.
    """
    return is_same_value(expected, actual)


def python_equal(expected: object, actual: object) -> bool:
    """Returns `expected == actual`, as Python has it: True is 1, nan is not nan.

    Args:
      expected: Plain data.
      actual: Plain data.
    """
    return expected == actual


def value(expected: object, actual: object) -> bool:
    """Returns whether two values agree, with what notation leaves open left open.

    At every depth: lists and tuples are alike; a bool only equals a bool; an int equals
    a float only where the float is the expected one; nan equals nan. Sets equal sets
    only; their elements, and the keys of dicts, have to be the same, types included.

    Args:
      expected: Plain data.
      actual: Plain data.

    Example:
      >>> value([1, (2.0,)], (1, [2])), value([1], [True]), value(2, 2.0)
      (True, False, False)
    """
    return agree(expected, actual, is_same_number)


def close(
    expected: object, actual: object, *, rel: float = 1e-6, abs: float = 1e-6
) -> bool:
    """Returns whether two values agree as by `value`, floats up to a tolerance.

    Numbers are compared with a tolerance only where the *expected* one is a float (or
    complex):

        |x - y| <= max(rel * max(|x|, |y|), abs)

    Args:
      expected: Plain data.
      actual: Plain data.
      rel: Relative tolerance, >= 0.
      abs: Absolute tolerance, >= 0.

    Example:
      >>> close([0.3], [0.1 + 0.2]), close(10**9, 10**9 + 1)
      (True, False)
    """

    def is_close(x: complex, y: complex) -> bool:
        if is_same_number(x, y):
            return True
        if isinstance(x, complex) or isinstance(y, complex):
            return cmath.isclose(x, y, rel_tol=rel, abs_tol=abs)
        return math.isclose(x, y, rel_tol=rel, abs_tol=abs)

    return agree(expected, actual, is_close)


def wrapped(expected: object, actual: object) -> bool:
    """Returns whether values agree as by `close`, or so does the only item expected.

    Some data sets wrap what a function returns in a list of one, and some rows of them
    do not, with nothing to tell which.

    Args:
      expected: Plain data; of a list of one, its item counts too.
      actual: Plain data.

    Example:
      >>> wrapped([3], 3), wrapped([3], [3]), wrapped([3, 4], 3)
      (True, True, False)
    """
    if close(expected, actual):
        return True
    if not isinstance(expected, list | tuple) or len(expected) != 1:
        return False
    return close(expected[0], actual)


def unordered(expected: object, actual: object) -> bool:
    """Returns whether two sequences hold the same items, in any order.

    Each item counts as often as it occurs. Items are compared as by `value`, floats
    exactly; order is free at the outermost level only.

    Args:
      expected: A list or tuple; for anything else this is `value`.
      actual: Plain data.

    Example:
      >>> unordered([1, 2, 2], (2, 1, 2)), unordered([1, 2], [1, 2, 2])
      (True, False)
    """
    if not (isinstance(expected, list | tuple) and isinstance(actual, list | tuple)):
        return value(expected, actual)
    # Sorted text, not counted values: no choice of numbers makes this slow.
    wanted, given = map(canonical_text, expected), map(canonical_text, actual)
    return sorted(wanted) == sorted(given)


def canonical_text(item: object) -> str:
    """A text that two values share if and only if they agree by `value`.

    With the exception that an int and an equal float never do.

    Args:
      item: Plain data.
    """
    if isinstance(item, list | tuple):
        return f"[{','.join(map(canonical_text, item))}]"
    if isinstance(item, set | frozenset):
        return f"{{{','.join(sorted(map(canonical_text, item)))}}}"
    if isinstance(item, dict):
        pairs = (f"{canonical_text(k)}:{canonical_text(v)}" for k, v in item.items())
        return f"({','.join(sorted(pairs))})"
    if type(item) is int:
        return hex(item)  # decimal digits are limited, and slow
    if type(item) is float:
        return (item + 0.0).hex()  # -0.0 equals 0.0
    return repr(item)


def is_same_number(x: complex, y: complex) -> bool:
    """Returns whether two numbers are equal, or both nan.

    Args:
      x: A number.
      y: Another.
    """
    return x == y or (x != x and y != y)


def agree(expected: object, actual: object, is_close: IsClose) -> bool:
    """Returns whether two values agree as by `value`, floats as a function says.

    Args:
      expected: Plain data.
      actual: Plain data.
      is_close: Takes the expected float (or complex) and the actual number.
    """
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(expected) == len(actual)
            and all(map(agree, expected, actual, [is_close] * len(actual)))
        )
    if isinstance(expected, dict):
        return isinstance(actual, dict) and _dicts_agree(expected, actual, is_close)
    if isinstance(expected, set | frozenset):
        is_set = isinstance(actual, set | frozenset)
        return is_set and is_same_value(set(expected), set(actual))
    if type(expected) in (float, complex):
        is_number = type(actual) in (int, float, type(expected))
        return is_number and _numbers_agree(expected, actual, is_close)
    return type(expected) is type(actual) and expected == actual


def _numbers_agree(expected: object, actual: object, is_close: IsClose) -> bool:
    assert isinstance(expected, float | complex)
    assert isinstance(actual, int | float | complex)
    try:
        return is_close(expected, actual)
    except OverflowError:  # an int that no float holds
        return False


def _dicts_agree(expected: dict, actual: dict, is_close: IsClose) -> bool:
    given = {value_key(key): item for key, item in actual.items()}
    if len(expected) != len(given):
        return False
    return all(
        value_key(key) in given and agree(item, given[value_key(key)], is_close)
        for key, item in expected.items()
    )
