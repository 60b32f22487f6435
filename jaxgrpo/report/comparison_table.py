"""The tables of `jaxgrpo evaluate`: by tag, and of one checkpoint against another."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxgrpo.report.evaluation_table import (
    CLASS_PREFIX,
    Evaluation,
    TextTable,
    cell,
    entry_of,
    evaluation_table,
    label_of,
    markdown,
    rows_of,
)

_SCORES = ("exact_match", "tests_passed")
_SCORES_OF_SAMPLES = ("pass@", "majority@")


def result_tables(
    result: Mapping[str, Any], most_flips: int | None = None
) -> list[tuple[str, TextTable]]:
    """Returns the tables of a result, each with its title.

    Args:
      result: As `jaxgrpo evaluate --out` writes it.
      most_flips: Flipped problems to list; None lists all.
    """
    source, against = result["source"], result.get("against")
    if against is None:
        tables = [(_title(result), evaluation_table({source: result["evaluation"]}))]
    else:
        tables = [
            (_title(result), comparison_table(result)),
            ("Greedy answers, from one to the other", flip_counts(result)),
        ]
        flips = flip_table(result["comparison"]["flips"], most_flips)
        tables += [("Flipped problems", flips)] if flips.rows else []
        for tag, values in result["comparison"]["by_tag"].items():
            tables.append((f"Differences by {tag}", difference_table(tag, values)))
    for tag, values in result["by_tag"].items():
        tables.append((f"{source} by {tag}", tag_table(tag, values)))
        tables.append((f"Kinds of error by {tag}", class_table(tag, values)))
    return tables


def as_markdown(tables: Sequence[tuple[str, TextTable]]) -> str:
    """Returns tables under their titles as one Markdown page.

    Args:
      tables: From `result_tables`.
    """
    return "\n".join(f"## {title}\n\n{markdown(table)}" for title, table in tables)


def comparison_table(result: Mapping[str, Any]) -> TextTable:
    """Returns both checkpoints' metrics, and the difference on the shared problems.

    A difference whose interval leaves out 0 has a star.

    Args:
      result: With `against` and `comparison`.
    """
    against = result["against"]
    evaluations = {
        against["source"]: against["evaluation"],
        result["source"]: result["evaluation"],
    }
    differences = result["comparison"]["differences"]
    rows = []
    for name in rows_of(evaluations):
        cells = [cell(name, entry_of(e, name)) for e in evaluations.values()]
        change = differences.get(name)
        cells.append("" if change is None else _change(name, change))
        rows.append((label_of(name, evaluations), *cells))
    return TextTable(("", *evaluations, "difference"), tuple(rows))


def flip_counts(result: Mapping[str, Any]) -> TextTable:
    """Returns how many greedy answers stayed and turned, and McNemar's p.

    Args:
      result: With `against` and `comparison`.
    """
    flips = result["comparison"]["flips"]
    rows = [
        ("right in both", flips["both_right"]),
        ("wrong in both", flips["both_wrong"]),
        ("wrong -> right", len(flips["wrong_to_right"])),
        ("right -> wrong", len(flips["right_to_wrong"])),
    ]
    if flips["undecided"]:
        rows.append(("not judged in one", flips["undecided"]))
    texts = [(label, f"{count:,}") for label, count in rows]
    texts.append(("p, McNemar exact", f"{flips['p_value']:.3g}"))
    title = f"{result['against']['source']} -> {result['source']}"
    return TextTable((title, "problems"), tuple(texts))


def flip_table(flips: Mapping[str, Any], most: int | None = None) -> TextTable:
    """Returns the problems whose greedy answer turned, with the class of each answer.

    Args:
      flips: `wrong_to_right` and `right_to_wrong`.
      most: Problems to list in each direction; None lists all.
    """
    rows = []
    for name, turn in (
        ("wrong_to_right", "wrong -> right"),
        ("right_to_wrong", "right -> wrong"),
    ):
        members = flips[name]
        for member in members[:most]:
            classes = [
                label_of(CLASS_PREFIX + member[side], {}).removeprefix("- ")
                for side in ("before", "after")
            ]
            rows.append((member["problem_id"], turn, *classes))
        if most is not None and len(members) > most:
            rows.append((f"... {len(members) - most} more", turn, "", ""))
    return TextTable(("problem", "turn", "from", "to"), tuple(rows))


def tag_table(tag: str, values: Mapping[str, Evaluation]) -> TextTable:
    """Returns the scores of the problems with each value of a tag.

    Of the samples' scores, those of the smallest and the largest k.

    Args:
      tag: Name of the tag.
      values: Evaluations by value.
    """
    return _by_value(tag, values, _scores_among(rows_of(values)))


def difference_table(tag: str, values: Mapping[str, Any]) -> TextTable:
    """Returns the differences of the scores of the problems with each value of a tag.

    Args:
      tag: Name of the tag.
      values: `num_problems` and `differences` by value.
    """
    changes = {value: entry["differences"] for value, entry in values.items()}
    names = _scores_among(rows_of(changes))
    rows = [
        (
            value,
            f"{entry['num_problems']:,}",
            *(_change(name, changes[value][name]) for name in names),
        )
        for value, entry in values.items()
    ]
    header = [label_of(name, changes) for name in names]
    return TextTable((tag, "problems", *header), tuple(rows))


def _scores_among(found: Sequence[str]) -> list[str]:
    """The scores that a table by tag has room for."""
    names = [name for name in _SCORES if name in found]
    for prefix in _SCORES_OF_SAMPLES:
        of_k = [name for name in found if name.startswith(prefix)]
        of_k.sort(key=lambda name: int(name.removeprefix(prefix)))
        names += dict.fromkeys([*of_k[: prefix == "pass@"], *of_k[-1:]])
    return names + [name for name in ("frac_reward_all_zero",) if name in found]


def class_table(tag: str, values: Mapping[str, Evaluation]) -> TextTable:
    """Returns the kinds of error of the problems with each value of a tag.

    Args:
      tag: Name of the tag.
      values: Evaluations by value.
    """
    names = [name for name in rows_of(values) if name.startswith(CLASS_PREFIX)]
    plain = {
        value: {n: _without_interval(entry_of(e, n)) for n in names}
        | {"num_problems": e["num_problems"]}
        for value, e in values.items()
    }
    return _by_value(tag, plain, names)


def _without_interval(entry: Any) -> Any:
    return {"value": entry["value"], "se": entry["se"]}


def _by_value(
    tag: str, values: Mapping[str, Evaluation], names: Sequence[str]
) -> TextTable:
    header = [label_of(name, values).removeprefix("- ") for name in names]
    rows = [
        (
            value,
            f"{evaluation['num_problems']:,}",
            *(cell(name, entry_of(evaluation, name)) for name in names),
        )
        for value, evaluation in values.items()
    ]
    return TextTable((tag, "problems", *header), tuple(rows))


def _change(name: str, change: Mapping[str, float]) -> str:
    factor, digits = (1, 2) if name == "mean_length" else (100, 1)
    value, low, high = (factor * change[part] for part in ("value", "low", "high"))
    star = " *" if low > 0 or high < 0 else ""
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]{star}"


def _title(result: Mapping[str, Any]) -> str:
    settings = result["settings"]
    percent = f"{100 * settings['confidence']:g} %"
    return f"{settings['split']} split, {percent} intervals"
