"""Problem and completion to verdict. Each kind of problem has its own judge."""

from typing import TYPE_CHECKING, get_args

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.arguments import judge_arguments
from jaxgrpo.host.judge.error_classes import ERROR_CLASSES
from jaxgrpo.host.judge.output import judge_output
from jaxgrpo.host.judge.programs import judge_program
from jaxgrpo.host.judge.results import infra_verdict
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.records import Completion, Problem, ProblemKind, Verdict

if TYPE_CHECKING:
    from jaxgrpo.host.sandbox import Sandbox

__all__ = [
    "DEFAULT_SETTINGS",
    "ERROR_CLASSES",
    "INFRA_CLASS",
    "JUDGED_KINDS",
    "SANDBOXED_KINDS",
    "JudgeSettings",
    "check_kind",
    "infra_verdict",
    "judge",
]

JUDGED_KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)
"""Kinds of problems, each of which has a judge."""
SANDBOXED_KINDS: tuple[ProblemKind, ...] = ("input", "stdin", "call", "assert")
"""Kinds whose judge has to run a program."""
DEFAULT_SETTINGS = JudgeSettings()
INFRA_CLASS = error_classes.INFRA
"""Error class of a verdict that could not be reached for reasons of our own."""


def check_kind(problem: Problem) -> None:
    """Raises ValueError if no judge exists for the problem's kind."""
    if problem.kind not in JUDGED_KINDS:
        raise ValueError(
            f"problem {problem.id!r} is of kind {problem.kind!r}, which has no judge. "
            f"Use problems of kind {', '.join(map(repr, JUDGED_KINDS))}."
        )


def judge(
    problem: Problem,
    completion: Completion,
    sandbox: "Sandbox | None" = None,
    settings: JudgeSettings = DEFAULT_SETTINGS,
) -> Verdict:
    """Returns the verdict on one completion of a problem.

    The text decides, also where the completion was cut off by its token budget.

    Args:
      problem: Its kind chooses the judge.
      completion: Only its text is looked at, and what ended and preceded it.
      sandbox: Runs the programs of SANDBOXED_KINDS; other kinds need none.
      settings: How answers are found, and programs limited and tested.
    """
    check_kind(problem)
    if problem.kind not in SANDBOXED_KINDS:
        return judge_output(problem, completion, settings)
    assert sandbox is not None, "programs need a sandbox"
    if problem.kind == "input":
        return judge_arguments(problem, completion, settings, sandbox.run)
    return judge_program(
        problem,
        completion.text,
        sandbox,
        settings,
        stop=completion.stop,
        in_thought=completion.in_thought,
    )
