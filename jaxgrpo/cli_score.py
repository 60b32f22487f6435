"""The command `jaxgrpo score`."""

from pathlib import Path
from typing import Annotated

import typer

from jaxgrpo.cli_errors import one_line_errors


def score(
    problems: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEMS.jsonl", help="One problem, with its tests, a line."
        ),
    ],
    completions: Annotated[
        Path,
        typer.Argument(
            metavar="COMPLETIONS.jsonl", help="Lines with problem_id and text."
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE.FIELD=VALUE",
            help="Changes to the tables scorer and rewards.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write every verdict, as .jsonl or .parquet.",
            show_default=False,
        ),
    ] = None,
    trust_asserts: Annotated[
        bool,
        typer.Option(
            "--trust-asserts",
            help="Also run asserts that only work beside the program, which can forge "
            "them.",
        ),
    ] = False,
    reward: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Also compute this reward, or your function FILE.py:NAME. Repeat it "
            "for more.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str,
        typer.Option(
            metavar="CONFIG",
            help="Take the tables scorer and rewards of this configuration.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Judge completions of problems: verdicts, kinds of error, pass rates by tag.

    With --reward or --config also what each completion earns.
    """
    with one_line_errors("Verdicts up to here are written, if --out is JSON Lines."):
        from jaxgrpo.score import score as judge_files

        judge_files(
            problems,
            completions,
            overrides or [],
            out=out,
            trusts_asserts=trust_asserts,
            rewards=reward or [],
            config=config,
        )
