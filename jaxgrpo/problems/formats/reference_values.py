"""Expected values from a reference solution, for sets that publish inputs alone.

The solution runs in the sandbox, a call at a time, and what it returns is what other
programs have to return. It is not trusted for anything else.
"""

from collections.abc import Callable, Sequence

from jaxgrpo.host.records import Call, CallResult, Execution, Limits, Program
from jaxgrpo.problems.formats.fields import MAX_SHOWN
from jaxgrpo.problems.formats.format import malformed

LIMITS = Limits(cpu_s=60.0, wall_s=240.0, memory_bytes=4 * 2**30)
"""Generous: some references need seconds for an input that was made to be large."""
DEFAULT_TOLERANCE = 1e-6
"""Absolute, where a float is expected and no tolerance is stated."""
BATCH = 100
"""Calls that share a process."""


def values_of(
    solution: str,
    function: str,
    inputs: Sequence[Sequence[object]],
    run: Callable[[Program], Execution],
    where: str,
    *,
    limits: Limits = LIMITS,
) -> list[object]:
    """Returns what a solution returns for each list of arguments.

    Args:
      solution: The whole program.
      function: To call.
      inputs: Lists of arguments.
      run: A sandbox's.
      where: File and row, for messages.
      limits: Of a batch of calls.

    Raises:
      MalformedRowError: A call gives no value, or none that is plain data.
    """
    values: list[object] = []
    for start in range(0, len(inputs), BATCH):
        calls = tuple(
            Call(function=function, arguments=tuple(arguments))
            for arguments in inputs[start : start + BATCH]
        )
        execution = run(
            Program(source=solution, mode="calls", calls=calls, limits=limits)
        )
        for call, result in zip(calls, execution.results, strict=True):
            if result.status != "OK":
                raise malformed(
                    where,
                    "canonical_solution",
                    f"{function}(*{repr(call.arguments)[:MAX_SHOWN]}) gives no value: "
                    f"{_reason(execution, result)}. Leave the row out.",
                )
            values.append(result.value)
    return values


def holds_float(value: object) -> bool:
    """Returns whether a value is a float or a sequence of nothing but floats.

    Args:
      value: Plain data.

    Example:
      >>> holds_float(0.5), holds_float([0.5, 1.0]), holds_float([1, 0.5])
      (True, True, False)
    """
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, float) for item in value)
    return isinstance(value, float)


def compare_as(expected: object, tolerance: float) -> str:
    """Returns the comparator that EvalPlus's rule amounts to.

    A tolerance applies where the set states one, or where a float is expected;
    everything else is compared by Python's `==`.

    Args:
      expected: The reference's value.
      tolerance: Absolute, as the set states it.
    """
    if not tolerance and not holds_float(expected):
        return "python"
    return f"float(rel=1e-07, abs={tolerance or DEFAULT_TOLERANCE!r})"


def _reason(execution: Execution, result: CallResult) -> str:
    found = result.exception or execution.exception
    if found is not None:
        return f"{found.type_name}: {found.message}"
    return execution.reason or result.status
