"""What a literal stands for, read safely, and when two values are the same.

`ast.literal_eval` is no reader for text that training pressure writes: deep nesting
crashes some versions of it, it skips over comments, and it does not know `nan`. This
reader takes less text, within bounds of size and depth, and never runs any of it.
"""

import ast
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

MAX_CHARACTERS = 20_000
"""Longer text is not read as a literal."""
MAX_DEPTH = 64
"""Deepest nesting of brackets that is read."""
MAX_DIGITS = 4_300
"""Longest number that is read, in characters; Python's own default limit."""

_DIGITS = r"[0-9](?:_?[0-9])*"
# Triple-quoted strings are left out: `repr` never writes one.
_TOKEN = re.compile(
    rf"""
    (?P<space>   [ \t\f]+ )
  | (?P<newline> [\r\n]+ )
  | (?P<number>  (?: 0[xX](?:_?[0-9a-fA-F])+ | 0[oO](?:_?[0-7])+ | 0[bB](?:_?[01])+
                   | (?:{_DIGITS}(?:\.(?:{_DIGITS})?)? | \.{_DIGITS})
                     (?:[eE][+-]?{_DIGITS})? [jJ]? )
                 (?![\w.]) )
  | (?P<string>  (?: [bB][rR]? | [rR][bB]? | [uU] )? (?! '{{3}} | "{{3}} )
                 (?: '(?:[^'\\\r\n\0]|\\[^\r\n\0])*'
                   | "(?:[^"\\\r\n\0]|\\[^\r\n\0])*" ) )
  | (?P<name>    [A-Za-z]+ (?!\w) )
  | (?P<mark>    [][(){{}},:+-] )
    """,
    re.VERBOSE,
)
_NAMES = {"True": True, "False": False, "None": None}
# JSON's names are understood, so that a right value in JSON's spelling is known as one.
_JSON_NAMES = {"true": True, "false": False, "null": None}
_FLOAT_NAMES = ("nan", "inf", "NaN", "Infinity")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class NotALiteralError(ValueError):
    """The text is not exactly one literal, or is too large to be read as one."""


class _Token(NamedTuple):
    kind: str
    """number, string, name, mark or end."""
    text: str


def read_literal(text: str) -> object:
    """Returns the value of a text that is exactly one literal.

    Understood are Python's literals of None, bool, int, float, complex, str, bytes and
    of tuples, lists, dicts and sets of them; what `repr` writes for `nan`, `inf`,
    `set()` and frozensets; and JSON's names true, false, null, NaN and Infinity.
    Surrounding whitespace is ignored. Comments, operators, calls, f-strings, `...` and
    triple-quoted strings are no literals.

    Args:
      text: Any text, also hostile.

    Returns:
      The value, built of Python's own types only.

    Raises:
      NotALiteralError: For everything else, and beyond MAX_CHARACTERS, MAX_DEPTH and
        MAX_DIGITS.

    Example:
      >>> read_literal("{'a': [1, true], 'b': (nan,)}")
      {'a': [1, True], 'b': (nan,)}
    """
    if len(text) > MAX_CHARACTERS:
        raise NotALiteralError(
            f"{len(text)} characters are more than {MAX_CHARACTERS}."
        )
    reader = _Reader(_tokens(text.strip()))
    try:
        return reader.whole()
    except (SyntaxError, TypeError, ValueError, OverflowError) as error:
        # TypeError: an unhashable element. The others: an ill-formed string or number.
        raise NotALiteralError(str(error)) from error


def readings(text: str) -> list[object]:
    """Returns the values that a text may stand for; none if it is not one literal.

    The first is Python's reading. JSON's is a second one where escapes are involved:
    the two notations spell characters beyond U+FFFF differently.

    Args:
      text: Any text, also hostile.

    Example:
      >>> readings("[1, 2]"), readings("The answer is 5")
      ([[1, 2]], [])
    """
    try:
        values = [read_literal(text)]
    except NotALiteralError:
        return []
    # Only here, where size, depth and digits are known to be harmless.
    if "\\" in text:
        try:
            values.append(json.loads(text))
        except ValueError:
            pass  # Python's notation only
    return values


def is_same_value(first: object, second: object) -> bool:
    """Returns whether two plain values are the same, types included.

    Unlike with `==`, True is not 1, 1 is not 1.0, 0.0 is not -0.0 (as floats; parts of
    complex numbers may), and nan is nan. The order of sets and dicts does not matter.

    Args:
      first: A value as `read_literal` returns it.
      second: Likewise.

    Example:
      >>> is_same_value([1, {2: 0.5}], [1, {2: 0.5}]), is_same_value([1], [True])
      (True, False)
    """
    return value_key(first) == value_key(second)


