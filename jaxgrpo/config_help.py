"""Every field of the configuration as text for the terminal."""

import textwrap

from jaxgrpo.config_fields import (
    REWARD_PLACEHOLDER,
    STAGE_PLACEHOLDER,
    ConfigField,
    config_fields,
    kind_meanings,
    table_meanings,
)

WIDTH = 80
INDENT = "      "
REWARD_TABLE = f"rewards.{REWARD_PLACEHOLDER}"


def fields_help() -> str:
    """Returns all fields, grouped by table, at most 80 columns wide."""
    lines = [
        "Fields of the configuration. In a file a field stands under its [table]; on",
        "the command line it is table.field=value.",
    ]
    for table, meaning in table_meanings().items():
        lines += ["", *_wrapped(f"{_heading(table)}  {meaning}", "  ")]
        for field in config_fields():
            if field.table == table and not field.kind:
                lines += _field_lines(field)
        if table == REWARD_TABLE:
            lines += _kind_lines()
    return "\n".join(lines)


def _kind_lines() -> list[str]:
    """The kinds of rewards, each with the fields that only it has."""
    lines = ["", "  Kinds of rewards, and what each is told in its table besides:"]
    for kind, meaning in kind_meanings().items():
        lines += _wrapped(f"  {kind}: {meaning}", INDENT)
        for field in config_fields():
            if field.kind == kind:
                lines += _field_lines(field, margin="    ")
    return lines


def _heading(table: str) -> str:
    name = table.removesuffix(f".{STAGE_PLACEHOLDER}")
    if name == table:
        return f"[{table}]"
    return f"[[{name}]] (on the command line {table}, {name}.1, ...)"


def _field_lines(field: ConfigField, margin: str = "") -> list[str]:
    default = f"= {field.default}" if field.default else "(required)"
    head = f"{margin}  {field.key} {default}    {field.expected}"
    indent = margin + INDENT
    return [*_wrapped(head, indent), *_wrapped(indent + field.meaning, indent)]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
