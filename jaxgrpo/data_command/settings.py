"""From a name and overrides on the command line to the tables `data` and `scorer`."""

import difflib
from collections.abc import Sequence

from jaxgrpo.config import Config
from jaxgrpo.config_data import known_datasets
from jaxgrpo.config_loading import (
    config_of_checkpoint,
    find_config,
    load_config,
    shipped_configs,
)


def config_of_name(
    name: str, overrides: Sequence[str], *, tables: Sequence[str] = ("data", "scorer")
) -> Config:
    """Returns the configuration that a name and overrides stand for.

    Args:
      name: A data set, or a configuration whose data set is meant.
      overrides: `TABLE.FIELD=VALUE` each.
      tables: Those that have an effect.

    Raises:
      ValueError: There is nothing of that name, or an override has no effect.
    """
    check_tables(overrides, tables)
    if name in known_datasets():
        return config_of_checkpoint("none", [f"data.dataset={name}", *overrides])
    if name.endswith(".toml") or name in shipped_configs():
        return load_config(find_config(name), list(overrides))
    near = difflib.get_close_matches(name, known_datasets(), n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ValueError(
        f"{name!r} is no data set. {hint}See jaxgrpo data list, or give a TOML file "
        "with a table [data]."
    )


def check_tables(overrides: Sequence[str], tables: Sequence[str]) -> None:
    """Refuses overrides of tables that have no effect.

    Args:
      overrides: `TABLE.FIELD=VALUE` each.
      tables: Those that have one.
    """
    for override in overrides:
        if override.partition(".")[0] not in tables:
            wanted = " or ".join(f"{table}.FIELD=VALUE" for table in tables)
            raise ValueError(f"{override!r} has no effect here. Override {wanted}.")


def is_override(text: str) -> bool:
    """Returns whether an argument is an override, not the id of a problem."""
    name, equals, _ = text.partition("=")
    table, dot, field = name.partition(".")
    return bool(equals and dot and table.isidentifier() and field)
