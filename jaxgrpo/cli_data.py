"""The verbs of `jaxgrpo data`: one short function each, heavy imports inside."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from jaxgrpo.cli_errors import EXIT_STOPPED, one_line_errors

app = typer.Typer(
    no_args_is_help=True,
    help="Data sets: which there are, what is in them, whether they are right.",
    epilog="Start with: jaxgrpo data list",
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Data set of jaxgrpo data list, or a TOML file with a table [data].",
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE.FIELD=VALUE",
        help="Changes to the configuration, such as data.path=FOLDER.",
        show_default=False,
    ),
]
Split = Annotated[
    Literal["train", "validation", "test"] | None,
    typer.Option(help="Only this split.", show_default=False),
]


@app.command("list")
def list_sets(overrides: Overrides = None) -> None:
    """List all data sets: kinds, sizes, licence, where from, and whether they are here.

    With data.path=FOLDER, files are looked for there.
    """
    with one_line_errors("Nothing was written."):
        from jaxgrpo.data_command.listing import list_data_sets

        list_data_sets(overrides or [])


@app.command(
    epilog="Example: jaxgrpo data show humaneval 0, or: jaxgrpo data show mbpp "
    "mbpp/601 data.path=mbpp.jsonl"
)
def show(
    name: Name,
    which: Annotated[
        str,
        typer.Argument(
            metavar="[ID|INDEX]", help="The problem's id, or its place in the split."
        ),
    ] = "0",
    overrides: Overrides = None,
    split: Split = None,
    tests: Annotated[
        int, typer.Option(min=0, help="Tests shown at most; 0 shows all.")
    ] = 5,
) -> None:
    """Show a problem as a person reads it: message, tests, reference, hints, tags."""
    with one_line_errors("Nothing is lost."):
        from jaxgrpo.data_command.settings import is_override
        from jaxgrpo.data_command.showing import show_problem

        changes = list(overrides or [])
        if is_override(which):
            which, changes = "0", [which, *changes]
        show_problem(name, which, changes, split=split, num_tests=tests)


@app.command(epilog="Example: jaxgrpo data build mbpp data.path=mbpp.jsonl")
def build(name: Name, overrides: Overrides = None) -> None:
    """Prepare a data set, and count what is kept, skipped and why, and capped."""
    with one_line_errors("A part of a data set is never kept; start again."):
        from jaxgrpo.data_command.building import build_data_set

        build_data_set(name, overrides or [])


@app.command(
    epilog="Exit status: 0 if all references pass, 1 if not, 2 for wrong input."
)
def check(
    name: Name,
    overrides: Overrides = None,
    split: Split = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Problems of each split; 0 checks all.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the failures, as JSON Lines.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run every reference solution through the judge; list those that do not pass."""
    with one_line_errors("Failures up to here are written, if --out is given."):
        from jaxgrpo.data_command.checking import check_data_set

        all_pass = check_data_set(
            name, overrides or [], split=split, limit=limit, out=out
        )
        if not all_pass:
            raise typer.Exit(EXIT_STOPPED)


@app.command(
    epilog="Example: jaxgrpo data rate quickstart --out rates.jsonl, then: "
    "jaxgrpo train quickstart data.difficulty=rates.jsonl"
)
def rate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Run folder, checkpoint folder, builtin:NAME, or a configuration, "
            "whose model is sampled as it is before training.",
            show_default=False,
        ),
    ],
    overrides: Overrides = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Pass rates, as .jsonl or .parquet; a histogram is drawn beside it.",
        ),
    ] = Path("pass_rates.jsonl"),
    num_samples: Annotated[
        int, typer.Option("--n", "-n", min=1, help="Samples of each problem.")
    ] = 8,
    split: Annotated[
        Literal["train", "validation", "test"] | None,
        typer.Option(help="Split. (default: data.split)", show_default=False),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Problems of the split; 0 takes all.")
    ] = 0,
) -> None:
    """Measure how often a model solves each problem, to leave out the easy ones.

    Samples are drawn and judged as in training, with sampling.temperature and
    run.seed. A measurement that was interrupted goes on where it stopped.
    Training with data.difficulty=FILE then drops what was always solved, thins
    out what was partly solved, and keeps the rest.
    """
    again = " ".join(["jaxgrpo", *sys.argv[1:]])
    with one_line_errors(f"To go on: {again}"):
        from jaxgrpo.difficulty import rate as measure_pass_rates

        measure_pass_rates(
            source,
            overrides or [],
            num_samples=num_samples,
            out=out,
            split=split,
            limit=limit,
        )
