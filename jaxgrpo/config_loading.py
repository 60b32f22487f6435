"""From a TOML file and overrides to a checked `Config`, or to a one-line error."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jaxgrpo.config import Config
from jaxgrpo.config_fields import config_fields, expected_text, known_keys, node_at
from jaxgrpo.config_toml import toml_document, toml_value
from jaxgrpo.host.rewards import reward_names

PACKAGE_FOLDER = Path(__file__).parent
LONGEST_SHOWN_VALUE = 60


class ConfigError(ValueError):
    """A configuration that cannot be run; its message is one line for the user."""


def config_folder() -> Path:
    """Returns the folder of the shipped configurations, in a wheel or in a clone."""
    in_wheel = PACKAGE_FOLDER / "configs"
    return in_wheel if in_wheel.is_dir() else PACKAGE_FOLDER.parent / "configs"


def shipped_configs() -> dict[str, Path]:
    """Returns the shipped configurations by name (`methods/scaffold`), sorted."""
    folder = config_folder()
    names = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in folder.rglob("*.toml")
    }
    return dict(sorted(names.items()))


def find_config(name_or_path: str) -> Path:
    """Returns the file that a path or the name of a shipped configuration means.

    Args:
      name_or_path: `configs/quickstart.toml`, or just `quickstart`.

    Raises:
      ConfigError: There is no such file; the message lists the shipped names.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    shipped = shipped_configs()
    if name_or_path.removesuffix(".toml") in shipped:
        return shipped[name_or_path.removesuffix(".toml")]
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give a TOML file, or a shipped name.")
    raise ConfigError(
        f"{name_or_path}: no such file. Give the path of a TOML file, or one of the "
        f"shipped configs: {', '.join(shipped)}."
    )


def load_config(
    path: str | Path, overrides: list[str] | tuple[str, ...] = ()
) -> Config:
    """Returns the checked configuration of a file, changed by overrides.

    Args:
      path: TOML file.
      overrides: `a.b=value` each, applied in order. The value is TOML; what is no TOML
        counts as text, so that quotes may be left out. Missing tables are created, and
        an entry of a list is reached by its position (`supervised.stages.0.name=x`).

    Raises:
      ConfigError: With one line that names the file or the command line, the field, the
        value, what is wrong, and what to change.
    """
    return _checked(_read_toml(Path(path)), Path(path), overrides)


def config_of_checkpoint(
    source: str, overrides: list[str] | tuple[str, ...] = ()
) -> Config:
    """Returns the defaults with a checkpoint as the model, changed by overrides.

    Args:
      source: Checkpoint folder or `builtin:NAME`.
      overrides: As for `load_config`.

    Raises:
      ConfigError: As for `load_config`.
    """
    data = {"model": {"checkpoint": source}, "rewards": {"exact": {"weight": 1.0}}}
    return _checked(data, Path("defaults"), overrides)


def _checked(
    data: dict[str, Any], path: Path, overrides: list[str] | tuple[str, ...]
) -> Config:
    for override in overrides:
        _apply_override(data, override)
    origin = Origin(path, tuple(override.split("=")[0] for override in overrides))
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_first_problem(error, origin)) from None
    return config


def config_to_toml(config: Config) -> str:
    """Returns every field of a configuration as TOML that loads to an equal one."""
    return toml_document(config.model_dump())


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the values of a configuration come from, for messages."""

    path: Path
    overridden: tuple[str, ...]
    """Dotted names given on the command line."""

    def of_field(self, name: str) -> str:
        """Returns where one field was set: the command line, or the file."""
        for override in self.overridden:
            inner, outer = max(name, override, key=len), min(name, override, key=len)
            if f"{inner}.".startswith(f"{outer}."):
                return "command line"
        return str(self.path)

    def of_whole(self) -> str:
        """Returns what a message about several fields has to name."""
        return f"{self.path} with overrides" if self.overridden else str(self.path)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}). Give the path of a TOML file."
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start} is no UTF-8. Save the file as UTF-8 text."
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path}: not valid TOML: {error}. Correct that place; text needs quotes, "
            "and booleans are true and false."
        ) from None


def _apply_override(data: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(
            f"command line: {override!r} is no override. Write table.field=value, such "
            "as run.num_steps=3."
        )
    node: Any = data
    for depth, key in enumerate(keys[:-1]):
        node = _child(node, key, ".".join(keys[: depth + 1]))
    position = _position(node, keys[-1], name)
    node[position] = _parsed_value(text.strip())


def _child(node: Any, key: str, name: str) -> Any:
    position = _position(node, key, name)
    child = node.setdefault(key, {}) if isinstance(node, dict) else node[position]
    if not isinstance(child, (dict, list)):
        raise ConfigError(
            f"command line: {name} is the value {_shown(child)} and has no fields. "
            f"Write {name}=value."
        )
    return child


def _position(node: Any, key: str, name: str) -> Any:
    """Returns the key of a table, or the checked position in a list."""
    if isinstance(node, dict):
        return key
    if key.isdecimal() and int(key) < len(node):
        return int(key)
    raise ConfigError(
        f"command line: {name}: the list has no entry {key!r}, its length is "
        f"{len(node)} (positions count from 0). Give another position, or change the "
        "list in the file."
    )


def _parsed_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break would let a value smuggle in further keys: then it is plain text.
    return parsed["value"] if len(parsed) == 1 else text


def _first_problem(error: ValidationError, origin: Origin) -> str:
    # An unknown key first: a misspelt key often causes the other problems too.
    problems = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    lines = dict.fromkeys(_problem_line(problem, origin) for problem in problems)
    first, *others = lines
    if not others:
        return first
    plural = "s" if len(others) > 1 else ""
    return f"{first} ({len(others)} more problem{plural} after that.)"


def _problem_line(problem: Any, origin: Origin) -> str:
    path = _path_to_field(problem["loc"])
    name = _shown_name(path)
    source = origin.of_field(name)
    value = problem["input"]
    if problem["type"] == "value_error":
        head = f"{name}: " if path[:1] == ["rewards"] else ""
        return f"{origin.of_whole()}: {head}{problem['ctx']['error']}"
    if problem["type"] == "union_tag_invalid":
        return f"{source}: {_unknown_reward(name, problem['ctx'])}"
    if problem["type"] == "extra_forbidden":
        return f"{source}: {name} = {_shown(value)}: {_unknown_key(path)}"
    if problem["type"] == "missing":
        return f"{source}: {name} is missing. {_how_to_add(path)}"
    expected = expected_text(node_at(path))
    return (
        f"{source}: {name} = {_shown(value)}: expected {expected}, got "
        f"{_kind(value)}. {_how_to_set(path, name, value)}"
    )


def _path_to_field(loc: tuple[str | int, ...]) -> list[str | int]:
    """Returns pydantic's location without the branches of a union at its end."""
    path: list[str | int] = []
    for key in loc:
        if "anyOf" in node_at(path):
            break
        path.append(key)
    return path


