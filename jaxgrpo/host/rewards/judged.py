"""What a reward is given: the completions of one problem, with their verdicts."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxgrpo.host.records import (
    Completion,
    Execution,
    Limits,
    Problem,
    Program,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Completions of one problem that share a baseline, after the judge.

    Where a verdict is INFRA no reward counts, whatever it returns: rewards that compare
    the completions of a group have to leave such a row out.
    """

    problem: Problem
    completions: tuple[Completion, ...]
    verdicts: tuple[Verdict, ...]
    """Aligned with `completions`."""
    run: Callable[[Program], Execution] | None = None
    """Runs a program in the worker's sandbox, for rewards that execute more than the
    judge did; None where there is no sandbox."""
    limits: Limits = Limits()
    """What such a program may use, where the problem does not say."""
