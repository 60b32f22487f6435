"""The command line: one short function a verb, heavy imports inside."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

import jaxgrpo
from jaxgrpo import cli_data, cli_distill, cli_reward, cli_score
from jaxgrpo.cli_errors import EXIT_STOPPED, one_line_errors
from jaxgrpo.process import prepare_process

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A JAX-native GRPO trainer for code.",
    epilog="Start with: jaxgrpo train quickstart",
)


app.add_typer(cli_data.app, name="data")


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
NewFolder = Annotated[
    Path,
    typer.Argument(
        metavar="OUT", help="Folder to write; new or empty.", show_default=False
    ),
]
StoredType = Annotated[
    Literal["float32", "bfloat16", "float16"],
    typer.Option(help="Type of the stored weights."),
]
ShardSize = Annotated[
    str, typer.Option(metavar="SIZE", help="Largest file of full weights: 5GB, 300MB.")
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
    with one_line_errors(f"To resume from the last checkpoint: {again}"):
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
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN_OR_CHECKPOINT",
            help="Measure this one too, on the same problems, and compare.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the result as JSON.", show_default=False
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Also write the tables as Markdown.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        Path, typer.Option(metavar="DIR", help="Where all generations are kept.")
    ] = Path("evaluations"),
) -> None:
    """Measure exact match, pass@k, majority@k and kinds of error, also by tag.

    An evaluation that was interrupted goes on where it stopped.
    """
    again = " ".join(["jaxgrpo", *sys.argv[1:]])
    with one_line_errors(f"To go on: {again}"):
        changes = list(overrides or [])
        if split:
            changes.append(f"evaluation.split={split}")

        from jaxgrpo.measure import measure

        measure(source, changes, against=against, out=out, table=table, keep=keep)


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
    constraint: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="Form of the completions: python_literal, json, regex:PATTERN or "
            "choice:ONE|TWO. (default: the run's own)",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Print completions of one prompt, as they are drawn."""
    with one_line_errors("Nothing was written."):
        text = _prompt_text(prompt, file)

        from jaxgrpo.sample import sampled_pieces

        pieces = sampled_pieces(
            source,
            text,
            num_samples=num_samples,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            seed=seed,
            constraint=constraint,
        )
        _echo_pieces(pieces)


app.command(
    cls=CommandWithFields,
    epilog="Example: jaxgrpo distill mini_programs distill.learning_rate=1e-4 --only",
)(cli_distill.distill)
app.command()(cli_score.score)
app.command(
    epilog="Example: jaxgrpo train-reward runs/mini_programs reward "
    "--model builtin:mini_programs_base --learning-rate 3e-4"
)(cli_reward.train_reward)
app.command(
    epilog="Example: jaxgrpo rank reward evaluations/builtin-mini_programs_base-..."
)(cli_reward.rank)


@app.command(epilog="Example: jaxgrpo export runs/quickstart exported --dtype bfloat16")
def export(
    source: Source,
    out: NewFolder,
    overrides: Overrides = None,
    step: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Checkpoint of a run. (default: its newest)",
            show_default=False,
        ),
    ] = None,
    dtype: StoredType = "float32",
    lora: Annotated[
        Literal["merged", "adapter"],
        typer.Option(help="A run's adapters: in full weights, or alone for PEFT."),
    ] = "merged",
    max_shard_size: ShardSize = "5GB",
) -> None:
    """Write weights and tokenizer as a folder that Hugging Face transformers loads.

    float32 keeps every bit of the trained weights; bfloat16 halves the files.
    With --lora adapter the folder is for the library PEFT, and holds the
    adapters alone.
    """
    with one_line_errors("Nothing was written."):
        from jaxgrpo.export import export as write_export
        from jaxgrpo.weights.writing import bytes_of

        write_export(
            source,
            out,
            overrides or [],
            step=step,
            dtype=dtype,
            lora=lora,
            max_shard_bytes=bytes_of(max_shard_size),
        )
        typer.echo(f"wrote {out}")


@app.command(
    epilog="Example: jaxgrpo convert SmolLM2-135M-Instruct.Q4_1.gguf smollm2, then: "
    'jaxgrpo sample smollm2 "Write a Python function add(a, b)."'
)
def convert(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.gguf",
            help="A model in llama.cpp's format.",
            show_default=False,
        ),
    ],
    out: NewFolder,
    dtype: StoredType = "float32",
    max_shard_size: ShardSize = "5GB",
) -> None:
    """Turn a GGUF file into a checkpoint that can be trained and sampled.

    Reads the architectures llama, qwen2 and qwen3. Quantised weights become
    the numbers that they stand for, which float32 holds exactly. Tokenizer
    and chat template come along. Needs the package gguf.
    """
    with one_line_errors("Nothing was written."):
        from jaxgrpo.convert import convert as convert_file
        from jaxgrpo.weights.writing import bytes_of

        convert_file(file, out, dtype=dtype, max_shard_bytes=bytes_of(max_shard_size))
        typer.echo(f"wrote {out}")


@app.command()
def plan(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="TOML file, or the name of a shipped configuration.",
            show_default=False,
        ),
    ],
    overrides: Overrides = None,
    topology: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Devices: v5e:4x4 (also v4, v5p, v6e, tpu7x), gpu:h200x8, or here.",
        ),
    ] = "here",
    fit: Annotated[
        bool,
        typer.Option(
            "--fit", help="Search mesh, microbatches and remat for what fits."
        ),
    ] = False,
    max_compiled: Annotated[
        int, typer.Option(min=1, help="Layouts that --fit compiles at most.")
    ] = 6,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan as JSON.")
    ] = False,
) -> None:
    """Show what a run needs on given devices: memory, work, and seconds at best."""
    with one_line_errors("Nothing was written."):
        from jaxgrpo.config_loading import find_config, load_config
        from jaxgrpo.plan.devices import prepare_environment

        checked = load_config(find_config(config), overrides or [])
        prepare_environment(topology)

        from jaxgrpo.plan.show import show_fit, show_plan

        if fit:
            is_good = show_fit(checked, topology, as_json, max_compiled=max_compiled)
        else:
            is_good = show_plan(checked, topology, as_json)
        if not is_good:
            raise typer.Exit(EXIT_STOPPED)


@app.command()
def doctor() -> None:
    """Show devices, versions and confinement; what is missing and how to get it."""
    with one_line_errors("Nothing was written."):
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


def _echo_pieces(pieces: Iterable[tuple[int, str]]) -> None:
    """Prints completions as their pieces come, each on lines of its own."""
    last = 0
    for number, piece in pieces:
        typer.echo("\n" * (number - last) + piece, nl=False)
        sys.stdout.flush()
        last = number
    typer.echo()


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
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{file}: cannot be read as UTF-8 text ({error}). Give a text file."
            ) from None
    if sys.stdin.isatty():
        raise ValueError("no prompt. Give it as an argument, by --file, or by a pipe.")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"standard input is not UTF-8 text ({error}). Give a text."
        ) from None


if __name__ == "__main__":
    main()
