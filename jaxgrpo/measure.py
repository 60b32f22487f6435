"""`jaxgrpo evaluate`: measures a run or a checkpoint, for a person and for a file."""

import json
from pathlib import Path

from jaxgrpo.assembly import problems_of
from jaxgrpo.console import Console
from jaxgrpo.evaluate import Evaluation, evaluate
from jaxgrpo.scorer_setup import build_scorer
from jaxgrpo.source import open_source, source_config


def measure(name: str, overrides: list[str], out: Path | None) -> Evaluation:
    """Evaluates and shows the table.

    Args:
      name: Run folder, checkpoint folder, or `builtin:NAME`.
      overrides: Changes to the configuration.
      out: JSON file for the result, or None.

    Returns:
      The evaluation.
    """
    # The workers start before the model does: they never share a process with jax.
    config = source_config(name, overrides)
    if out is not None and not out.absolute().parent.is_dir():
        raise ValueError(
            f"--out {out}: there is no folder {out.absolute().parent}. Make it first."
        )
    with (
        Console(config.log.console, 1) as console,
        build_scorer(config.scorer, []) as scorer,
    ):
        source = open_source(name, overrides)
        e = source.config.evaluation
        problems = problems_of(
            source.config.data,
            e.split,
            limit=e.num_problems,
            report=console.counter("preparing problems"),
        )
        result = evaluate(
            source.params,
            source.policy,
            problems,
            scorer,
            source.config,
            step=source.step,
            with_samples=True,
            report=console.counter("evaluating"),
        )
        console.table({name: result}, title=f"{e.split} split")
    if out is not None:
        out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result
