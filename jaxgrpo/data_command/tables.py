"""Tables of text on standard output, for terminals and for pipes."""

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console as RichConsole
from rich.table import Table

PIPE_WIDTH = 200
"""Columns where there is no terminal that has a width."""


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, num_right: int = 0
) -> None:
    """Prints a table.

    Args:
      header: Titles of the columns.
      rows: Texts, printed as they are.
      num_right: Columns at the end that are numbers, and stand to the right.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, title in enumerate(header):
        is_number = place >= len(header) - num_right
        table.add_column(title, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    RichConsole(width=width, markup=False, highlight=False).print(table)
