"""Questions about the runs of CRUXEval's programs: the next line, a value, coverage.

The file is that of output prediction; the questions and their answers are made here,
`data.per_row` for each program (`trace_prediction/questions.py`).
"""

from collections.abc import Sequence
from dataclasses import replace

from jaxgrpo.host.judge.arguments import read_arguments
from jaxgrpo.host.judge.literal_values import NotALiteralError
from jaxgrpo.host.records import Call, Problem
from jaxgrpo.problems.formats.cruxeval import (
    FILES,
    FUNCTION,
    GET_IT,
    cruxeval_problem,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, Workshop, unusable
from jaxgrpo.problems.trace_prediction.questions import trace_problems


def program_of(row: Row, where: str) -> Problem:
    """Returns the program of a row; the questions come later.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    problem = cruxeval_problem(row, where)
    name = problem.id.replace("cruxeval/", "cruxeval_trace/", 1)
    return replace(
        problem,
        id=name,
        kind="trace",
        tags=problem.tags | {"dataset": "cruxeval_trace"},
    )


def questions_of(problem: Problem, where: str, workshop: Workshop) -> Sequence[Problem]:
    """Returns questions about the run.

    Args:
      problem: From `program_of`.
      where: File and row, for messages.
      workshop: Runs the program.

    Raises:
      UnusableRowError: There is nothing to ask: the run is long, or no function of its
        own, or its lines do not tell statements apart.
    """
    shown = str(problem.columns["call"])
    try:
        arguments, keywords = read_arguments(shown, FUNCTION)
    except NotALiteralError as error:
        raise unusable(where, "input", f"is not all literals: {error}") from None
    call = Call(function=FUNCTION, arguments=arguments, keywords=keywords)
    found = trace_problems(problem, call, shown, workshop)
    if not found:
        raise unusable(where, "code", "its run has nothing to ask about.")
    return found


FORMAT = Format(
    name="cruxeval_trace",
    summary="which line runs next, a value at a line, coverage; the literal",
    licence="MIT",
    get_it=GET_IT,
    files=FILES,
    rows=rows_of,
    problem=program_of,
    complete=questions_of,
    kind="trace",
    sizes="data.per_row for most of 800 programs",
)
