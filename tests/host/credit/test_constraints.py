"""What a reference asks of other solutions, and which programs keep to it."""

import pytest

from jaxgrpo.host.credit.constraints import (
    KINDS,
    broken_constraints,
    constraints_of,
    entry_point_of,
    features_of,
)
from jaxgrpo.host.records import Problem, Test

REFERENCE = """
import math
def helper(x): return x
def f(xs, k):
    best = 0
    for x in xs:
        if x > k:
            best = max(best, math.floor(helper(x)))
    return best
"""


def broken(candidate: str, reference: str = REFERENCE) -> tuple[str, ...]:
    constraints = constraints_of(features_of(reference), KINDS, "f")
    return broken_constraints(features_of(candidate), constraints)


def test_a_reference_keeps_its_own_constraints():
    assert broken(REFERENCE) == ()


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ("def g(xs, k): return 0", ("entry_point",)),
        ("def f(xs): return 0", ("entry_point",)),
        ("def f(*args): return 0", ()),
        ("def f(xs, k, memo=None): return 0", ()),
        ("f = lambda xs, k: 0", ()),
        ("def helper(x): return x", ("entry_point",)),
        ("import os, math\ndef f(xs, k): return 0", ("imports",)),
        ("from os.path import join\ndef f(xs, k): return 0", ("imports",)),
        ("def f(xs, k):\n  seen = {1}\n  return 0", ("containers",)),
        ("def f(xs, k): return f(xs, k)", ("recursion",)),
        ("def f(xs, k):\n  for x in xs:\n    while x: x -= 1\n  return 0",
         ("loop_nesting",)),
        ("def f(xs, k): return [y for x in xs for y in x][0]",
         ("containers", "loop_nesting")),
        ("def f(xs, k): return max(sorted(xs))", ("sorting",)),
        ("def f(xs, k):\n  xs.sort()\n  return 0", ("sorting",)),
    ],
)  # fmt: skip
def test_what_goes_beyond_the_reference_is_named(candidate, expected):
    assert broken(candidate) == expected


def test_what_the_reference_does_is_fine():
    reference = "def f(n):\n  return n if n < 2 else f(n - 1) + len(sorted([n]))"
    candidate = "def f(n):\n  if n > 1: return f(n - 1) + len(sorted([n]))\n  return n"
    assert broken(candidate, reference) == ()


def test_every_constraint_can_be_told():
    constraints = constraints_of(features_of(REFERENCE), KINDS, "f")
    assert [constraint.kind for constraint in constraints] == list(KINDS)
    assert all(constraint.sentence.endswith(".") for constraint in constraints)
    assert constraints[0].sentence == "Define the function f with 2 arguments."


@pytest.mark.parametrize("definition", ["def g(x): return x\ng = g", "class g: pass"])
def test_what_is_no_function_by_its_notation_may_be_called_anyhow(definition):
    (entry,) = constraints_of(features_of(definition), ["entry_point"], "g")
    assert entry.sentence == "Define the function g."
    assert entry.is_kept(features_of("def g(x, y): return 1"))
    assert not entry.is_kept(features_of("def h(x, y): return 1"))


# Which function tests call.


def problem(kind: str, *tests: Test, reference: str = REFERENCE) -> Problem:
    return Problem(id="p", kind=kind, prompt="", reference=reference, tests=tests)  # type: ignore[arg-type]


def test_the_entry_point_is_what_tests_call():
    call = Test(kind="call", function="f", arguments=([1], 2), expected=1)
    asserts = Test(
        kind="assert", source="from math import inf\nassert max([f([1], 2)]) == 1"
    )
    named = Test(
        kind="assert", source="def check(c):\n  assert c([1], 2) == 1", function="f"
    )
    assert entry_point_of(problem("call", call)) == "f"
    assert entry_point_of(problem("assert", asserts)) == "f"
    assert entry_point_of(problem("assert", named)) == "f"
    unreadable = problem("assert", asserts, reference="one two")
    assert entry_point_of(unreadable) == ""


def test_whole_programs_have_no_entry_point_whatever_helpers_the_reference_has():
    stdin = problem("stdin", Test(kind="stdin", stdin="1", expected="1"))
    assert entry_point_of(stdin) == ""
    assert constraints_of(features_of(REFERENCE), ["entry_point"], "") == []
