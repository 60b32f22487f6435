"""The schema as text: every field with what it expects, its default and meaning.

One source for `jaxgrpo train --help` and for the messages of wrong configurations.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jaxgrpo.config import Config, RewardConfig
from jaxgrpo.config_toml import toml_value

REWARD_PLACEHOLDER = "NAME"
STAGE_PLACEHOLDER = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigField:
    """One field of the schema, ready to be printed."""

    table: str
    """Dotted name of its table, `optimizer` or `rewards.NAME`."""
    key: str
    expected: str
    """What it takes, in words: `number > 0`."""
    default: str
    """The default as TOML; empty for a field that must be given."""
    meaning: str
    kind: str = ""
    """Of the rewards that have it; empty where all do, and in all other tables."""

    @property
    def name(self) -> str:
        """Dotted name, as an override on the command line spells it."""
        return f"{self.table}.{self.key}"


@cache
def config_schema() -> dict[str, Any]:
    """Returns the JSON schema of a whole configuration."""
    return Config.model_json_schema()


@cache
def config_fields() -> tuple[ConfigField, ...]:
    """Returns every field, in the order of the schema.

    Example:
      >>> field = config_fields()[1]
      >>> field.name, field.expected, field.default
      ('run.seed', 'integer >= 0 and < 4294967296', '0')
    """
    return tuple(_fields_below("", config_schema()))


def table_meanings() -> dict[str, str]:
    """Returns what each table is about, by dotted name."""
    names = dict.fromkeys(field.table for field in config_fields())
    return {name: _one_line(node_at(name.split("."))["description"]) for name in names}


def kind_meanings() -> dict[str, str]:
    """Returns what each kind of reward is, by its name."""
    kinds = _kinds(node_at(["rewards", REWARD_PLACEHOLDER]))
    return {kind: _one_line(_resolved(n)["description"]) for kind, n in kinds.items()}


@cache
def _any_reward() -> dict[str, Any]:
    """The part of the schema that the tables of all rewards share."""
    return RewardConfig.model_json_schema()


def node_at(path: list[str | int] | list[str]) -> dict[str, Any]:
    """Returns the part of the schema that describes a path.

    Reward names and list positions are free; the walk ends early at a leaf, so that a
    path inside a value describes the value. Below the name of a reward stands its kind,
    or what all kinds have.

    Args:
      path: Keys from the top, such as `["scorer", "sandbox", "cpu_s"]` or
        `["rewards", "mine", "function", "timeout_s"]`.
    """
    node = config_schema()
    for key in path:
        below = _below(node)
        if below is None:
            break
        node = _resolved(below.get(str(key)) or below.get("*") or {})
    return node


def known_keys(path: list[str | int]) -> list[str]:
    """Returns the keys that a table takes; empty where any name is allowed."""
    return [key for key in _below(node_at(path)) or {} if key != "*"]


def expected_text(node: dict[str, Any]) -> str:
    """Returns in words what a part of the schema takes.

    Example:
      >>> expected_text({"type": "integer", "minimum": 1})
      'integer >= 1'
      >>> expected_text({"anyOf": [{"const": "auto"}, {"type": "boolean"}]})
      '"auto" or true or false'
    """
    if "anyOf" in node:
        return " or ".join(expected_text(choice) for choice in node["anyOf"])
    if "enum" in node:
        return " | ".join(toml_value(choice) for choice in node["enum"])
    if "const" in node:
        return toml_value(node["const"])
    if isinstance(node.get("additionalProperties"), dict) and _below(node) is None:
        return f"table of {expected_text(node['additionalProperties'])}"
    kind = node.get("type", "object")
    if kind == "array":
        return f"list of {expected_text(_resolved(node['items']))}"
    if kind == "string" and "pattern" in node:
        return "text of letters, digits, _ . -"
    words = {"object": "table", "string": "text", "boolean": "true or false"}
    return words.get(kind, kind) + _range_text(node)


def _range_text(node: dict[str, Any]) -> str:
    if "minimum" in node and "maximum" in node:
        return f" from {_number(node['minimum'])} to {_number(node['maximum'])}"
    signs = {
        "minimum": ">=",
        "exclusiveMinimum": ">",
        "maximum": "<=",
        "exclusiveMaximum": "<",
    }
    parts = [
        f"{sign} {_number(node[key])}" for key, sign in signs.items() if key in node
    ]
    if node.get("minLength"):
        parts.append("that is not empty")
    return " " + " and ".join(parts) if parts else ""


def _fields_below(table: str, schema: dict[str, Any]) -> list[ConfigField]:
    fields: list[ConfigField] = []
    tables: list[ConfigField] = []
    for key, raw in (_below(schema) or {}).items():
        node = _resolved(raw)
        name = {"*": REWARD_PLACEHOLDER}.get(key, key)
        path = f"{table}.{name}" if table else name
        items = _resolved(node.get("items", {}))
        if "discriminator" in node:
            tables += _reward_fields(path, node)
        elif _below(node) is not None and node.get("type") != "array":
            tables += _fields_below(path, node)
        elif "properties" in items:
            tables += _fields_below(f"{path}.{STAGE_PLACEHOLDER}", items)
        else:
            fields.append(
                ConfigField(
                    table=table,
                    key=name,
                    expected=expected_text(node),
                    default=toml_value(node["default"]) if "default" in node else "",
                    meaning=_one_line(node["description"]),
                )
            )
    return fields + tables


def _reward_fields(path: str, union: dict[str, Any]) -> list[ConfigField]:
    """Returns what all rewards have, then what each kind adds."""
    shared = RewardConfig.model_fields
    own = [
        replace(field, kind=kind)
        for kind, node in _kinds(union).items()
        for field in _fields_below(path, _resolved(node))
        if field.table == path and field.key not in shared
    ]
    return _fields_below(path, _any_reward()) + own


def _kinds(node: dict[str, Any]) -> dict[str, Any]:
    """Returns the tables that a field of several kinds may hold, by kind."""
    mapping = node.get("discriminator", {}).get("mapping", {})
    return {kind: {"$ref": reference} for kind, reference in mapping.items()}


def _below(node: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the parts of a table or list; None for a leaf. `*` stands for any key."""
    if "discriminator" in node:
        return _any_reward()["properties"] | _kinds(node)
    if "properties" in node:
        return node["properties"]
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        # Free keys with plain values are one field, like a list.
        is_of_tables = "$ref" in values or "discriminator" in values
        return {"*": values} if is_of_tables else None
    if node.get("type") == "array":
        return {"*": node["items"]}
    return None


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    if "discriminator" in node:
        return node | {"description": _any_reward()["description"]}
    if "$ref" not in node:
        return node
    return config_schema()["$defs"][node["$ref"].rsplit("/", 1)[1]]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _number(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"
