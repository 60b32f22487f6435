"""HumanEval+: HumanEval with corrected solutions and many more inputs.

One JSON object per line: `task_id` ("HumanEval/0"), `prompt`, `entry_point`,
`canonical_solution` (the body alone), `contract` (asserts about inputs, not needed to
judge), `base_input` and `plus_input` (lists of lists of arguments) and `atol`. Expected
values are not in the file: the reference solution is run when the set is built.

Reference:
  https://github.com/evalplus/evalplus (evalplus/data/humaneval.py, evalplus/eval). Its
  rule for equality is kept (`reference_values.compare_as`), and so is the special check
  of `find_zero`. Differs from it: where a tolerance applies, a list may be a tuple.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.fields import (
    identifier_of,
    kind_of,
    list_of,
    number_of,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, Workshop, malformed
from jaxgrpo.problems.formats.humaneval import number_in
from jaxgrpo.problems.formats.reference_values import compare_as, values_of
from jaxgrpo.problems.formats.wording import completing

ROOT = """\
def check(arguments, expected, value):
    total = sum(c * value ** i for i, c in enumerate(arguments[0]))
    return abs(total) <= {tolerance!r}
"""
"""Whether a value is a zero of a polynomial: of several, any will do."""
CHECKERS = {"find_zero": ROOT}


def plus_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row, with the expected values left open.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    prompt = text_of(row, "prompt", where)
    function = text_of(row, "entry_point", where)
    tolerance = number_of(row, "atol", where, default=0)
    checker = CHECKERS.get(function, "").format(tolerance=tolerance or 1e-6)
    return Problem(
        id=f"humaneval_plus/{number_in(identifier_of(row, 'task_id', where))}",
        kind="call",
        prompt=completing(prompt),
        reference=prompt + text_of(row, "canonical_solution", where),
        tests=tests_of_inputs(inputs_of(row, where), function, checker),
        tags=tags_of(dataset="humaneval_plus"),
        columns={
            "entry_point": function,
            "atol": tolerance,
            "contract": text_of(row, "contract", where, default=""),
        },
    )


def inputs_of(row: Row, where: str) -> list[Sequence[object]]:
    """Returns the arguments of all tests, those of the original set first.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    plus = list_of(row, "plus_input", where) if row.get("plus_input") else []
    found = [*list_of(row, "base_input", where), *plus]
    if not found:
        raise malformed(where, "base_input", "is empty. Give inputs, or drop the row.")
    for index, arguments in enumerate(found):
        if not isinstance(arguments, list | tuple):
            raise malformed(
                where,
                f"base_input + plus_input [{index}]",
                f"is {kind_of(arguments)}. Give a list of arguments.",
            )
    return found


def tests_of_inputs(
    inputs: Sequence[Sequence[object]], function: str, checker: str = ""
) -> tuple[Test, ...]:
    """Returns calls whose expected values are still to come.

    Args:
      inputs: Lists of arguments.
      function: To call.
      checker: Decides instead of equality; may be empty.
    """
    return tuple(
        Test(
            kind="call", function=function, arguments=tuple(arguments), checker=checker
        )
        for arguments in inputs
    )


def with_values(problem: Problem, where: str, workshop: Workshop) -> Sequence[Problem]:
    """Returns the problem with the values that its reference solution gives.

    Args:
      problem: Of calls of one function.
      where: File and row, for messages.
      workshop: Runs the solution.
    """
    assert isinstance(problem.tests, tuple)
    tolerance = problem.columns["atol"]
    assert isinstance(tolerance, int | float)
    values = values_of(
        problem.reference,
        problem.tests[0].function,
        [test.arguments for test in problem.tests],
        workshop.run,
        where,
    )
    tests = tuple(
        replace(test, expected=value, **_rule(test, value, tolerance))
        for test, value in zip(problem.tests, values, strict=True)
    )
    return [replace(problem, tests=tests)]


def _rule(test: Test, value: object, tolerance: float) -> Mapping[str, str]:
    return {} if test.checker else {"compare": compare_as(value, tolerance)}


FORMAT = Format(
    name="humaneval_plus",
    summary="HumanEval with many more inputs; calls",
    licence="Apache-2.0",
    get_it=(
        "https://github.com/evalplus/humanevalplus_release/releases/download/v0.1.10/"
        "HumanEvalPlus.jsonl.gz, file HumanEvalPlus.jsonl.gz"
    ),
    files={
        "test": (
            "HumanEvalPlus.jsonl",
            "HumanEvalPlus.jsonl.gz",
            "HumanEvalPlus-v*.jsonl",
        )
    },
    rows=rows_of,
    problem=plus_problem,
    complete=with_values,
    kind="call",
    sizes="164 test",
)
