"""Refusal of a name that is not on the list."""

from collections.abc import Iterable


def require_one_of(name: str, value: str, allowed: Iterable[str]) -> None:
    """Raises ValueError if a choice is unknown.

    Args:
      name: Of the option.
      value: As given.
      allowed: Names that exist.
    """
    names = tuple(allowed)
    if value not in names:
        raise ValueError(f"{name} {value!r} is unknown. Use one of {', '.join(names)}.")