def _shown_name(path: list[str | int]) -> str:
    """Returns the dotted name of a field, without the kind that pydantic puts in."""
    is_in_reward = path[:1] == ["rewards"] and len(path) > 2
    return ".".join(map(str, path[:2] + path[3:] if is_in_reward else path))


def _unknown_key(path: list[str | int]) -> str:
    *table, key = path
    here = known_keys(table)
    prefix = f"{_shown_name(table)}." if table else ""
    everywhere = {field.key: field.name for field in config_fields()}
    near = difflib.get_close_matches(str(key), here, n=1)
    kinds = [field.kind for field in config_fields() if field.key == key and field.kind]
    if table[:1] == ["rewards"] and kinds and not near:
        return (
            f"unknown key. It belongs to rewards of kind {' or '.join(kinds)}, and "
            f"{_shown_name(table)} is of kind {table[2]}."
        )
    near_elsewhere = difflib.get_close_matches(str(key), everywhere, n=1, cutoff=0.8)
    if near:
        return f"unknown key. Did you mean {prefix}{near[0]}?"
    if near_elsewhere:
        return f"unknown key. Did you mean {everywhere[near_elsewhere[0]]}?"
    where = f"[{_shown_name(table)}] takes" if table else "The tables are"
    return f"unknown key. {where} {', '.join(here)}."


def _how_to_add(path: list[str | int]) -> str:
    node = node_at(path)
    if "properties" in node:
        table = ".".join(map(str, path))
        return (
            f"Add a table [{table}] with {' or '.join(list(node['properties'])[:2])}."
        )
    return f"Add {path[-1]} = ... ({expected_text(node)})."


def _how_to_set(path: list[str | int], name: str, value: Any) -> str:
    node = node_at(path)
    choices = [str(choice) for choice in node.get("enum", [])]
    near = difflib.get_close_matches(str(value), choices, n=1)
    if near:
        return f"Did you mean {toml_value(near[0])}?"
    if choices and "default" in node:
        return f"Choose one of these; the default is {toml_value(node['default'])}."
    items = node_at([*path, 0]) if node.get("type") == "array" else {}
    if items and "properties" not in items and not isinstance(value, (list, dict)):
        return f"Write it as a list: {name}={toml_value(_as_list(value, items))}."
    if "properties" in node:
        return f"Write a table [{name}] with {', '.join(list(node['properties'])[:3])}."
    if "default" in node:
        return f"Change {name}; its default is {toml_value(node['default'])}."
    return f"Change {name}."


def _as_list(value: Any, items: Mapping[str, Any]) -> list[Any]:
    """Returns what a value that should be a list was likely meant to be."""
    texts = [part.strip() for part in value.split(",")] if type(value) is str else []
    if "enum" in items:
        known = [str(choice) for choice in items["enum"]]
        return [
            (difflib.get_close_matches(text, known, n=1) or [text])[0] for text in texts
        ] or [value]
    is_text = items.get("type") == "string"
    parsed = texts if is_text else [_parsed_value(text) for text in texts]
    return parsed or [value]


def _unknown_reward(name: str, context: Mapping[str, str]) -> str:
    """Returns what is wrong with a table whose kind does not exist."""
    kind, known = context["tag"], reward_names()
    near = difflib.get_close_matches(kind, known, n=1)
    is_named = name != f"rewards.{kind}"
    place, new = (f"{name}.kind = {kind!r}", "") if is_named else (name, "rewards.")
    hint = f"Did you mean {new}{near[0]}?" if near else "Choose another."
    return (
        f"{place}: no such reward. {hint} The rewards are {', '.join(known)}; one of "
        'your own has function = "FILE.py:NAME".'
    )


def _shown(value: Any) -> str:
    try:
        text = toml_value(value)
    except ValueError:  # dates and times are TOML, but nothing here takes them
        text = str(value)
    if len(text) <= LONGEST_SHOWN_VALUE:
        return text
    return text[: LONGEST_SHOWN_VALUE - 3] + "..."


def _kind(value: Any) -> str:
    kinds = {bool: "a boolean", str: "text", list: "a list", dict: "a table"}
    if type(value) in (int, float):
        return _shown(value)
    return kinds.get(type(value), type(value).__name__)
