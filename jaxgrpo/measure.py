"""`jaxgrpo evaluate`: measures a run or a checkpoint, for a person and for files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.evaluate import Measured, outcomes_of
from jaxgrpo.evaluation.comparison import comparison
from jaxgrpo.evaluation.estimates import bootstrap_intervals
from jaxgrpo.evaluation.generations import generations_folder
from jaxgrpo.evaluation.outcomes import Evaluation, Outcome, columns_of, summary
from jaxgrpo.evaluation.slices import slices_by_tag
from jaxgrpo.host.records import Problem
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.policy import check_lengths, prompt_style
from jaxgrpo.report.comparison_table import as_markdown, result_tables
from jaxgrpo.run_folder import write_json, write_whole
from jaxgrpo.scorer_setup import build_scorer
from jaxgrpo.source import Source, open_source, source_config

KEPT_IN = Path("evaluations")
"""Where generations are kept unless told otherwise."""
_MOST_FLIPS = 8
"""Flipped problems that are listed on the console, in each direction."""
_NOT_IN_IDENTITY = (
    "optimizer", "objective", "rewards", "checkpoint", "log", "supervised", "mesh",
    "lora",
)  # fmt: skip
"""Tables that change no generation."""
_NO_MATTER = (
    ("data", "cache_dir"), ("data", "build_workers"), ("scorer", "num_workers"),
)  # fmt: skip
"""Fields of the others that do not either."""


def measure(
    name: str,
    overrides: list[str],
    *,
    against: str | None = None,
    out: Path | None = None,
    table: Path | None = None,
    keep: Path = KEPT_IN,
) -> dict[str, Any]:
    """Evaluates a checkpoint, alone or against another, and shows the tables.

    Every generation is kept as it comes; an evaluation that was interrupted goes on
    where it stopped, and one that was finished is only read.

    Args:
      name: Run folder, checkpoint folder, or `builtin:NAME`.
      overrides: Changes to the configuration.
      against: Another one, measured with the same configuration on the same problems,
        with the same random keys.
      out: JSON file for the result, or None.
      table: Markdown file for the tables, or None.
      keep: Folder for the generations.

    Returns:
      What the JSON file holds.
    """
    # The workers start before the model does: they never share a process with jax.
    config = source_config(name, overrides)
    if against == name:
        raise ValueError(f"--against {name} is what is evaluated. Name another one.")
    for option, path in (("--out", out), ("--markdown", table)):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(
                f"{option} {path}: there is no folder {path.absolute().parent}. Make "
                "it first."
            )
    with (
        Console(config.log.console, 1) as console,
        build_scorer(config.scorer, []) as scorer,
    ):
        e = config.evaluation
        problems = problems_of(
            config.data,
            e.split,
            limit=e.num_problems,
            report=console.counter("preparing problems"),
        )
        source = open_source(name, overrides)
        for note in source.policy.notes:
            console.note(note)
        measuring = _Measuring(config, problems, scorer, console, keep)
        measured, result = measuring.measure(name, source, source.step)
        if against is not None:
            other = _with_prompts(open_source(against, []), config)
            other_measured, result["against"] = measuring.measure(
                against, other, source.step
            )
            result["comparison"] = comparison(
                other_measured.outcomes,
                measured.outcomes,
                e.pass_at,
                measuring.bootstrap,
                rare=e.rare_tag,
            )
        result["settings"] = {
            "split": e.split,
            "samples_per_problem": e.samples_per_problem,
            "temperature": e.temperature,
            **measuring.bootstrap,
        }
        for title, shown in result_tables(result, _MOST_FLIPS):
            console.text_table(shown, title)
        for entry in (result, result.get("against")):
            if entry is not None:
                console.note(f"{entry['source']}: all in {entry['generations']}")
    if out is not None:
        write_json(out, result)
    if table is not None:
        write_whole(table, as_markdown(result_tables(result)))
    return result


@dataclass(frozen=True, slots=True)
class _Measuring:
    """What all checkpoints of one command are measured with."""

    config: Config
    problems: Sequence[Problem]
    scorer: Scorer
    console: Console
    keep: Path

    @property
    def bootstrap(self) -> dict[str, Any]:
        """Confidence, resamples and seed."""
        e = self.config.evaluation
        return {
            "confidence": e.confidence,
            "resamples": e.resamples,
            "seed": self.config.run.seed,
        }

    def measure(
        self, name: str, source: Source, key_step: int
    ) -> tuple[Measured, dict[str, Any]]:
        """What became of the problems, and the same as plain data.

        Args:
          name: Of the source.
          source: To measure.
          key_step: Part of the random keys, whatever the source's own step.
        """
        identity = _identity(source, self.config, key_step)
        folder = generations_folder(self.keep, name, identity)
        measured = outcomes_of(
            source.params,
            source.policy,
            self.problems,
            self.scorer,
            self.config,
            step=key_step,
            with_samples=True,
            policy_step=source.step,
            keep=folder,
            report=self.console.counter(f"evaluating {name}"),
        )
        outcomes = measured.outcomes
        slices = slices_by_tag(
            [outcome.tags for outcome in outcomes], self.config.evaluation.rare_tag
        )
        return measured, {
            "source": name,
            "step": source.step,
            "generations": str(folder),
            "evaluation": self._summary(outcomes, measured.num_dropped),
            "by_tag": {
                tag: {
                    value: self._summary([outcomes[place] for place in places])
                    for value, places in values.items()
                }
                for tag, values in slices.items()
            },
        }

    def _summary(self, outcomes: Sequence[Outcome], num_dropped: int = 0) -> Evaluation:
        columns = columns_of(outcomes, self.config.evaluation.pass_at)
        intervals = bootstrap_intervals(columns, **self.bootstrap)
        return summary(columns, num_dropped, intervals)


def _with_prompts(source: Source, config: Config) -> Source:
    """The source with another's way of making prompts."""
    policy = replace(source.policy, style=prompt_style(config.prompt))
    check_lengths(config, policy)
    return replace(source, policy=policy)


def _identity(source: Source, config: Config, key_step: int) -> dict[str, Any]:
    """All that the generations depend on."""
    tables = config.model_dump(mode="json", exclude=set(_NOT_IN_IDENTITY))
    e = config.evaluation
    tables["run"] = {"seed": config.run.seed}
    tables["evaluation"] = {
        "split": e.split,
        "samples_per_problem": e.samples_per_problem,
        "temperature": e.temperature,
        "batch_problems": e.batch_problems,
    }
    tables["model"] = {
        "weights": int(_fingerprint(source.params)),
        "compute": source.policy.forward._asdict(),
    }
    for table, field in _NO_MATTER:
        tables[table].pop(field, None)
    return {"step": source.step, "key_step": key_step, **tables}


@jax.jit
def _fingerprint(params: Any) -> jax.Array:
    """A number that tells weights from others, by all their bits."""
    total = jnp.uint32(0)
    for leaf in jax.tree.leaves(params):
        words = leaf.astype(jnp.float32).view(jnp.uint32)
        # The place counts too: a sum alone would not see two numbers swapped.
        places = jnp.arange(words.size, dtype=jnp.uint32).reshape(words.shape)
        mixed = (words ^ (places * jnp.uint32(2654435761))) * jnp.uint32(2246822519)
        total = total * 31 + jnp.sum(mixed ^ (mixed >> 15), dtype=jnp.uint32)
    return total
