"""What CRUXEval's programs print on their way, once they have anchors.

The file is that of output prediction; anchors are put in here, and what they print is
recorded in the sandbox (`step_prediction/anchors.py`).
"""

from collections.abc import Sequence
from dataclasses import replace

from jaxgrpo.host.judge.arguments import read_arguments
from jaxgrpo.host.judge.literal_values import NotALiteralError
from jaxgrpo.host.records import Call, Limits, Problem, Program
from jaxgrpo.host.trace.steps import COLUMN
from jaxgrpo.problems.formats.cruxeval import (
    FILES,
    FUNCTION,
    GET_IT,
    cruxeval_problem,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, Workshop, unusable
from jaxgrpo.problems.formats.wording import fenced
from jaxgrpo.problems.step_prediction.anchors import (
    UnanchoredError,
    anchored,
    printed_anchors,
)

MAX_PRINTED_CHARACTERS = 1000
"""Of all lines together."""
_LIMITS = Limits(cpu_s=5.0, wall_s=30.0)


def program_of(row: Row, where: str) -> Problem:
    """Returns the program of a row; anchors and steps come later.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    problem = cruxeval_problem(row, where)
    return replace(
        problem,
        id=problem.id.replace("cruxeval/", "cruxeval_steps/", 1),
        kind="trace",
        tags=problem.tags | {"dataset": "cruxeval_steps"},
    )


def steps_of(problem: Problem, where: str, workshop: Workshop) -> Sequence[Problem]:
    """Returns the problem with anchors in its program and the steps that they print.

    Args:
      problem: From `program_of`.
      where: File and row, for messages.
      workshop: Runs the program.

    Raises:
      UnusableRowError: There are no anchors or too many, or nobody can write down what
        they print.
    """
    shown = str(problem.columns["call"])
    try:
        code = anchored(str(problem.columns["code"]), FUNCTION)
        arguments, keywords = read_arguments(shown, FUNCTION)
    except UnanchoredError as error:
        raise unusable(where, "code", f"has no anchors: {error}.") from None
    except NotALiteralError as error:
        raise unusable(where, "input", f"is not all literals: {error}") from None
    call = Call(function=FUNCTION, arguments=arguments, keywords=keywords)
    program = Program(source=code, mode="calls", calls=(call,), limits=_LIMITS)
    execution = workshop.run(program)
    printed = execution.results[0].stdout if execution.status == "OK" else ""
    steps = [list(anchor) for anchor in printed_anchors(printed, problem.reference)]
    if not steps or len(printed) > MAX_PRINTED_CHARACTERS:
        raise unusable(where, "code", "its anchors print no steps to be predicted.")
    return [
        replace(
            problem,
            prompt=printing(code, shown),
            tags=problem.tags | {COLUMN: str(len(steps))},
            columns=problem.columns | {"anchored": code, COLUMN: steps},
        )
    ]


def printing(code: str, call: str) -> str:
    """Returns the message that asks what a call prints.

    Args:
      code: The program, with anchors.
      call: Of one of its functions.
    """
    return (
        f"{fenced(code)}\n\n`{call}` is called. Answer with the lines that it prints, "
        "exactly as it prints them."
    )


FORMAT = Format(
    name="cruxeval_steps",
    summary="what a program with anchors prints, line by line; the last literal",
    licence="MIT",
    get_it=GET_IT,
    files=FILES,
    rows=rows_of,
    problem=program_of,
    complete=steps_of,
    kind="trace",
    sizes="466 of 800 programs",
)
