"""Evaluations side by side: the rows of the before/after table, as text."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Evaluation = Mapping[str, Any]
"""`num_problems`, and {"value": ..., "se": ...} by metric name, perhaps with the ends
`low` and `high` of an interval."""

CLASS_PREFIX = "error_class/"
LABELS = {
    "frac_reward_all_zero": "groups: all wrong",
    "frac_reward_mixed": "groups: mixed",
    "frac_reward_all_one": "groups: all correct",
    "error_class/exact": "exact",
    "error_class/wrong_repr": "wrong notation",
    "tests_passed": "tests passed, greedy",
    "errored": "not judged",
    "mean_length": "mean length, tokens",
    "clipped_ratio": "cut at token budget",
    "num_problems": "problems",
    "dropped_prompts": "prompts too long",
}
"""How a metric is called in tables and pictures; others keep their name."""

_NOT_SHARES = {"mean_length"}
_CORRECT = ("error_class/exact", "error_class/passed")
"""Classes of what is correct, of literals and of programs."""
_NOTHING = {"value": 0.0, "se": 0.0}


class TextTable(NamedTuple):
    """A table of finished text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def evaluation_table(evaluations: Mapping[str, Evaluation]) -> TextTable:
    """Returns one row per metric and one column per evaluation.

    Shares are in percent, as `value ± standard error`, or `value [low, high]` where
    there is an interval. Where `before` and `after` are among the columns, their
    difference follows, in points. A metric that an evaluation lacks is a dash.

    Args:
      evaluations: By column title, in order.
    """
    names = rows_of(evaluations)
    has_change = {"before", "after"} <= evaluations.keys()
    header = ["", *evaluations]
    if has_change:
        header.insert(header.index("after") + 1, "change")
    rows = []
    for name in names:
        entries = {title: entry_of(e, name) for title, e in evaluations.items()}
        cells = {title: cell(name, entry) for title, entry in entries.items()}
        if has_change:
            cells["change"] = _change(name, entries["before"], entries["after"])
        label = label_of(name, evaluations)
        rows.append((label, *(cells[title] for title in header[1:])))
    return TextTable(tuple(header), tuple(rows))


def rows_of(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """Returns the metrics of a table, in the order of its rows.

    The class of what is correct is left out where it is the exact match once more.

    Args:
      evaluations: By column title.
    """
    names = list(dict.fromkeys(name for e in evaluations.values() for name in e))
    correct = [name for name in _CORRECT if name in names]
    if "exact_match" in names and len(correct) == 1:
        names.remove(correct[0])
    return sorted(names, key=lambda name: _block(evaluations, name))


def _block(evaluations: Mapping[str, Evaluation], name: str) -> int:
    # Counts describe the measurement, not the policy: last.
    if not any(isinstance(e.get(name), Mapping) for e in evaluations.values()):
        return 3
    if name == "exact_match":
        return 0
    return 1 if name.startswith(CLASS_PREFIX) else 2


def label_of(name: str, evaluations: Mapping[str, Evaluation]) -> str:
    """Returns what a metric is called in a table.

    Args:
      name: Of the metric.
      evaluations: Of the table: what is correct has other names for programs.
    """
    if name == "exact_match":
        found = {n for e in evaluations.values() for n in e if n in _CORRECT}
        if len(found) > 1:
            return "correct, greedy"
        is_of_programs = found == {_CORRECT[1]}
        return "all tests passed, greedy" if is_of_programs else "exact match, greedy"
    if name.startswith(CLASS_PREFIX):
        plain = name.removeprefix(CLASS_PREFIX).replace("_", " ")
        return f"- {LABELS.get(name, plain)}"
    return LABELS.get(name, name)


def markdown(table: TextTable) -> str:
    """Returns a table as Markdown, its columns aligned for reading as plain text.

    Example:
      >>> print(markdown(TextTable(("", "after"), (("pass@1", "5 %"),))), end="")
      |        | after |
      | :----- | ----: |
      | pass@1 |   5 % |
    """
    widths = [
        max(3, *(len(row[i]) for row in (table.header, *table.rows)))
        for i in range(len(table.header))
    ]
    rule = [":" + "-" * (widths[0] - 1), *("-" * (w - 1) + ":" for w in widths[1:])]
    lines = [_aligned(table.header, widths), "| " + " | ".join(rule) + " |"]
    lines += [_aligned(row, widths) for row in table.rows]
    return "\n".join(lines) + "\n"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = (
        cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)
    )
    return "| " + " | ".join([first, *rest]) + " |"


def entry_of(evaluation: Evaluation, name: str) -> Any:
    """Returns a metric of an evaluation; a class that does not occur has share 0."""
    if name.startswith(CLASS_PREFIX) and name not in evaluation:
        has_classes = any(other.startswith(CLASS_PREFIX) for other in evaluation)
        return _NOTHING if has_classes else None
    return evaluation.get(name)


def cell(name: str, entry: Any) -> str:
    """Returns a metric as text: a count, or an estimate with its uncertainty.

    Args:
      name: Of the metric.
      entry: A number, or {"value", "se"} with `low` and `high` or without; None for
        none.
    """
    if entry is None:
        return "-"
    if not isinstance(entry, Mapping):
        return f"{entry:,}"
    value, error = entry["value"], entry["se"]
    if value is None or math.isnan(value):
        return "-"
    factor, digits, unit = (1, 2, "") if name in _NOT_SHARES else (100, 1, " %")
    text = f"{factor * value:.{digits}f}"
    low, high = entry.get("low"), entry.get("high")
    if low is not None and high is not None and not math.isnan(low):
        return f"{text} [{factor * low:.{digits}f}, {factor * high:.{digits}f}]{unit}"
    return f"{text} ± {factor * error:.{digits}f}{unit}"


def _change(name: str, before: Any, after: Any) -> str:
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return ""
    if before["value"] is None or after["value"] is None:
        return ""
    change = after["value"] - before["value"]
    return f"{change:+.2f}" if name in _NOT_SHARES else f"{100 * change:+.1f}"
