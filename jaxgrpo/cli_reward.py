"""The verbs about reward models: train one, and pick by it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from jaxgrpo.cli_errors import one_line_errors

CacheDir = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="Where prepared data sets are. (default: as the sources say)",
        show_default=False,
    ),
]
StoredType = Annotated[
    Literal["float32", "bfloat16", "float16"],
    typer.Option(help="Type of the stored weights."),
]
Rejected = Annotated[
    Literal["valid", "running"],
    typer.Option(
        help="Wrong answers to learn from: all that parse, or those that also run to "
        "their end and only give a wrong result."
    ),
]
_Model = Annotated[
    str,
    typer.Option(
        metavar="RUN_OR_CHECKPOINT",
        help="What the weights start from: a policy or a reward model; run folder, "
        "checkpoint folder, or builtin:NAME.",
        show_default=False,
    ),
]
_LearningRate = Annotated[
    float,
    typer.Option(min=1e-12, help="Peak; it rises for a tenth of the run, then falls."),
]
_SOURCE = (
    "Judged completions: a run folder with rollouts, or an evaluation that "
    "`jaxgrpo evaluate` has kept (evaluations/NAME-...)."
)


def train_reward(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE", help=_SOURCE, show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Run folder; one that exists is resumed. The model is in OUT/export.",
            show_default=False,
        ),
    ],
    model: _Model,
    rejected: Rejected = "valid",
    pairs_per_problem: Annotated[
        int, typer.Option(min=1, help="Most pairs of a problem.")
    ] = 8,
    held_out: Annotated[
        float,
        typer.Option(
            min=0.001, max=0.9, help="Share of the problems that are measured with."
        ),
    ] = 0.1,
    epochs: Annotated[
        float, typer.Option(min=0.001, help="Passes over the pairs.")
    ] = 1.0,
    batch_pairs: Annotated[int, typer.Option(min=1, help="Pairs of an update.")] = 32,
    learning_rate: _LearningRate = 1e-5,
    max_tokens: Annotated[
        int,
        typer.Option(min=1, help="Longer problems with answers are cut at the end."),
    ] = 4096,
    evaluate_every: Annotated[
        int, typer.Option(min=1, help="Updates between measurements and checkpoints.")
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of every choice.")] = 0,
    fsdp: Annotated[
        int, typer.Option(min=1, help="Devices that share the weights.")
    ] = 1,
    dtype: StoredType = "float32",
    cache_dir: CacheDir = "",
) -> None:
    """Train a reward model on right and wrong answers that runs have left behind.

    Answers to one problem are paired, one that passes all tests with one that
    fails; the model learns to score the first higher. OUT/export is a checkpoint
    for transformers, and for rewards.learned.checkpoint of a run.
    """
    with one_line_errors("The same command goes on from the last checkpoint."):
        from jaxgrpo.preferences.harvest import RewardTraining
        from jaxgrpo.train_reward import train_reward as run_training

        settings = RewardTraining(
            sources=tuple(map(str, sources)),
            model=model,
            rejected=rejected,
            pairs_per_problem=pairs_per_problem,
            held_out=held_out,
            epochs=epochs,
            batch_pairs=batch_pairs,
            learning_rate=learning_rate,
            max_tokens=max_tokens,
            evaluate_every=evaluate_every,
            seed=seed,
            fsdp=fsdp,
        )
        run_training(settings, out, dtype=dtype, cache_dir=cache_dir)


def rank(
    model: Annotated[
        str,
        typer.Argument(
            metavar="REWARD_MODEL",
            help="Run of jaxgrpo train-reward, or a checkpoint of one.",
            show_default=False,
        ),
    ],
    generations: Annotated[
        Path, typer.Argument(metavar="SOURCE", help=_SOURCE, show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the result as JSON.", show_default=False
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Of the intervals.")
    ] = 0.95,
    resamples: Annotated[
        int, typer.Option(min=100, help="Bootstrap samples, of problems.")
    ] = 2_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling.")] = 0,
    cache_dir: CacheDir = "",
) -> None:
    """Pick the best of k completions by a reward model, against a random pick.

    Over all subsets of k of a problem's samples, without drawing any. Problems
    that the model was trained on are left out.
    """
    with one_line_errors("Nothing was written."):
        from jaxgrpo.rank import rank as show_ranks

        show_ranks(
            model,
            generations,
            out=out,
            confidence=confidence,
            resamples=resamples,
            seed=seed,
            cache_dir=cache_dir,
        )
