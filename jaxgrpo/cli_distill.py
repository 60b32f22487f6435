"""The verb that harvests a policy's right samples, imitates them, and trains on."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from jaxgrpo.cli_errors import one_line_errors

_FIELD = "distill.at_steps"


def distill(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="TOML file, or the name of a shipped configuration.",
            show_default=False,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE.FIELD=VALUE",
            help="Changes to the configuration, as TOML, such as "
            "distill.num_problems=512.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="Run folder; one that exists is resumed. "
            "(default: runs/CONFIG_distilled)",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        bool,
        typer.Option(
            "--only",
            help="End after the supervised pass, before the first step: evaluations "
            "before and after it, and the weights in DIR/export.",
        ),
    ] = False,
) -> None:
    """Imitate right samples of problems that are answered wrong, then train on.

    For a model that solves by sampling what its greedy answer fails: pass@k well
    above exact match. Training problems are answered greedily; those answered
    wrong are sampled at several temperatures; what is right is imitated in a
    short supervised pass; then the run goes on as `jaxgrpo train` does, half of
    its problems being those still answered wrong.

    It is the run of the configuration, with a phase before the first step unless
    distill.at_steps says otherwise. The fields of distill, below, say how much is
    sampled and how it is imitated. DIR/harvest has what was imitated, the metrics
    have distill/before and distill/after.
    """
    with one_line_errors("The same command goes on from the last checkpoint."):
        from jaxgrpo.config_loading import find_config, load_config

        path, changes = find_config(config), list(overrides or [])
        if only:
            changes += ["distill.only=true"]
        if not _has_phases(path, changes):
            changes = [f"{_FIELD}=[0]", *changes]
        checked = load_config(path, changes)

        from jaxgrpo.train import train as run_training

        folder = run or Path("runs") / f"{path.stem}_distilled"
        run_training(checked, folder)
        if only:
            export = folder / "export"
            typer.echo(f"To train on: jaxgrpo train {config} model.checkpoint={export}")


def _has_phases(path: Path, changes: list[str]) -> bool:
    """Whether file or overrides say when there are phases; they are checked later."""
    if any(change.partition("=")[0].strip() == _FIELD for change in changes):
        return True
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("distill", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False  # loading it says what is wrong
    return isinstance(table, dict) and bool(table.get("at_steps"))
