"""From what a user's function returned to values, or to what is wrong with them."""

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one call gave its completions. All tuples are aligned."""

    values: tuple[float, ...]
    """NaN abstains."""
    failures: tuple[str, ...]
    """What was wrong with a value; empty where nothing was."""
    columns: Mapping[str, tuple[object, ...]] = field(default_factory=dict)


def failed_outcome(reason: str, num_rows: int) -> Outcome:
    """Returns the outcome of a call that gave nothing.

    Args:
      reason: Why, in words.
      num_rows: Completions of the call.
    """
    return Outcome(values=(math.nan,) * num_rows, failures=(reason,) * num_rows)


def outcome_of(
    returned: object, style: Literal["trl", "verl"], num_rows: int
) -> Outcome:
    """Returns the values that a function meant, in either convention.

    `trl` returns a list of one number per completion, None to abstain; `verl` a number
    or truth value for its one completion, or a mapping with `score`, whose other
    entries become columns.

    Args:
      returned: By the function.
      style: Its convention.
      num_rows: Completions of the call.
    """
    if style == "verl":
        return _of_verl(returned)
    items = _items(returned)
    if items is None:
        reason = f"it returned {_shown(returned)}, not a list of numbers"
        return failed_outcome(reason, num_rows)
    if len(items) != num_rows:
        reason = f"it returned {len(items)} values for {num_rows} completions"
        return failed_outcome(reason, num_rows)
    values, failures = zip(*map(_number, items), strict=True)
    return Outcome(values=values, failures=failures)


def _of_verl(returned: object) -> Outcome:
    if not isinstance(returned, Mapping):
        if returned is None:
            return failed_outcome("it returned None, not a number", 1)
        value, failure = _number(returned)
        return Outcome(values=(value,), failures=(failure,))
    if "score" not in returned:
        keys = ", ".join(map(str, returned)) or "nothing"
        return failed_outcome(f"it returned a mapping of {keys}, without score", 1)
    value, failure = _number(returned["score"])
    columns = {
        str(key): (plain(item),) for key, item in returned.items() if key != "score"
    }
    return Outcome(values=(value,), failures=(failure,), columns=columns)


def _items(returned: object) -> list[Any] | None:
    """A list, or what libraries of arrays make one of; None for anything else."""
    if hasattr(returned, "tolist"):
        returned = returned.tolist()  # type: ignore[attr-defined]
    return list(returned) if isinstance(returned, list | tuple) else None


def _number(item: Any) -> tuple[float, str]:
    """A value and what is wrong with it; None is a value: it abstains."""
    if item is None:
        return math.nan, ""
    if hasattr(item, "item") and not isinstance(item, numbers.Number):
        try:  # An array of one number, on whatever device it lies.
            item = item.item()
        except Exception:
            return math.nan, f"it returned {_shown(item)}, not a number"
    if not isinstance(item, numbers.Real):
        return math.nan, f"it returned {_shown(item)}, not a number"
    value = float(item)
    if not math.isfinite(value):
        return math.nan, f"it returned {value}, which is not finite"
    return value, ""


def plain(value: Any) -> object:
    """Returns a value as data that needs none of the user's classes.

    Args:
      value: Anything; what is no text, number, list or mapping becomes its `repr`.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return repr(value)


def plain_column(values: Iterable[Any]) -> tuple[object, ...]:
    """Returns the values of a column as plain data."""
    return tuple(map(plain, values))


def _shown(value: object) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return f"{type(value).__name__} {text}"
