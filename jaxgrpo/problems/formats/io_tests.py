"""Inputs and outputs side by side, as contest problems come, as tests.

The form is that of APPS, which TACO, LiveCodeBench's evaluator, PRIME and verl have
taken over: `inputs` and `outputs`, two lists of the same length, and `fn_name` where a
function is called with them instead of a program being run.

Reference:
  https://github.com/hendrycks/apps (eval/testing_util.py), and
  https://github.com/volcengine/verl (verl/utils/reward_score/prime_code). Differs from
  them: a list of lines is joined once and not compared in five ways, a value is not
  compared with the first item of any list (see `WRAPPED`), and True is not 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxgrpo.host.records import Test
from jaxgrpo.problems.formats.fields import checked_text, json_of, kind_of, list_of
from jaxgrpo.problems.formats.format import malformed

TEXT = "float(rel=1e-6, abs=1e-6)"
"""Comparator of printed answers: words, fractions within tolerance."""
WRAPPED = "wrapped"
"""Comparator of returned values that may come in a list of one."""
SOLUTION_CLASS = "Solution"


def tests_of_pairs(
    pairs: Mapping[str, Any],
    where: str,
    field: str,
    *,
    function: str = "",
) -> tuple[Test, ...]:
    """Returns the tests of an object with `inputs` and `outputs`.

    Args:
      pairs: Also `fn_name`, where a function is called.
      where: File and row, for messages.
      field: That holds it, for messages.
      function: As the judge is to call it; empty takes `fn_name`.
    """
    inputs = list_of(pairs, "inputs", f"{where}: {field}")
    outputs = list_of(pairs, "outputs", f"{where}: {field}")
    if len(inputs) != len(outputs):
        raise malformed(
            where,
            field,
            f"has {len(inputs)} inputs and {len(outputs)} outputs. Give as many.",
        )
    if not inputs:
        raise malformed(where, field, "has no tests. Give some, or drop the row.")
    name = function or str(pairs.get("fn_name") or "")
    if not name:
        return tuple(
            stdin_test(given, wanted, where, f"{field}[{index}]")
            for index, (given, wanted) in enumerate(zip(inputs, outputs, strict=True))
        )
    return tuple(
        call_test(name, given, wanted, where, f"{field}[{index}]")
        for index, (given, wanted) in enumerate(zip(inputs, outputs, strict=True))
    )


def stdin_test(given: object, wanted: object, where: str, field: str) -> Test:
    """Returns a test by standard input; a list stands for its lines.

    Args:
      given: Text or list.
      wanted: Text or list.
      where: File and row, for messages.
      field: For messages.
    """
    return Test(
        kind="stdin",
        stdin=_lines(given, where, f"{field}: input"),
        expected=_lines(wanted, where, f"{field}: output"),
        compare=TEXT,
    )


def call_test(
    function: str, given: object, wanted: object, where: str, field: str
) -> Test:
    """Returns a test by a call, of data as JSON has it.

    JSON turns the keys of a dictionary into text; where those of the first argument, or
    of the value, are all whole numbers, they are made numbers again, as evaluators do.

    Args:
      function: Name, also `Class.method`.
      given: The arguments, a list; or text with one JSON value per line, as
        LiveCodeBench has it.
      wanted: The value, or JSON of it where the arguments are text.
      where: File and row, for messages.
      field: For messages.
    """
    arguments = given
    if isinstance(given, str):
        arguments = _values(given, where, f"{field}: input")
        if isinstance(wanted, str):
            wanted = json_of(wanted, f"{field}: output", where)
    if not isinstance(arguments, list | tuple):
        raise malformed(
            where, field, f"input is {kind_of(arguments)}. Give a list of arguments."
        )
    return Test(
        kind="call",
        function=function,
        arguments=tuple(map(_with_numbers, arguments[:1])) + tuple(arguments[1:]),
        expected=_expected(wanted),
        compare=WRAPPED,
    )


def method_of(function: str, *codes: str) -> str:
    r"""Returns how the judge is to call a function that may be LeetCode's method.

    Args:
      function: Name alone.
      codes: Starter code or solutions, the first that tells decides.

    Example:
      >>> method_of("add", "", "class Solution:\n    def add(self, x): ...")
      'Solution.add'
    """
    if f"class {SOLUTION_CLASS}" in next(filter(str.strip, codes), ""):
        return f"{SOLUTION_CLASS}.{function}"
    return function


def _lines(given: object, where: str, field: str) -> str:
    if isinstance(given, list | tuple):
        return "\n".join(str(item) for item in _flat(given))
    return checked_text(given, field, where)


def _flat(items: Sequence[object]) -> Sequence[object]:
    # One list around the lines is there in some rows and not in others.
    if len(items) == 1 and isinstance(items[0], list | tuple):
        return items[0]
    return items


def _values(given: str, where: str, field: str) -> list[object]:
    lines = [line for line in given.split("\n") if line.strip()]
    try:
        return [json_of(line, field, where) for line in lines]
    except ValueError:
        # One value that is spread over lines: a list of the arguments.
        whole = json_of(given, field, where)
        return list(whole) if isinstance(whole, list) else [whole]


def _expected(wanted: object) -> object:
    is_wrapped = isinstance(wanted, list) and len(wanted) == 1
    if is_wrapped and isinstance(wanted[0], dict):  # type: ignore[index]
        return [_with_numbers(wanted[0])]  # type: ignore[index]
    return _with_numbers(wanted)


def _with_numbers(value: object) -> object:
    if not isinstance(value, dict) or not value:
        return value
    try:
        return {int(key): item for key, item in value.items()}
    except (TypeError, ValueError):
        return value
