"""Pass rates of problems as files: who measured them, and what came out.

Each row says all about itself, so that any reader of JSON Lines or Parquet can use it:
a problem, its samples, and the model and settings that drew them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

SUFFIXES = (".jsonl", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What pass rates were measured with."""

    source: str
    """Run, checkpoint or configuration, as it was named."""
    step: int
    """Updates of the run; 0 for a checkpoint."""
    weights: int
    """Checksum."""
    dataset: str
    split: str
    num_samples: int
    """Of each problem."""
    temperature: float
    max_new_tokens: int
    """Token budget of a sample."""
    seed: int
    settings: str
    """Hash of all else in the configuration that a pass rate depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """What became of the samples of one problem."""

    problem_id: str
    num_judged: int
    """Samples with a verdict; the others were lost for reasons of our own."""
    num_passed: int
    num_cut: int
    """Samples cut at their token budget."""
    mean_tokens: float

    @property
    def value(self) -> float | None:
        """Share of the judged samples that passed; None without any."""
        return self.num_passed / self.num_judged if self.num_judged else None


def row_of(rate: PassRate, provenance: Provenance) -> dict[str, Any]:
    """Returns a pass rate as a row of a file.

    Args:
      rate: Of a problem.
      provenance: What it was measured with.
    """
    return asdict(rate) | {"pass_rate": rate.value} | asdict(provenance)


def read_pass_rates(path: Path) -> tuple[list[PassRate], Provenance]:
    """Returns the pass rates of a file, and what they were measured with.

    A last line that was not written to its end is left out.

    Args:
      path: JSON Lines or Parquet.

    Raises:
      ValueError: There is no such file, it holds none, or a row is of another kind, of
        other settings, or of a problem that came before.
    """
    rows = _rows(path)
    if not rows:
        raise ValueError(f"{path}: no pass rates. Measure some: jaxgrpo data rate.")
    provenance = _part(rows[0], Provenance, f"{path}: row 1")
    rates: dict[str, PassRate] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path}: row {number}"
        if _part(row, Provenance, where) != provenance:
            raise ValueError(
                f"{where} was measured with other settings than row 1. Keep each "
                "measurement in a file of its own."
            )
        rate = _part(row, PassRate, where)
        if rate.problem_id in rates:
            raise ValueError(
                f"{where}: problem {rate.problem_id!r} came before. Remove one of the "
                "rows."
            )
        rates[rate.problem_id] = rate
    return list(rates.values()), provenance


def write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes rows of `row_of` as a table.

    Args:
      rows: In order.
      path: File to write.
    """
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: its name ends in neither {' nor '.join(SUFFIXES)}.")
    if not path.is_file():
        raise ValueError(
            f"{path}: no such file. Measure pass rates first: jaxgrpo data rate."
        )
    if path.suffix == ".parquet":
        from pyarrow import ArrowInvalid, parquet

        try:
            return parquet.read_table(path).to_pylist()
        except ArrowInvalid as error:
            raise ValueError(f"{path}: no Parquet ({error}). Measure anew.") from None
    *lines, torn = path.read_text(encoding="utf-8").split("\n")
    rows = [_row(line, f"{path}: line {i}") for i, line in enumerate(lines, 1)]
    del torn  # empty, or a line that was not written to its end
    return rows


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: no JSON ({error}). Measure anew.") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: {type(row).__name__}, not an object.")
    return row


def _part(row: Mapping[str, Any], kind: type[Any], where: str) -> Any:
    names = [field.name for field in fields(kind)]
    missing = [name for name in names if name not in row]
    if missing:
        raise ValueError(
            f"{where}: no {missing[0]!r}. Give a file that jaxgrpo data rate wrote."
        )
    return kind(**{name: row[name] for name in names})
