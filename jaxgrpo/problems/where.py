"""Slices of a data set: problems whose tags or columns have certain values.

    [data.where]
    difficulty = "easy | medium"                   one of these
    contest_date = "2024-08-01 .. 2025-01-31"      from the one to the other, with both
    cf_rating = ".. 1200"                          up to

Numbers are compared as numbers; everything else as text, whose order is that of time
for ISO dates.
"""

import difflib
from collections.abc import Mapping, Sequence

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.selection import KeptProblems

RANGE = ".."
OR = "|"
MAX_SHOWN = 8
"""Values that a message names."""


def matching(
    problems: Sequence[Problem], conditions: Mapping[str, str], limit: int = 0
) -> Sequence[Problem]:
    """Returns the problems that meet all conditions, in order.

    Args:
      problems: All; read once, one after the other, if there are conditions.
      conditions: By the name of a tag or a column.
      limit: Most problems to return; 0 for all.

    Raises:
      ValueError: No problem has such a tag or column, or none meets the conditions.
    """
    if not conditions:
        return problems
    places: list[int] = []
    names: set[str] = set()
    seen: dict[str, set[str]] = {name: set() for name in conditions}
    for place, problem in enumerate(problems):
        values = {**problem.columns, **problem.tags}
        names |= values.keys()
        for name in conditions:
            if name in values and len(seen[name]) < MAX_SHOWN:
                seen[name].add(str(values[name]))
        if all(
            name in values and meets(values[name], condition)
            for name, condition in conditions.items()
        ):
            places.append(place)
    for name in conditions:
        if problems and name not in names:
            raise ValueError(_unknown(name, sorted(names)))
    if problems and not places:
        parts = [f"{name} has {', '.join(sorted(v))} ..." for name, v in seen.items()]
        raise ValueError(
            f"no problem meets data.where {dict(conditions)}: {'; '.join(parts)}"
        )
    return KeptProblems(problems, places[: limit or None])


def meets(value: object, condition: str) -> bool:
    """Returns whether a value is one of those that a condition names.

    Args:
      value: Of a tag or column.
      condition: Values with `|` between, each alone or a range.

    Example:
      >>> meets("hard", "easy | hard"), meets(1300, ".. 1200"), meets(9, "9 .. 10")
      (True, False, True)
    """
    return any(_meets_one(value, part.strip()) for part in condition.split(OR))


def _meets_one(value: object, part: str) -> bool:
    if RANGE not in part:
        return str(value) == part
    low, high = (end.strip() for end in part.split(RANGE, 1))
    return (not low or _is_in_order(low, value)) and (
        not high or _is_in_order(value, high)
    )


def _is_in_order(first: object, second: object) -> bool:
    try:
        return float(str(first)) <= float(str(second))
    except ValueError:
        return str(first) <= str(second)


def _unknown(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean data.where.{near[0]}? " if near else ""
    return (
        f"data.where.{name}: no problem has such a tag or column. {hint}There are: "
        f"{', '.join(names)}."
    )
