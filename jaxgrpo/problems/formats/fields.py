"""Fields of a raw row: what is missing, or is something else, is told by its name."""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jaxgrpo.problems.formats.format import Row, malformed

MAX_SHOWN = 60
"""Characters of a value that a message shows."""
_MISSING: Any = object()
_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def text_of(row: Row, name: str, where: str, *, default: str = _MISSING) -> str:
    r"""Returns a field that holds text, with line ends as `\n`.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
      default: Where the field is missing or null.

    Raises:
      MalformedRowError: Missing, something else, or not to be had in UTF-8.

    Example:
      >>> text_of({"code": "a\r\nb"}, "code", "f: row 1")
      'a\nb'
    """
    value = row.get(name)
    if value is None and default is not _MISSING:
        return default
    return checked_text(present(row, name, where), name, where)


def checked_text(value: object, name: str, where: str) -> str:
    r"""Returns a value that is text, with line ends as `\n`.

    Args:
      value: Of a field, or a part of one.
      name: Of it, for messages.
      where: File and row, for messages.
    """
    if not isinstance(value, str):
        raise malformed(where, name, f"is {kind_of(value)}, not text. Correct it.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise malformed(
            where,
            name,
            f"has half a surrogate pair, {value[error.start]!r}, at character "
            f"{error.start}, which is no text. Correct it.",
        ) from None
    return value.replace("\r\n", "\n")


def texts_of(
    row: Row, name: str, where: str, *, default: Sequence[str] = _MISSING
) -> tuple[str, ...]:
    """Returns a field that holds a list of texts.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
      default: Where the field is missing or null.
    """
    if row.get(name) is None and default is not _MISSING:
        return tuple(default)
    items = list_of(row, name, where)
    return tuple(checked_text(v, f"{name}[{i}]", where) for i, v in enumerate(items))


def list_of(row: Row, name: str, where: str) -> Sequence[Any]:
    """Returns a field that holds a list.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
    """
    value = present(row, name, where)
    if not isinstance(value, list | tuple):
        raise malformed(where, name, f"is {kind_of(value)}, not a list. Correct it.")
    return value


def object_of(row: Row, name: str, where: str) -> Mapping[str, Any]:
    """Returns a field that holds an object.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
    """
    value = present(row, name, where)
    if not isinstance(value, Mapping):
        raise malformed(where, name, f"is {kind_of(value)}, not an object. Correct it.")
    return value


def number_of(
    row: Row, name: str, where: str, *, default: float = _MISSING
) -> int | float:
    """Returns a field that holds a number.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
      default: Where the field is missing or null.
    """
    if row.get(name) is None and default is not _MISSING:
        return default
    value = present(row, name, where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise malformed(where, name, f"is {kind_of(value)}, not a number. Correct it.")
    return value


def identifier_of(row: Row, name: str, where: str) -> str:
    """Returns a field that tells rows apart: a whole number, or text that is not empty.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
    """
    value = present(row, name, where)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = checked_text(value, name, where)
    if not text.strip():
        raise malformed(where, name, "is empty. Give each row an id.")
    return text


def json_of(text: str, name: str, where: str) -> Any:
    """Returns what a text says in JSON, or, as some sets have it, in Python.

    Args:
      text: Of a field.
      name: Of it, for messages.
      where: File and row, for messages.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error)
    try:
        # Whole files were written with `str` in place of `json.dumps`.
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise malformed(
            where, name, f"is no JSON: {reason}: {shown(text)}. Correct it."
        ) from None


def present(row: Row, name: str, where: str) -> Any:
    """Returns the value of a field that has to be there and not be null.

    Args:
      row: The raw row.
      name: Of the field.
      where: File and row, for messages.
    """
    if row.get(name) is None:
        there = "null" if name in row else f"missing; there are {', '.join(row)}"
        raise malformed(where, name, f"is {there or 'nothing'}. Give it.")
    return row[name]


def tags_of(**tags: object) -> dict[str, str]:
    """Returns tags, those without a value left out.

    Args:
      tags: By name; None and empty text are no values.

    Example:
      >>> tags_of(dataset="apps", difficulty=None, rating=800)
      {'dataset': 'apps', 'rating': '800'}
    """
    return {name: str(value) for name, value in tags.items() if value not in (None, "")}


def kind_of(value: object) -> str:
    """Returns the kind of a value, in words.

    Args:
      value: Any.
    """
    return _KINDS.get(type(value), type(value).__name__)


def shown(text: str) -> str:
    """Returns a text as a message shows it.

    Args:
      text: However long.
    """
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")
