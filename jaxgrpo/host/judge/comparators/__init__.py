"""When an answer counts as the expected one: small rules, chosen by name per test.

A data set names one comparator for each test, with its options. No rule is tried after
another has failed, except by `microcoder`, which is asked for by name and says which of
its rungs matched.
"""

import ast
import difflib
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from jaxgrpo.host.judge.comparators import ladder, text, values

Kind = Literal["stdin", "call"]


class Match(NamedTuple):
    """Whether an answer counts as the expected one."""

    is_match: bool
    rung: str = ""
    """What matched, of a comparator that tries more than one rule."""


Comparator = Callable[[Any, Any], Match]
"""Takes the expected answer and the actual one."""

TEXT_COMPARATORS: dict[str, Callable[..., bool | str]] = {
    "exact": text.exact,
    "tokens": text.tokens,
    "float": text.close_tokens,
    "unordered_lines": text.unordered_lines,
    "unordered_tokens": text.unordered_tokens,
    "microcoder": ladder.ladder_of_text,
}
"""For printed output, by name."""
VALUE_COMPARATORS: dict[str, Callable[..., bool | str]] = {
    "exact": values.exact,
    "python": values.python_equal,
    "value": values.value,
    "float": values.close,
    "wrapped": values.wrapped,
    "unordered": values.unordered,
    "microcoder": ladder.ladder_of_values,
}
"""For returned values, by name."""
DEFAULTS = {"stdin": "tokens", "call": "float"}
"""What the name `default` stands for."""

_CALL = re.compile(r"(?P<name>\w+)\s*(?:\((?P<options>.*)\))?", re.DOTALL)


@functools.lru_cache(maxsize=1024)
def comparator(kind: Kind, name: str) -> Comparator:
    """Returns the comparator that a name stands for.

    Args:
      kind: `stdin` compares text, `call` compares values.
      name: As in a test: `tokens`, or with options `float(rel=1e-4, abs=0)`.

    Raises:
      ValueError: There is no such comparator, or it has no such option.

    Example:
      >>> comparator("stdin", "float(abs=0.1)")("0.25", "0.3").is_match
      True
    """
    match = _CALL.fullmatch(name.strip())
    if match is None:
        raise ValueError(
            f"comparator {name!r} is no name with options in parentheses. "
            "Write it like tokens or float(rel=1e-4)."
        )
    known = TEXT_COMPARATORS if kind == "stdin" else VALUE_COMPARATORS
    plain = DEFAULTS[kind] if match["name"] == "default" else match["name"]
    if plain not in known:
        near = difflib.get_close_matches(plain, known, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"no comparator for kind {kind!r} is named {plain!r}. {hint}"
            f"There are: {', '.join(known)}."
        )
    function = known[plain]
    options = _options(plain, match["options"] or "", _defaults(function))

    def compare(expected: object, actual: object) -> Match:
        found = function(expected, actual, **options)
        return Match(bool(found), found if isinstance(found, str) else "")

    return compare


def _defaults(function: Callable[..., bool | str]) -> dict[str, object]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _options(
    name: str, written: str, defaults: Mapping[str, object]
) -> dict[str, object]:
    """The options as they are written, checked against those the comparator has."""
    options: dict[str, object] = {}
    for part in filter(None, (piece.strip() for piece in written.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in defaults:
            allowed = ", ".join(defaults) or "none"
            raise ValueError(
                f"comparator {name!r} has no option {part!r}. Its options: {allowed}."
            )
        options[key] = _option(name, key, value, defaults[key])
    return options


def _option(name: str, key: str, written: str, default: object) -> object:
    try:
        value = ast.literal_eval(written.capitalize())
    except (ValueError, SyntaxError):
        value = None
    if isinstance(default, bool):
        is_right = isinstance(value, bool)
    else:
        types = (int, float) if isinstance(default, float) else (int,)
        is_right = type(value) in types and 0 <= value < float("inf")  # type: ignore[operator]
    if not is_right:
        wanted = "true or false" if isinstance(default, bool) else "a number >= 0"
        raise ValueError(
            f"comparator {name!r}: option {key} is {written!r}. Write {wanted}."
        )
    return value
