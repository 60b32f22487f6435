"""Comparators of printed output. Each takes the expected text and the actual one.

Blanks and line ends that nobody can see never count: those at the end of a line, and
empty lines at the end of the text.
"""

import math
import re

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BLANKS = " \t\r\f\v"
_WORD = re.compile(rf"[^{_BLANKS}]+")


def exact(expected: str, actual: str) -> bool:
    r"""Returns whether two outputs look the same.

    Args:
      expected: The wanted output.
      actual: The program's output.

    Example:
      >>> exact("1 2\n", "1 2 \n\n"), exact("1 2", "1  2"), exact("1 2", " 1 2")
      (True, False, False)
    """
    return visible_lines(expected) == visible_lines(actual)


def tokens(expected: str, actual: str) -> bool:
    r"""Returns whether two outputs have the same words in each line.

    Tokens are separated by any run of ASCII blanks; line breaks count, and so do
    letters' case and the spelling of numbers.

    Args:
      expected: The wanted output.
      actual: The program's output.

    Example:
      >>> tokens("1 2\nx", "1  2\n x "), tokens("1 2", "1\n2"), tokens("1", "1.0")
      (True, False, False)
    """
    return lines_of_tokens(expected) == lines_of_tokens(actual)


def close_tokens(
    expected: str, actual: str, *, rel: float = 1e-6, abs: float = 1e-6
) -> bool:
    """Returns whether outputs agree as `tokens`, fractions up to a tolerance.

    A token is compared as a number only where the *expected* one is a number in ASCII
    with a point or an exponent:

        |x - y| <= max(rel * max(|x|, |y|), abs)

    All others, integers among them, are compared as text.

    Args:
      expected: The wanted output.
      actual: The program's output.
      rel: Relative tolerance, >= 0.
      abs: Absolute tolerance, >= 0.

    Example:
      >>> close_tokens("0.5 7", ".50000001 7"), close_tokens("7", "7.0")
      (True, False)
    """
    wanted, given = lines_of_tokens(expected), lines_of_tokens(actual)
    if [len(line) for line in wanted] != [len(line) for line in given]:
        return False
    pairs = (
        pair
        for lines in zip(wanted, given, strict=True)
        for pair in zip(*lines, strict=True)
    )
    return all(_are_close(x, y, rel, abs) for x, y in pairs)


def unordered_lines(expected: str, actual: str) -> bool:
    """Returns whether two outputs have the same lines, in any order.

    Each line counts as often as it occurs, and is compared by its tokens.

    Args:
      expected: The wanted output.
      actual: The program's output.
    """
    return sorted(lines_of_tokens(expected)) == sorted(lines_of_tokens(actual))


def unordered_tokens(expected: str, actual: str) -> bool:
    """Returns whether two outputs have the same tokens in each line, in any order.

    Args:
      expected: The wanted output.
      actual: The program's output.
    """
    wanted, given = lines_of_tokens(expected), lines_of_tokens(actual)
    return [sorted(line) for line in wanted] == [sorted(line) for line in given]


def visible_lines(text: str) -> list[str]:
    """Lines without the blanks at their ends, and without empty ones at the end."""
    lines = [line.rstrip(_BLANKS) for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def lines_of_tokens(text: str) -> list[list[str]]:
    """The words of each visible line."""
    return [_WORD.findall(line) for line in visible_lines(text)]


def fraction(token: str) -> float | None:
    """The number that a token with a point or an exponent spells; None for others."""
    is_fraction = "." in token or "e" in token.lower()
    return number(token) if is_fraction else None


def number(token: str) -> float | None:
    """The finite number that a token spells in ASCII, or None."""
    if not _NUMBER.fullmatch(token):
        return None
    value = float(token)
    return value if math.isfinite(value) else None


def _are_close(expected: str, actual: str, rel: float, abs: float) -> bool:
    if expected == actual:
        return True
    wanted = fraction(expected)
    given = number(actual) if wanted is not None else None
    if wanted is None or given is None:
        return False
    return math.isclose(wanted, given, rel_tol=rel, abs_tol=abs)
