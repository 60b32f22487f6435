"""Every field of the configuration as text for the terminal."""

import textwrap

from jaxgrpo.config_fields import (
    STAGE_PLACEHOLDER,
    ConfigField,
    config_fields,
    table_meanings,
)

WIDTH = 80
INDENT = "      "


def fields_help() -> str:
    """Returns all fields, grouped by table, at most 80 columns wide."""
    lines = [
        "Fields of the configuration. In a file a field stands under its [table]; on",
        "the command line it is table.field=value.",
    ]
    for table, meaning in table_meanings().items():
        lines += ["", *_wrapped(f"{_heading(table)}  {meaning}", "  ")]
        for field in config_fields():
            if field.table == table:
                lines += _field_lines(field)
    return "\n".join(lines)


def _heading(table: str) -> str:
    name = table.removesuffix(f".{STAGE_PLACEHOLDER}")
    if name == table:
        return f"[{table}]"
    return f"[[{name}]] (on the command line {table}, {name}.1, ...)"


def _field_lines(field: ConfigField) -> list[str]:
    default = f"= {field.default}" if field.default else "(required)"
    head = f"  {field.key} {default}    {field.expected}"
    return [*_wrapped(head, INDENT), *_wrapped(INDENT + field.meaning, INDENT)]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
