"""MBPP+: problems of MBPP with corrected solutions and many more inputs.

One JSON object per line, in the form of HumanEval+: `task_id` ("Mbpp/2"), `prompt` (a
docstring: the task and an assert), `entry_point`, `canonical_solution` (whole),
`base_input`, `plus_input`, `atol`. JSON has no tuples, sets or complex numbers; which
arguments are meant to be some is known by the task's number alone.

Reference:
  https://github.com/evalplus/evalplus (evalplus/data/mbpp.py for the arguments,
  evalplus/eval/_special_oracle.py for the tasks with other rules than equality).
  Differs from it: a program that returns an object (`re.Match`) is wrong, since nothing
  but plain data leaves the sandbox.
"""

import ast
from collections.abc import Callable

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats.fields import (
    identifier_of,
    number_of,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed
from jaxgrpo.problems.formats.humaneval import number_in
from jaxgrpo.problems.formats.humaneval_plus import (
    inputs_of,
    tests_of_inputs,
    with_values,
)
from jaxgrpo.problems.formats.wording import PROGRAM

Arguments = list[object]

SAME_ITEMS = """\
def check(arguments, expected, value):
    return set(value) == set(expected)
"""
ANYTHING = """\
def check(arguments, expected, value):
    return True
"""
ZERO_TOO = """\
def check(arguments, expected, value):
    return bool(value == expected or value == 0)
"""
PADDED_DIGITS_TOO = """\
def check(arguments, expected, value):
    first, second = map(str, arguments)
    width = max(len(first), len(second))
    pairs = zip(first.zfill(width), second.zfill(width))
    padded = sum(abs(int(a) - int(b)) for a, b in pairs)
    return bool(value == expected or value == padded)
"""
PYRAMID_TOO = """\
def check(arguments, expected, value):
    base, height = arguments
    slanted = ((base / 2) ** 2 + height**2) ** 0.5
    area = round(base**2 + 2 * base * slanted)
    return bool(value == expected or abs(value - area) <= {tolerance!r})
"""
FOUND = """\
def check(arguments, expected, value):
    return expected == (value if isinstance(value, bool) else value is not None)
"""
RETURNS_MATCH = "check_str text_match_three text_starta_endb".split()
"""Functions whose references return an object; whether there is one is what counts."""
AS_BOOL = """

_found = {function}


def {function}(*arguments):
    return _found(*arguments) is not None
"""
CHECKERS = {
    **dict.fromkeys(
        (
            "similar_elements find_char_long common_in_nested_lists extract_singly "
            "larg_nnum intersection_array find_dissimilar Diff"
        ).split(),
        SAME_ITEMS,
    ),
    **dict.fromkeys(RETURNS_MATCH, FOUND),
    "are_equivalent": ANYTHING,
    "sum_div": ZERO_TOO,
    "digit_distance_nums": PADDED_DIGITS_TOO,
    "surface_Area": PYRAMID_TOO,
}
"""Tasks for which other values than the reference's are right as well, by function."""


def _tuples(argument: object) -> object:
    """A list as a tuple."""
    return tuple(argument) if isinstance(argument, list) else argument


def _tuples_in(argument: object) -> object:
    """A list of lists as a list of tuples."""
    if not isinstance(argument, list):
        return argument
    return [tuple(item) if isinstance(item, list) else item for item in argument]


def _tuple_of_tuples(argument: object) -> object:
    """A list of lists as a tuple of tuples."""
    return _tuples(_tuples_in(argument))


def _all_tuples(argument: object) -> object:
    """Every list as a tuple, at any depth."""
    if isinstance(argument, list):
        return tuple(_all_tuples(item) for item in argument)
    return argument


def _sets_in(argument: object) -> object:
    """A list of lists as a list of sets; the empty one stands for a dictionary."""
    assert isinstance(argument, list)
    return [set(i) if isinstance(i, list) and i else {} for i in argument]


def _tuples_as_values(argument: object) -> object:
    """A dictionary of lists as one of tuples."""
    assert isinstance(argument, dict)
    return {key: tuple(value) for key, value in argument.items()}


def _complex(argument: object) -> object:
    return complex(argument)  # type: ignore[arg-type]


def _float(argument: object) -> object:
    return float(argument)  # type: ignore[arg-type]


def _each(change: Callable[[object], object]) -> Callable[[Arguments], Arguments]:
    return lambda arguments: [change(argument) for argument in arguments]


def _only(
    *changes: Callable[[object], object] | None,
) -> Callable[[Arguments], Arguments]:
    """Changes by position; None, and what comes after, stays as it is."""

    def change(arguments: Arguments) -> Arguments:
        changed = [
            argument if one is None else one(argument)
            for one, argument in zip(changes, arguments, strict=False)
        ]
        return [*changed, *arguments[len(changed) :]]

    return change


MEANT: dict[Callable[[Arguments], Arguments], str] = {
    _each(_tuples): (
        "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 "
        "744 809"
    ),
    _each(_tuples_in): "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780",
    _only(_tuples_in): "75 413 444 753",
    _only(None, _tuples): "106 750",
    _only(_sets_in): "115",
    _only(_float, _complex): "124",
    _only(_tuples): "250 307 405 446 617 720 763 808",
    _only(_complex): "252",
    _each(_tuple_of_tuples): "259 401 445",
    _only(_tuple_of_tuples): "278",
    _each(_all_tuples): "580 615 791",
    _only(_tuples_as_values): "722",
}
"""What the arguments of a task are made into, with the tasks' numbers."""
_MEANT_BY_TASK = {
    number: change for change, numbers in MEANT.items() for number in numbers.split()
}


def plus_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row, with the expected values left open.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    prompt = text_of(row, "prompt", where)
    function = text_of(row, "entry_point", where)
    number = number_in(identifier_of(row, "task_id", where))
    tolerance = number_of(row, "atol", where, default=0)
    change = _MEANT_BY_TASK.get(number, list)
    given = inputs_of(row, where)
    try:
        inputs = [change(list(arguments)) for arguments in given]
    except (TypeError, ValueError, AssertionError) as error:
        raise malformed(
            where,
            "base_input + plus_input",
            f"holds other types than task {number} has ({error}). Correct it.",
        ) from None
    checker = CHECKERS.get(function, "").replace("{tolerance!r}", repr(tolerance))
    solution = prompt + text_of(row, "canonical_solution", where)
    if function in RETURNS_MATCH:
        solution += AS_BOOL.format(function=function)
    return Problem(
        id=f"mbpp_plus/{number}",
        kind="call",
        prompt=f"{_task(prompt)}\n\nThe function is `{function}`. {PROGRAM}",
        reference=solution,
        tests=tests_of_inputs(inputs, function, checker),
        tags=tags_of(dataset="mbpp_plus"),
        # The number is MBPP's: 601 and above are what others train on.
        columns={"entry_point": function, "atol": tolerance, "task_number": number},
    )


def _task(prompt: str) -> str:
    """The text of a docstring, or what is not one as it is."""
    try:
        value = ast.literal_eval(prompt.strip())
    except (ValueError, SyntaxError):
        return prompt.strip()
    return str(value).strip()


FORMAT = Format(
    name="mbpp_plus",
    summary="MBPP with many more inputs; calls",
    licence="Apache-2.0",
    get_it=(
        "https://github.com/evalplus/mbppplus_release/releases/download/v0.2.0/"
        "MbppPlus.jsonl.gz, file MbppPlus.jsonl.gz"
    ),
    files={"test": ("MbppPlus.jsonl", "MbppPlus.jsonl.gz", "MbppPlus-v*.jsonl")},
    rows=rows_of,
    problem=plus_problem,
    complete=with_values,
    kind="call",
    sizes="378 test",
)
