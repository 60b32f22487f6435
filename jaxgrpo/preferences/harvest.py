"""What a reward model learns from: pairs of all sources, divided by problem."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jaxgrpo.host.records import Problem
from jaxgrpo.preferences.kept import read_kept
from jaxgrpo.preferences.pairs import (
    JudgedAnswer,
    Pair,
    Rejected,
    distinct,
    is_held_out,
    pairs_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTraining:
    """What decides the result."""

    sources: tuple[str, ...]
    """Folders with judged answers."""
    model: str
    """What the weights start from: a policy, or a reward model."""
    rejected: Rejected = "valid"
    pairs_per_problem: int = 8
    """At most."""
    held_out: float = 0.1
    """Share of the problems that are measured with."""
    epochs: float = 1.0
    """Passes over the pairs."""
    batch_pairs: int = 32
    learning_rate: float = 1e-5
    max_tokens: int = 4096
    """Longer conversations are cut at their end."""
    evaluate_every: int = 50
    """Updates between measurements and checkpoints."""
    seed: int = 0
    fsdp: int = 1
    """Devices that share the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """Answers and pairs, and the problems that they are about."""

    problems: dict[str, Problem]
    template: str
    num_completions: int
    answers: list[JudgedAnswer]
    """Distinct, of all problems."""
    pairs: list[Pair]
    """To learn from."""
    held_out: list[JudgedAnswer]
    """Distinct, of the held-out problems."""
    held_out_pairs: list[Pair]


def harvest(
    settings: RewardTraining, cache_dir: str, note: Callable[[str], None]
) -> Harvest:
    """Pairs from the answers of all sources, divided by problem.

    Args:
      settings: Which, and how many.
      cache_dir: As for `train_reward`.
      note: Is told what was found.

    Raises:
      ValueError: There are no pairs on one of the sides, or the sources asked the
        problems in different ways.
    """
    kept = [read_kept(Path(name), cache_dir=cache_dir) for name in settings.sources]
    if len({source.template for source in kept}) > 1:
        raise ValueError(
            f"the sources {', '.join(settings.sources)} have different "
            "prompt.template. A reward model is shown one message: train on those "
            "that agree."
        )
    answers = distinct(answer for source in kept for answer in source.answers)
    sides: dict[bool, list[JudgedAnswer]] = {False: [], True: []}
    for answer in answers:
        sides[is_held_out(answer.problem_id, settings.held_out, settings.seed)].append(
            answer
        )
    chosen = {
        side: pairs_of(
            found,
            rejected=settings.rejected,
            per_problem=settings.pairs_per_problem,
            seed=settings.seed,
        )
        for side, found in sides.items()
    }
    for side, pairs in chosen.items():
        if not pairs:
            raise ValueError(
                f"no pair of a right and a wrong answer to one problem among the "
                f"{len(sides[side])} answers {'held out' if side else 'to learn from'}"
                ". Sample more problems, or more completions of each."
            )
    found = Harvest(
        problems={k: v for source in kept for k, v in source.problems.items()},
        template=kept[0].template,
        num_completions=sum(len(source.rows) for source in kept),
        answers=answers,
        pairs=chosen[False],
        held_out=sides[True],
        held_out_pairs=chosen[True],
    )
    note(_harvest_text(found))
    return found


def _harvest_text(found: Harvest) -> str:
    num_right = sum(answer.is_right for answer in found.answers)
    num_problems = len({pair.problem_id for pair in found.pairs})
    return (
        f"{found.num_completions:,} completions of {len(found.problems):,} problems: "
        f"{len(found.answers):,} distinct answers, {num_right:,} right. Pairs: "
        f"{len(found.pairs):,} of {num_problems:,} problems to learn "
        f"from, {len(found.held_out_pairs):,} of held-out ones."
    )