def value_key(value: object) -> Hashable:
    """Returns a key that is equal for two values if and only if they are the same.

    Args:
      value: A value as `read_literal` returns it.
    """
    name = type(value).__name__
    match value:
        case float():
            return name, value.hex()
        case complex():
            # `repr` does not tell all signs of zero apart, so none counts.
            return name, (value.real + 0.0).hex(), (value.imag + 0.0).hex()
        case list() | tuple():
            return name, tuple([value_key(item) for item in value])
        case set() | frozenset():
            # Counted, because a set may hold several nans.
            return name, frozenset(Counter(map(value_key, value)).items())
        case dict():
            pairs = [(value_key(key), value_key(item)) for key, item in value.items()]
            return name, frozenset(Counter(pairs).items())
        case None | bool() | int() | str() | bytes():
            return name, value
    raise AssertionError(f"a literal has no values of type {name}")


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = depth = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotALiteralError(
                f"no literal holds {text[position : position + 20]!r}."
            )
        kind, token, position = match.lastgroup, match.group(), match.end()
        assert kind is not None
        if kind == "mark":
            depth += (token in _CLOSING) - (token in _CLOSING.values())
        if depth > MAX_DEPTH:
            raise NotALiteralError(f"brackets nest more than {MAX_DEPTH} deep.")
        if kind == "newline" and depth == 0:
            raise NotALiteralError("there is more than one line.")
        if kind not in ("space", "newline"):
            tokens.append(_Token(kind, token))
    tokens.append(_Token("end", ""))
    return tokens


class _Reader:
    """Reads values off a list of tokens, by recursive descent.

    The depth of recursion is bounded by that of the brackets, which is checked before.
    """

    def __init__(self, tokens: list[_Token]):
        self._tokens = tokens
        self._position = 0

    def whole(self) -> object:
        """Returns the one value that all tokens spell; `1, 2` is a tuple, as ever."""
        value = self._value()
        if self._skip(","):
            rest = self._items("")
            value = (value, *rest)
        if self._next().kind != "end":
            raise NotALiteralError("there is more than one literal.")
        return value

    def _next(self) -> _Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _skip(self, text: str) -> bool:
        """Steps over a mark (or, for "", finds the end) and returns whether it did."""
        token = self._tokens[self._position]
        is_there = token.text == text and token.kind in ("mark", "end")
        self._position += is_there and token.kind == "mark"
        return is_there

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise NotALiteralError(f"{text!r} is missing.")

    def _value(self) -> object:
        kind, text = self._next()
        if kind == "number" or text in _FLOAT_NAMES:
            return self._number(text)
        if kind == "string":
            return self._string(text)
        if kind == "name":
            return self._name(text)
        if text in ("+", "-"):
            return self._signed_number(text)
        if text == "(":
            return self._parenthesised()
        if text == "[":
            return list(self._items("]"))
        if text == "{":
            return self._braced()
        raise NotALiteralError(f"a value is missing before {text!r}.")

    def _items(self, closing: str) -> list[object]:
        items: list[object] = []
        while not self._skip(closing):
            items.append(self._value())
            if not self._skip(","):
                self._expect(closing)
                break
        return items

    def _parenthesised(self) -> object:
        if self._skip(")"):
            return ()
        first = self._value()
        if self._skip(")"):
            return first
        self._expect(",")
        return (first, *self._items(")"))

    def _braced(self) -> object:
        if self._skip("}"):
            return {}
        first = self._value()
        if not self._skip(":"):
            if self._skip("}"):
                return {first}
            self._expect(",")
            return {first, *self._items("}")}
        pairs = {first: self._value()}
        while not self._skip("}"):
            self._expect(",")
            if self._skip("}"):
                break
            key = self._value()
            self._expect(":")
            pairs[key] = self._value()
        return pairs

    def _name(self, text: str) -> object:
        if text in _NAMES:
            return _NAMES[text]
        if text in _JSON_NAMES:
            return _JSON_NAMES[text]
        if text not in ("set", "frozenset"):
            raise NotALiteralError(f"the name {text!r} is no literal.")
        self._expect("(")
        if self._skip(")"):
            return set() if text == "set" else frozenset()
        elements = self._value()
        self._expect(")")
        if text != "frozenset" or type(elements) is not set:
            raise NotALiteralError(f"{text!r} is called with an argument.")
        return frozenset(elements)

    def _string(self, text: str) -> object:
        value = _string_value(text)
        while self._tokens[self._position].kind == "string":
            other = _string_value(self._next().text)
            if type(other) is not type(value):
                raise NotALiteralError("a str stands next to bytes.")
            value += other  # type: ignore[operator]
        return value

    def _signed_number(self, sign: str) -> object:
        kind, text = self._next()
        if kind != "number" and text not in _FLOAT_NAMES:
            raise NotALiteralError(
                f"{sign!r} stands before something else than a number."
            )
        return self._number(text, sign)

    def _number(self, text: str, sign: str = "+") -> object:
        real = _number_value(text)
        real = -real if sign == "-" else real
        following = self._tokens[self._position].text
        if following not in ("+", "-") or type(real) is complex:
            return real
        self._position += 1
        kind, text = self._next()
        imaginary = _number_value(text) if kind == "number" else 0
        if type(imaginary) is not complex:
            raise NotALiteralError("two numbers are added.")
        return real + imaginary if following == "+" else real - imaginary


def _number_value(text: str) -> int | float | complex:
    if len(text) > MAX_DIGITS:
        raise NotALiteralError(f"a number has more than {MAX_DIGITS} characters.")
    if text in _FLOAT_NAMES:
        # A new object each time: two nans in one set are two elements.
        return float("nan") if text in ("nan", "NaN") else math.inf
    if text[-1] in "jJ":
        return complex(0.0, float(text[:-1]))
    is_integer = (
        text[:2].lower() in ("0x", "0o", "0b") or text.replace("_", "").isdigit()
    )
    return int(text, base=0) if is_integer else float(text)


def _string_value(text: str) -> str | bytes:
    if text[0] in "'\"" and "\\" not in text:
        return text[1:-1]
    with warnings.catch_warnings():
        # Of an escape that Python does not know, such as \d.
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)
