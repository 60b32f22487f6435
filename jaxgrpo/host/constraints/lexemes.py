"""The words of literals, byte by byte: numbers, strings, characters beyond ASCII."""

from collections.abc import Mapping

from jaxgrpo.host.constraints.byte_automaton import Sketch
from jaxgrpo.host.constraints.stack_moves import Move

DIGITS = b"0123456789"
HEX = b"0123456789abcdefABCDEF"


def add_number(
    sketch: Sketch, name: str, sources: Mapping[str, Move], exponents: bytes
) -> tuple[str, ...]:
    r"""Adds an integer or decimal fraction, with or without exponent, without sign.

        (0 | [1-9][0-9]*) (\. [0-9]+)? ([eE] [+-]? [0-9]+)?

    Args:
      sketch: Gets the states.
      name: Begins the names of its states.
      sources: The states that the first digit leaves, with the move it makes.
      exponents: Letters that begin an exponent.

    Returns:
      The states in which the number may end.
    """
    zero, integer, fraction, power = (
        f"{name} {part}" for part in ("0", "1", ".0", "e0")
    )
    point, letter, sign = f"{name} .", f"{name} e", f"{name} e+"
    for source, move in sources.items():
        sketch.edge(source, b"0", zero, move)
        sketch.edge(source, b"123456789", integer, move)
    sketch.edge(integer, DIGITS, integer)
    for whole in (zero, integer):
        sketch.edge(whole, b".", point)
    for begun in (point, fraction):
        sketch.edge(begun, DIGITS, fraction)
    for mantissa in (zero, integer, fraction):
        sketch.edge(mantissa, exponents, letter)
    sketch.edge(letter, b"+-", sign)
    for begun in (letter, sign, power):
        sketch.edge(begun, DIGITS, power)
    return zero, integer, fraction, power


def add_characters(
    sketch: Sketch, inside: str, ascii_characters: bytes, *, breaks_lines: bool
) -> None:
    """Adds the characters of a string, each of which leads back inside.

    Bytes beyond ASCII must be UTF-8 (no overlong forms, no surrogates).

    Args:
      sketch: Gets the states.
      inside: The state within the string.
      ascii_characters: What may stand for itself.
      breaks_lines: Whether U+0080 to U+009F, U+2028 and U+2029 may: some readers end
        a line at them.
    """
    sketch.edge(inside, ascii_characters, inside)
    last, two, three = (f"{inside} utf-{count}" for count in (1, 2, 3))
    any_next = range(0x80, 0xC0)
    sketch.edge(last, any_next, inside)
    sketch.edge(two, any_next, last)
    sketch.edge(three, any_next, two)
    sketch.edge(inside, range(0xC2 if breaks_lines else 0xC3, 0xE0), last)
    # First bytes after which the second one is restricted, and what follows it.
    restricted = {
        0xE0: (range(0xA0, 0xC0), last),
        0xED: (range(0x80, 0xA0), last),
        0xF0: (range(0x90, 0xC0), two),
        0xF4: (range(0x80, 0x90), two),
    }
    if not breaks_lines:
        restricted[0xC2] = (range(0xA0, 0xC0), inside)
        _add_without_line_separators(sketch, inside, last)
    for first, (second, target) in restricted.items():
        state = f"{inside} utf {first:x}"
        sketch.edge(inside, [first], state)
        sketch.edge(state, second, target)
    for first in range(0xE1, 0xF0):
        if not sketch.has_edge(inside, first):
            sketch.edge(inside, [first], two)
    sketch.edge(inside, range(0xF1, 0xF4), three)


def _add_without_line_separators(sketch: Sketch, inside: str, last: str) -> None:
    """Adds U+2000 to U+2FFF without U+2028 and U+2029: e2 80 a8 and e2 80 a9."""
    second, third = f"{inside} utf e2", f"{inside} utf e2 80"
    sketch.edge(inside, [0xE2], second)
    sketch.edge(second, [0x80], third)
    sketch.edge(second, range(0x81, 0xC0), last)
    sketch.edge(third, [*range(0x80, 0xA8), *range(0xAA, 0xC0)], inside)


def add_hex_escapes(
    sketch: Sketch, escape: str, inside: str, digits: Mapping[int, int]
):
    r"""Adds escapes such as `\x0a` and `\u00e9`: a letter and a number of digits.

    Args:
      sketch: Gets the states.
      escape: The state after the backslash.
      inside: The state within the string.
      digits: How many digits follow each letter, as {byte: count}.
    """
    names = [inside, *(f"{inside} hex{left}" for left in range(1, 9))]
    for left in range(1, max(digits.values()) + 1):
        sketch.edge(names[left], HEX, names[left - 1])
    for letter, count in digits.items():
        sketch.edge(escape, [letter], names[count])
