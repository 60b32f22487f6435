"""CRUXEval, input prediction: with which arguments does this function return that?

The file is that of output prediction. Any arguments that give the output are right, so
the answer is run (`host/judge/arguments.py`), and not compared with the row's `input`.

Reference:
  https://github.com/facebookresearch/cruxeval (evaluation/utils_execute.py), whose rule
  for equality, Python's `==`, is kept. Differs from it: arguments are literals, and are
  never executed as code.
"""

import ast
from collections.abc import Sequence
from dataclasses import replace

from jaxgrpo.host.judge.arguments import read_arguments
from jaxgrpo.host.judge.literal_values import NotALiteralError
from jaxgrpo.host.records import Call, Limits, Problem, Program, Test
from jaxgrpo.problems.formats.cruxeval import FILES, FUNCTION, GET_IT
from jaxgrpo.problems.formats.fields import identifier_of, tags_of, text_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import (
    Format,
    Row,
    Workshop,
    malformed,
    unusable,
)
from jaxgrpo.problems.formats.wording import calling_for_arguments

_NAME = "arguments_of_the_row"
_LIMITS = Limits(cpu_s=5.0, wall_s=30.0)


def input_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row; its reference is the row's input as it stands.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    code = text_of(row, "code", where)
    output = text_of(row, "output", where)
    try:
        expected = ast.literal_eval(output)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise malformed(where, "output", f"is no literal: {output!r}.") from None
    test = Test(
        kind="call",
        function=FUNCTION,
        source=code,
        expected=expected,
        compare="python",
    )
    return Problem(
        id=f"cruxeval_input/{identifier_of(row, 'id', where)}",
        kind="input",
        prompt=calling_for_arguments(code, FUNCTION, output),
        reference=text_of(row, "input", where),
        tests=(test,),
        tags=tags_of(dataset="cruxeval_input"),
        columns={"code": code, "output": output},
    )


def with_literal_input(
    problem: Problem, where: str, workshop: Workshop
) -> Sequence[Problem]:
    """Returns the problem with literals for a reference.

    A dozen inputs are expressions, such as `''.join(['A'] * 20)`. They are evaluated; a
    function or a range has no literal, and its problem is left out.

    Args:
      problem: From `input_problem`.
      where: File and row, for messages.
      workshop: Evaluates them.
    """
    try:
        read_arguments(problem.reference, FUNCTION)
    except NotALiteralError:
        pass
    else:
        return [problem]
    source = (
        f"{problem.columns['code']}\n\n\n"
        f"def {_NAME}():\n"
        f"    return (lambda *args, **names: (args, names))({problem.reference})\n"
    )
    call = Call(function=_NAME)
    execution = workshop.run(
        Program(source=source, mode="calls", calls=(call,), limits=_LIMITS)
    )
    (result,) = execution.results
    if result.status != "OK":
        raise unusable(
            where, "input", f"is no literal and stands for none: {problem.reference}."
        )
    positional, named = result.value  # type: ignore[misc]
    texts = [*map(repr, positional), *(f"{k}={v!r}" for k, v in named.items())]
    return [replace(problem, reference=", ".join(texts))]


FORMAT = Format(
    name="cruxeval_input",
    summary="arguments that give an output; any that do",
    licence="MIT",
    get_it=GET_IT,
    files=FILES,
    rows=rows_of,
    problem=input_problem,
    complete=with_literal_input,
    kind="input",
    sizes="797 test",
)
