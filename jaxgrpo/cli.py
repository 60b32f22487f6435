"""The command line: one short function a verb, heavy imports inside."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import jaxgrpo
from jaxgrpo.process import prepare_process

EXIT_STOPPED = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A JAX-native GRPO trainer for code.",
    epilog="Start with: jaxgrpo train quickstart",
)


class CommandWithFields(TyperCommand):
    """A command whose help ends with every field of the configuration."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes the usual help, then the fields."""
        from jaxgrpo.config_help import fields_help

        super().format_help(ctx, formatter)
        if formatter.getvalue():  # plain mode has only filled the buffer so far
            formatter.write("\n" + fields_help())
        else:
            typer.echo(fields_help())


Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE.FIELD=VALUE",
        help="Changes to the configuration, as TOML; text needs no quotes.",
        show_default=False,
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="RUN_OR_CHECKPOINT",
        help="Run folder, checkpoint folder, or builtin:NAME.",
        show_default=False,
    ),
]


def main() -> None:
    """Runs the command line of this process, and exits."""
    prepare_process()
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jaxgrpo {jaxgrpo.__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    pass


@app.command(cls=CommandWithFields)
def train(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="TOML file, or the name of a shipped configuration.",
            show_default=False,
        ),
    ],
    overrides: Overrides = None,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="Run folder; one that exists is resumed. (default: runs/CONFIG)",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train as a configuration says, or resume the run that the folder holds."""
    again = " ".join(["jaxgrpo", *sys.argv[1:]])
    with _one_line_errors(f"To resume from the last checkpoint: {again}"):
        from jaxgrpo.config_loading import find_config, load_config

        path = find_config(config)
        checked = load_config(path, overrides or [])

        from jaxgrpo.train import train as run_training

        run_training(checked, run or Path("runs") / path.stem)


@app.command()
def evaluate(
    source: Source,
    overrides: Overrides = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="validation or test. (default: evaluation.split of the run)",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the result as JSON.", show_default=False
        ),
    ] = None,
) -> None:
    """Measure exact match, pass@k, dead groups and kinds of error of a checkpoint."""
    with _one_line_errors("Nothing was written."):
        changes = list(overrides or [])
        if split:
            changes.append(f"evaluation.split={split}")

        from jaxgrpo.measure import measure

        measure(source, changes, out)


@app.command()
def sample(
    source: Source,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT",
            help="The user's message; without it, --file or standard input is read.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Read the prompt here.", show_default=False),
    ] = None,
    num_samples: Annotated[
        int, typer.Option("--n", "-n", min=1, help="Completions to draw.")
    ] = 1,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Softmax temperature; 0 is greedy.")
    ] = 1.0,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="Token budget of a completion.")
    ] = 64,
    seed: Annotated[
        int, typer.Option(min=0, help="The same seed draws the same completions.")
    ] = 0,
) -> None:
    """Print completions of one prompt."""
    with _one_line_errors("Nothing was written."):
        text = _prompt_text(prompt, file)

        from jaxgrpo.sample import sample_text

        completions = sample_text(
            source,
            text,
            num_samples=num_samples,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            seed=seed,
        )
        for completion in completions:
            typer.echo(completion)


@app.command()
def doctor() -> None:
    """Show devices, versions and confinement; what is missing and how to get it."""
    with _one_line_errors("Nothing was written."):
        from jaxgrpo.doctor import examine, report_lines

        findings = examine()
        for line in report_lines(findings):
            typer.echo(line)
        if any(finding.mark == "missing" for finding in findings):
            raise typer.Exit(1)


@app.command()
def configs() -> None:
    """List the shipped configurations."""
    from jaxgrpo.config_loading import shipped_configs

    for name, path in shipped_configs().items():
        typer.echo(f"{name}  {path}")


def _prompt_text(prompt: str | None, file: Path | None) -> str:
    if prompt is not None and file is not None:
        raise ValueError(
            f"both a prompt and --file {file} are given. Give one of them."
        )
    if prompt is not None:
        return prompt
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(
                f"{file}: cannot be read ({error.strerror}). Give a text file."
            ) from None
    if sys.stdin.isatty():
        raise ValueError("no prompt. Give it as an argument, by --file, or by a pipe.")
    return sys.stdin.read()


@contextmanager
def _one_line_errors(after_interrupt: str) -> Iterator[None]:
    """Turns errors that are meant for the user into one line and an exit code.

    By the rules of the house a ValueError raised in jaxgrpo's own code speaks to the
    user, and so does a RuntimeError that ends a run. Those that come out of a library
    are defects, and keep their traceback.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"jaxgrpo: interrupted. {after_interrupt}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except OSError as error:
        if error.filename is None or os.environ.get("JAXGRPO_TRACEBACK"):
            raise
        typer.echo(
            f"jaxgrpo: {error.filename}: {error.strerror}. Choose another place, or "
            "mend its permissions.",
            err=True,
        )
        raise typer.Exit(EXIT_USER_ERROR) from None
    except (ValueError, RuntimeError) as error:
        if not _was_raised_here(error) or os.environ.get("JAXGRPO_TRACEBACK"):
            raise
        typer.echo(f"jaxgrpo: {error}", err=True)
        is_input = isinstance(error, ValueError)
        raise typer.Exit(EXIT_USER_ERROR if is_input else EXIT_STOPPED) from None


def _was_raised_here(error: BaseException) -> bool:
    traceback = error.__traceback__
    assert traceback is not None, "a caught exception has a traceback"
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_globals.get("__name__", "").startswith("jaxgrpo.")


if __name__ == "__main__":
    main()
