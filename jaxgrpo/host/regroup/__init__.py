"""Between scoring and update: the one place where groups are changed.

A regrouper takes scored groups and returns scored groups: it may drop some, add stored
ones, or replace samples. They are applied in order.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from jaxgrpo.host.records import Group


class Regrouper(Protocol):
    """One method that changes which groups are learned from."""

    name: str
    """Under which its state is saved."""

    def __call__(self, groups: Sequence[Group]) -> list[Group]:
        """The groups to learn from."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What it must remember, as JSON can hold it."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""
        ...


def regroup(groups: Sequence[Group], regroupers: Sequence[Regrouper]) -> list[Group]:
    """The groups after all regroupers, in order; without any, the groups as they are.

    Args:
      groups: Scored.
      regroupers: Applied one after the other.
    """
    changed = list(groups)
    for regrouper in regroupers:
        changed = regrouper(changed)
    return changed
