"""`jaxgrpo data build`: prepares a data set and tells what became of its rows."""

import sys
from collections.abc import Sequence
from pathlib import Path

from jaxgrpo.config import DataConfig
from jaxgrpo.console import Console
from jaxgrpo.data_command.settings import config_of_name
from jaxgrpo.data_command.tables import show_table
from jaxgrpo.problems.datasets import load_splits, prepared_store
from jaxgrpo.problems.store.builder import kept_counts
from jaxgrpo.problems.store.counts import MAX_EXAMPLES, Counts
from jaxgrpo.problems.store.settings import INEXPRESSIBLE
from jaxgrpo.problems.store.splits import SPLITS

HEADER = ("", "number")


def build_data_set(name: str, overrides: Sequence[str]) -> None:
    """Prepares a data set, unless it is prepared, and shows its counts.

    Args:
      name: A data set, or a configuration.
      overrides: `data.FIELD=VALUE` each.
    """
    data = config_of_name(name, overrides, tables=("data",)).data
    with Console("auto", 1, stream=sys.stderr) as progress:
        report = progress.counter(f"preparing {data.dataset}")
        if data.is_generated:
            splits = load_splits(data, report)
            sizes = {split: len(problems) for split, problems in splits.items()}
            show_table(HEADER, _rows_of_sizes(sizes), num_right=1)
            return
        builder = prepared_store(data, report)
    counts = kept_counts(builder)
    show_table(HEADER, _rows_of_counts(counts, data), num_right=1)
    for title, examples in (
        ("Rows skipped, which make no problem", counts.skipped),
        ("Problems whose tests must run in the program's process",
         counts.inexpressible),
    ):  # fmt: skip
        _show_examples(title, examples)
    print(f"in {Path(builder.data_dir)}")


def _rows_of_sizes(sizes: dict[str, int]) -> list[tuple[str, str]]:
    return [(f"problems, {split}", f"{size:,}") for split, size in sizes.items()]


def _rows_of_counts(counts: Counts, data: DataConfig) -> list[tuple[str, str]]:
    sizes = {name: counts.sizes[name] for name in SPLITS if name in counts.sizes}
    marked = sum(n for name, n in counts.sizes.items() if name.endswith(INEXPRESSIBLE))
    others = sum(counts.other_splits.values())
    rows = [("rows read", f"{counts.num_rows:,}"), *_rows_of_sizes(sizes)]
    verb = "included" if data.include_inexpressible else "left out"
    rows += [
        (label, f"{number:,}")
        for label, number in (
            (f"problems {verb}: tests that a program can forge", marked),
            ("rows skipped", counts.num_skipped),
            (f"rows left out: split {', '.join(counts.other_splits)}", others),
        )
        if number
    ]
    rows.append(("tests kept", f"{counts.num_tests:,}"))
    if counts.num_capped:
        rows += [
            ("tests left out by the caps", f"{counts.num_left_out_tests:,}"),
            ("problems that lost tests", f"{counts.num_capped:,}"),
        ]
    return rows


def _show_examples(title: str, examples: Sequence[str]) -> None:
    if not examples:
        return
    first = f" (the first {MAX_EXAMPLES})" if len(examples) == MAX_EXAMPLES else ""
    print(f"{title}{first}:")
    for example in examples:
        print(f"  {example}")
