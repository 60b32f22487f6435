"""Evaluations side by side: the rows of the before/after table, as text."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Evaluation = Mapping[str, Any]
"""`num_problems`, and {"value": ..., "se": ...} by metric name."""

LABELS = {
    "exact_match": "exact match, greedy",
    "groups/all_wrong": "groups: all wrong",
    "groups/mixed": "groups: mixed",
    "groups/all_correct": "groups: all correct",
    "taxonomy/exact": "exact",
    "taxonomy/wrong_repr": "wrong notation",
    "taxonomy/wrong_value": "wrong value",
    "taxonomy/not_one_literal": "not one literal",
    "mean_length": "mean length, tokens",
    "clipped_ratio": "cut at token budget",
    "num_problems": "problems",
    "dropped_prompts": "prompts too long",
}
"""How a metric is called in tables and pictures; others keep their name."""

_NOT_SHARES = {"mean_length"}
_SAME_AS_EXACT_MATCH = "taxonomy/exact"


class TextTable(NamedTuple):
    """A table of finished text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def evaluation_table(evaluations: Mapping[str, Evaluation]) -> TextTable:
    """Returns one row per metric and one column per evaluation.

    Shares are in percent, as `value ± standard error`. Where `before` and `after` are
    among the columns, their difference follows, in points. A metric that an evaluation
    lacks is a dash.

    Args:
      evaluations: By column title, in order.
    """
    names = list(dict.fromkeys(name for e in evaluations.values() for name in e))
    if "exact_match" in names and _SAME_AS_EXACT_MATCH in names:
        names.remove(_SAME_AS_EXACT_MATCH)
    # Counts describe the measurement, not the policy: last.
    names.sort(key=lambda name: not _is_estimate(evaluations, name))
    has_change = {"before", "after"} <= evaluations.keys()
    header = ["", *evaluations]
    if has_change:
        header.insert(header.index("after") + 1, "change")
    rows = []
    for name in names:
        cells = {title: _cell(name, e.get(name)) for title, e in evaluations.items()}
        if has_change:
            cells["change"] = _change(
                name, evaluations["before"].get(name), evaluations["after"].get(name)
            )
        rows.append((_label(name), *(cells[title] for title in header[1:])))
    return TextTable(tuple(header), tuple(rows))


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


def _label(name: str) -> str:
    label = LABELS.get(name, name)
    return f"- {label}" if name.startswith("taxonomy/") else label


def _is_estimate(evaluations: Mapping[str, Evaluation], name: str) -> bool:
    return any(isinstance(e.get(name), Mapping) for e in evaluations.values())


def _cell(name: str, entry: Any) -> str:
    if entry is None:
        return "-"
    if not isinstance(entry, Mapping):
        return f"{entry:,}"
    value, se = entry["value"], entry["se"]
    if name in _NOT_SHARES:
        return f"{value:.2f} ± {se:.2f}"
    return f"{100 * value:.1f} ± {100 * se:.1f} %"


def _change(name: str, before: Any, after: Any) -> str:
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return ""
    change = after["value"] - before["value"]
    return f"{change:+.2f}" if name in _NOT_SHARES else f"{100 * change:+.1f}"
