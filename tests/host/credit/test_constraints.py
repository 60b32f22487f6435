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
        ("def f(xs, k, j): return 0", ("entry_point",)),
        ("def f(xs, *, k): return 0", ()),
        ("def f(xs, **named): return 0", ()),
        ("f = lambda xs, k: 0", ()),
        ("f: object = lambda xs, k: 0", ()),
        ("f, g = (lambda xs, k: 0), 1", ()),
        ("[g, *f] = 1, 2", ()),
        ("if f := (lambda xs, k: 0): pass", ()),
        ("if True:\n  def f(xs, k): return 0", ()),
        ("if True:\n  def f(xs): return 0", ("entry_point",)),
        ("try:\n  def f(xs): return 0\nfinally:\n  def f(xs, k): return 0", ()),
        ("def f(xs): return 0\nif True:\n  f = lambda xs, k: 0", ()),
        ("def f(xs, k): return 0\ndef f(xs): return 0", ("entry_point",)),
        ("def g():\n  f = 1\n  def f(xs, k): return 0", ("entry_point",)),
        ("[f for f in range(2)]", ("entry_point", "containers")),
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


PLAIN = "def f(xs, k):\n  for x in xs: pass\n  return 0"


@pytest.mark.parametrize(
    "candidate",
    [
        "def f(s, x): return s.f(x)",
        "def count(s, x): return s.count(x)\ndef f(xs, k): return count(xs, k)",
        "class A:\n  def f(self, x): return f(x, 1)\ndef f(xs, k): return 0",
        "class A:\n  def f(self, s): return s.f(1)\ndef f(xs, k): return 0",
        "class A:\n  def f(self): return super().f()\ndef f(xs, k): return 0",
        "def f(f, k): return f(k)",
        "def f(xs, k):\n  def f(x): return x\n  return f(k)",
        "def f(xs, k):\n  f = lambda x: x\n  return f(k)",
        "def f(xs, k):\n  f: object = abs\n  return f(k)",
        "def f(xs, k):\n  _, (f, *_) = 1, (abs, 2)\n  return f(k)",
        "def f(xs, k):\n  from math import floor as f\n  return f(k)",
        "def f(xs, k):\n  for f in (abs,): k = f(k)\n  return k",
        "def f(xs, k):\n  if f := abs: return f(k)",
        "def f(xs, k):\n  match k:\n    case f: return f()",
        "def f(xs, k): return (lambda f: f(k))(abs)",
        "def f(xs, k): return any(f(k) for f in xs)",
        "def f(xs, k):\n  any(f := x for x in xs)\n  return f(k)",
        "def f(xs, k):\n  class A:\n    f = abs\n    x = f(1)\n  return A.x",
    ],
)
def test_another_function_of_the_same_name_is_no_recursion(candidate):
    assert not features_of(candidate).is_recursive
    assert broken(candidate, "import math\n" + PLAIN) == ()


@pytest.mark.parametrize(
    "candidate",
    [
        "def f(n): return f(n - 1)",
        "async def f(n): return await f(n - 1)",
        "def f(n):\n  def g(m): return g(m - 1)\n  return g(n)",
        "def f(n):\n  def g(f): return f(1)\n  return f(n - 1)",
        "def f(n):\n  global f\n  f = cached(f)\n  return f(n - 1)",
        "def f(n):\n  return sum(f(m) for m in range(n) if [f for f in n])",
        "def f(n): return any(x for x in n for y in f(x))",
        "def f(n):\n  class A:\n    f = 1\n    def g(self): return f(n)\n  return A()",
        "def f(n):\n  def g(m=f(n - 1)):\n    return m\n  return g()",
        "class A:\n  def f(self, n): return self.f(n - 1)",
        "class A:\n  @classmethod\n  def f(cls, n): return cls.f(n - 1)",
        "class A:\n  @staticmethod\n  def f(n): return A.f(n - 1)",
    ],
)
def test_a_function_that_calls_itself_is_recursive(candidate):
    assert features_of(candidate).is_recursive


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("from typing import List", set()),
        ("import typing as t", set()),
        ("from __future__ import annotations", set()),
        ("import collections.abc", set()),
        ("from collections.abc import Iterable", set()),
        ("from collections import abc", set()),
        ("import collections", {"collections"}),
        ("from collections import abc, deque", {"collections"}),
        ("import typing, os.path", {"os"}),
    ],
)
def test_modules_for_annotations_are_no_imports(imports, expected):
    assert features_of(imports).imports == expected


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("for c in [d for d in s]: pass", 1),
        ("for c in s: [d for d in c]", 2),
        ("for c in s:\n  pass\nelse:\n  for d in s: pass", 1),
        ("while any(c for c in s): pass", 2),
        ("while s:\n  pass\nelse:\n  while t: pass", 1),
        ("[c for c in [d for d in s]]", 1),
        ("[c for d in s for c in [e for e in d]]", 2),
        ("[c for c in s if any(d for d in c)]", 2),
        ("{c: [d for d in c] for c in s}", 2),
        ("for c in (d for e in s for d in e): pass", 2),
        ("for a in s:\n  for b in [c for c in a]:\n    [d for d in b]", 3),
        ("x = 1", 0),
    ],
)
def test_what_a_loop_goes_over_is_not_inside_it(source, depth):
    assert features_of(source).loop_depth == depth


def test_what_the_reference_does_is_fine():
    reference = "def f(n):\n  return n if n < 2 else f(n - 1) + len(sorted([n]))"
    candidate = "def f(n):\n  if n > 1: return f(n - 1) + len(sorted([n]))\n  return n"
    assert broken(candidate, reference) == ()


def test_every_constraint_can_be_told():
    constraints = constraints_of(features_of(REFERENCE), KINDS, "f")
    assert [constraint.kind for constraint in constraints] == list(KINDS)
    assert all(constraint.sentence.endswith(".") for constraint in constraints)
    assert constraints[0].sentence == "Define the function f with 2 arguments."


@pytest.mark.parametrize(
    ("reference", "sentences"),
    [
        ("import math, re\nx = {1}",
         ["Import nothing but math, re.", "Build no containers but set."]),
        ("from typing import List\nx = 1",
         ["Import nothing.", "Build no containers."]),
    ],
)  # fmt: skip
def test_what_is_told_is_what_is_checked(reference, sentences):
    told = constraints_of(features_of(reference), ["imports", "containers"])
    assert [constraint.sentence for constraint in told] == sentences
    # Doing less than the reference is fine.
    assert broken_constraints(features_of("x = 1"), told) == ()


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
