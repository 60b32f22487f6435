"""Tests of rows for reinforcement learning, in the shapes that trainers exchange.

    {"inputs": [...], "outputs": [...], "fn_name": "f"}         PRIME, verl, TACO
    [{"input": "1", "output": "2"}, ...]                        Codeforces in DeepCoder
    [{"type": "stdin_stdout" | "function_call",                 PrimeIntellect
      "fn_name": "f" | null, "input": ..., "output": ...}, ...]
    [{"testtype": "stdin" | "functional", "input": ...,         lcbv5 in DeepCoder
      "output": ..., "metadata": {"func_name": "f"}}, ...]

Reference:
  https://github.com/agentica-project/rllm (scripts/data/deepcoder_dataset.py,
  rllm/rewards/code_reward.py), https://github.com/volcengine/verl (prime_code).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jaxgrpo.host.records import Test
from jaxgrpo.problems.formats.fields import json_of, kind_of, present
from jaxgrpo.problems.formats.format import Row, malformed
from jaxgrpo.problems.formats.io_tests import (
    call_test,
    method_of,
    stdin_test,
    tests_of_pairs,
)

BY_LINES = "functional"
"""The type of tests whose arguments are JSON values on lines of their own."""


def tests_of_cases(
    found: object, where: str, field: str, *codes: str, function: str = ""
) -> tuple[Test, ...]:
    """Returns the tests that a field holds, in any of the shapes.

    Args:
      found: The field, JSON already read.
      where: File and row, for messages.
      field: Its name, for messages.
      codes: Starter code and solutions, which tell whether a function is a method.
      function: Its name where the tests do not tell; empty for none.
    """
    if isinstance(found, Mapping):
        name = str(found.get("fn_name") or function)
        called = method_of(name, *codes) if name else ""
        return tests_of_pairs(found, where, field, function=called)
    if not isinstance(found, list | tuple):
        raise malformed(where, field, f"is {kind_of(found)}. Give a list of tests.")
    if not found:
        raise malformed(where, field, "has no tests. Give some, or drop the row.")
    tests = tuple(
        _test(case, where, f"{field}[{index}]", codes, function)
        for index, case in enumerate(found)
    )
    if len({test.kind for test in tests}) > 1:
        raise malformed(where, field, "mixes calls and programs. Split the row.")
    return tests


def _test(
    case: object, where: str, field: str, codes: tuple[str, ...], function: str
) -> Test:
    if not isinstance(case, Mapping):
        raise malformed(where, field, f"is {kind_of(case)}. Give an object.")
    there = f"{where}: {field}"
    given, wanted = present(case, "input", there), present(case, "output", there)
    name = _function_of(case, function)
    if not name:
        return stdin_test(given, wanted, where, field)
    called = method_of(name, *codes)
    if case.get("testtype") == BY_LINES:
        test = call_test(called, given, wanted, where, field)
        return replace(test, compare="value")
    return call_test(
        called,
        _decoded(given, where, f"{field}: input"),
        _decoded(wanted, where, f"{field}: output"),
        where,
        field,
    )


def _function_of(case: Row, function: str) -> str:
    if "stdin" in str(case.get("type") or case.get("testtype") or ""):
        return ""
    metadata: Any = case.get("metadata")
    name = metadata.get("func_name") if isinstance(metadata, Mapping) else ""
    return str(case.get("fn_name") or name or function)


def _decoded(value: object, where: str, field: str) -> object:
    """A value that was made text so that all rows have the same type."""
    if not isinstance(value, str):
        return value
    try:
        return json_of(value, field, where)
    except ValueError:
        return value
