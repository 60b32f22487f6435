"""Writes plain data as TOML. The standard library reads TOML and does not write it."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_document(data: Mapping[str, Any]) -> str:
    """Returns a nested mapping as a TOML document that reads back equal.

    Mappings become tables, lists of mappings arrays of tables. None has no TOML form
    and is refused.

    Args:
      data: Strings, numbers, booleans, lists, tuples and mappings of these.

    Example:
      >>> print(toml_document({"run": {"seed": 0, "mode": "grpo"}}), end="")
      [run]
      seed = 0
      mode = "grpo"
    """
    return "\n".join(_table_lines(data, path="")).strip("\n") + "\n"


def toml_value(value: Any) -> str:
    """Returns one value in TOML notation, mappings as inline tables.

    Example:
      >>> toml_value([1, 2.5, True, "a"])
      '[1, 2.5, true, "a"]'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        # JSON escapes all that TOML forbids in a string, except the delete character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        items = (f"{_key(key)} = {toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    raise ValueError(
        f"{type(value).__name__} has no TOML form: {value!r}. Use text, numbers, "
        "booleans, lists and tables."
    )


def _table_lines(table: Mapping[str, Any], path: str) -> list[str]:
    lines = [
        f"{_key(key)} = {toml_value(value)}"
        for key, value in table.items()
        if not _is_table(value) and not _is_array_of_tables(value)
    ]
    for key, value in table.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        if _is_table(value):
            lines += ["", f"[{name}]", *_table_lines(value, name)]
        elif _is_array_of_tables(value):
            for item in value:
                lines += ["", f"[[{name}]]", *_table_lines(item, name)]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_array_of_tables(value: Any) -> bool:
    is_list = isinstance(value, (list, tuple)) and len(value) > 0
    return is_list and all(_is_table(item) for item in value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)
