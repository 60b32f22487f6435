"""What the judge says of asserts is what plain Python says, whichever way they go."""

import pytest

from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.assert_plans import plan_of
from jaxgrpo.host.judge.programs import (
    check_problem,
    judge_program,
    untrusted_reason,
    without_untrusted,
)
from jaxgrpo.host.records import Limits, Problem, Test, Verdict
from jaxgrpo.host.sandbox import Sandbox

SETTINGS = JudgeSettings(extraction="raw", limits=Limits(cpu_s=0.5, wall_s=10.0))
PROGRAM = """
import math
def f(x): return x
def double(x): return x * 2
def pair(a, b=5): return (a, b)
def numbers(n): return [i / 3 for i in range(n)]
def fails(x): raise ValueError(f"no {x}")
def sort_it(x):
    x.sort()
    return x
def each(n): yield from range(n)
class Solution:
    def plus(self, a, b): return a + b
def sum(a, b): return a - b
def check(x): return x == 1
calls = []
def times(x):
    calls.append(x)
    return len(calls)
def nothing(): return None
"""


def problem_of(
    *sources: str, function: str = "", reference: str = "", is_inside: bool = False
) -> Problem:
    tests = tuple(
        Test(kind="assert", source=source, function=function, is_inside=is_inside)
        for source in sources
    )
    return Problem(id="p", kind="assert", prompt="", reference=reference, tests=tests)


def verdict_on(problem: Problem, sandbox: Sandbox, program: str = PROGRAM) -> Verdict:
    return judge_program(problem, program, sandbox, SETTINGS)


def passes_plainly(source: str, program: str = PROGRAM) -> bool:
    names: dict = {}
    exec(program, names)
    try:
        exec(source, dict(names))
    except Exception:
        return False
    return True


def way_of(source: str, function: str = "", reference: str = "") -> str:
    plan = plan_of(source, function, reference, False)
    if plan.cases is not None:
        return "rewritten"
    return "tester" if plan.task else "untrusted"


REWRITTEN = [
    "assert f(3) == 3",
    "assert f(3) == 4",
    "assert f([1]) == (1,)",
    "assert f(1) == True",
    "assert f(0.1 + 0.2) == 0.3",
    "assert f(None) is None",
    "assert f(1) is True",
    "assert not f([])",
    "assert f('a') in ['a', 'b']",
    "assert 3 in f([1, 2])",
    "assert f(1) == 1, 'message'",
    "assert 3 == f(3)",
    "assert f(-1) == -1 and f(2) != 3",
    "assert f(1) == 2 or f(2) == 2",
    "assert abs(double(0.3) - 0.6) < 1e-6",
    "assert math.isclose(double(0.1), 0.2)",
    "import math\nassert math.isclose(double(0.1), 0.3)",
    "from math import isclose as near\nassert near(double(0.1), 0.2)",
    "assert sorted(f([2, 1])) == [1, 2]",
    "assert set(f([2, 1, 2])) == {1, 2}",
    "assert len(f('abc')) == 3",
    "assert list(each(3)) == [0, 1, 2]",
    "assert each(3) == [0, 1, 2]",
    "assert tuple(each(2)) == (0, 1)",
    "assert max(each(4)) == 3",
    "assert any(each(4))",
    "assert f(1)",
    "assert round(double(0.333), 2) == 0.67",
    "assert f({'a': [1, (2,)]}) == {'a': [1, (2,)]}",
    "assert f({1, 2}) == {2, 1}",
    "assert pair(1, b=2) == (1, 2)",
    "assert pair(*[1, 2]) == (1, 2)",
    "assert pair(1)[1] == 5",
    "assert f('Ab').lower() == 'ab'",
    "assert f(1) == double(0.5)",
    "assert 0 < f(1) < 2",
    "assert 0 < f(3) < 2",
    "assert fails(1) == 1",
    "assert f(1) < 'a'",
    "assert f([1])[5] == 1",
    "assert f(0) / f(0) == 1",
    "assert undefined(1) == 1",
    "assert nothing() is None",
    "assert Solution().plus(1, 2) == 3",
    "assert Solution().plus('a', 'b') == 'ba'",
    "for x in range(3):\n    assert double(x) == x + x",
    "for x in [1, 2]:\n    assert double(x) == 2",
    "for x, want in [(1, 2), ('a', 'aa')]:\n    assert double(x) == want",
    "for i, x in enumerate([5, 6]):\n    assert f(x) == i + 5",
    "for a, b in zip([1, 2], [2, 4]):\n    assert double(a) == b",
    "cases = [([3, 1], [1, 3])]\nfor x, want in cases:\n    assert sort_it(x) == want",
    "x = [2, 1]\nassert sort_it(x) == [1, 2]",
    "n = 3\nassert f(n) == n",
    "x, y = 1, 2\nassert pair(x, y) == (x, y)",
    "'doc'\npass\nassert times(1) == 1",
    "assert times(1) == 1\nassert times(1) == 2",
    "assert f(2 ** 10) == 1024",
    "assert f('a' * 3) == 'aaa'",
    "assert f(float('inf')) == float('inf')",
    "assert f(b'a') == b'a'",
    "assert isinstance(f([1]), (list, tuple))",
]
TESTED = [
    "x = [2, 1]\nsort_it(x)\nassert x == [1, 2]",
    "x = [2, 1]\nsort_it(x)\nassert x == [2, 1]",
    "x = [2, 1]\nassert sort_it(x) == x",
    "x = [2, 1]\nassert f(x) == x",
    "x = {'a': [3, 1]}\nsort_it(x['a'])\nassert x == {'a': [1, 3]}",
    "a = [2, 1]\nb = [a]\nsort_it(b[0])\nassert a == [1, 2]",
    "cases = [[2, 1]]\nfor x in cases:\n    sort_it(x)\nassert cases == [[1, 2]]",
    "assert double(double(1)) == 4",
    "assert [f(x) for x in (1, 2)] == [1, 2]",
    "assert all(double(x) == 2 * x for x in range(9))",
    "assert all(double(x) == x for x in range(9))",
    "assert list(map(double, [1, 2])) == [2, 4]",
    "assert f'{f(1)}' == '1'",
    "assert sorted(f([1, -2]), key=abs) == [1, -2]",
    "import random\nn = random.Random(1).randint(0, 9)\nassert double(n) == n + n",
    "try:\n    fails(1)\nexcept ValueError as e:\n    assert 'no' in str(e)",
    "try:\n    fails(1)\nexcept KeyError:\n    pass",
    "try:\n    f(1)\nexcept ValueError:\n    pass\nelse:\n    assert False",
    "def helper(x):\n    assert f(x) == x\nhelper(3)",
    "def helper(x):\n    assert f(x) == 1\nhelper(3)",
    "import unittest\nunittest.TestCase().assertEqual(f(2), 2)",
    "import unittest\nunittest.TestCase().assertEqual(f(2), 3)",
    "import string\nassert f(string.digits) == '0123456789'",
    "if f(1) == 1:\n    assert f(2) == 3",
    "while f(False):\n    pass\nassert f(0) == 0",
    "x = f(1)\nassert x == 1",
    "assert f(1) == (lambda: 1)()",
    "with open('/no/such/file') as file:\n    assert f(1)",
    "n = 0\nfor i in range(5000):\n    n = i\nassert f(n) == 4999",
    f"assert f(0) == {' + '.join(['0'] * 200)}",
]


@pytest.mark.parametrize("source", REWRITTEN)
def test_rewritten_assert_is_decided_as_by_python(source: str, sandbox: Sandbox):
    assert way_of(source, reference=PROGRAM) == "rewritten"
    verdict = verdict_on(problem_of(source, reference=PROGRAM), sandbox)
    assert verdict.is_correct == passes_plainly(source), verdict.detail


EXPRESSIBLE = [
    source
    for source in REWRITTEN
    if not any(name in source for name in ("each(", "Solution()", "times("))
]
"""Generators and objects only work rewritten; `times` counts the calls before it."""


@pytest.mark.parametrize("source", [*EXPRESSIBLE, *TESTED])
def test_tested_assert_is_decided_as_by_python(source: str, sandbox: Sandbox):
    # An unused function keeps the test from being rewritten.
    wrapped = f"def unused(): pass\n{source}"
    assert way_of(wrapped, reference=PROGRAM) == "tester"
    verdict = verdict_on(problem_of(wrapped, reference=PROGRAM), sandbox)
    assert verdict.is_correct == passes_plainly(source), verdict.detail
    assert verdict.status != "INFRA"


@pytest.mark.parametrize("source", TESTED)
def test_what_cannot_be_rewritten_goes_to_a_tester(source: str):
    assert way_of(source, reference=PROGRAM) == "tester"


def test_check_of_human_eval_is_entered(sandbox: Sandbox):
    source = (
        "METADATA = {'author': 'x'}\n"
        "def check(candidate):\n"
        "    'doc'\n"
        "    assert True, 'nothing'\n"
        "    assert candidate(1) == 2\n"
        "    for x in range(3):\n"
        "        assert candidate(x) == 2 * x, 'loop'\n"
        "    print\n"
    )
    assert way_of(source, "double") == "rewritten"
    verdict = verdict_on(problem_of(source, function="double"), sandbox)
    # `assert True` is no test.
    assert (verdict.num_passed, verdict.num_tests) == (4, 4)
    verdict = verdict_on(problem_of(source, function="f"), sandbox)
    assert (verdict.num_passed, verdict.num_tests) == (1, 4)


def test_check_may_be_called_by_the_test_itself(sandbox: Sandbox):
    source = "def check(candidate):\n    assert candidate(1) == 2\ncheck(double)"
    assert way_of(source) == "rewritten"
    assert verdict_on(problem_of(source), sandbox).is_correct


def test_check_in_a_tester_is_called_too(sandbox: Sandbox):
    source = "def check(g):\n    x = g(1)\n    assert x == 2\n"
    assert way_of(source, "double") == "tester"
    assert verdict_on(problem_of(source, function="double"), sandbox).is_correct
    assert not verdict_on(problem_of(source, function="f"), sandbox).is_correct


def test_function_of_the_program_may_shadow_a_builtin(sandbox: Sandbox):
    source = "assert sum(10, 15) == -5"
    for problem in (
        problem_of(source, function="sum"),
        problem_of(source, reference=PROGRAM),
    ):
        assert verdict_on(problem, sandbox).is_correct


def test_function_of_the_program_may_be_called_check(sandbox: Sandbox):
    assert verdict_on(problem_of("assert check(1) == True"), sandbox).is_correct


def test_helper_that_the_solution_imports_is_the_librarys(sandbox: Sandbox):
    reference = "from math import isclose\ndef f(x): return x"
    cheat = "def isclose(*a): return True\ndef f(x): return 7"
    for source in ("assert isclose(f(1), 1)", "x = f(1)\nassert isclose(x, 1)"):
        problem = problem_of(source, reference=reference)
        assert verdict_on(problem, sandbox, reference).is_correct
        assert not verdict_on(problem, sandbox, cheat).is_correct


def test_isclose_is_never_the_programs(sandbox: Sandbox):
    cheat = "def isclose(*a): return True\ndef f(x): return 7"
    for source in ("assert isclose(f(1), 1)", "x = f(1)\nassert isclose(x, 1)"):
        assert verdict_on(problem_of(source), sandbox).is_correct
        assert not verdict_on(problem_of(source), sandbox, cheat).is_correct


def test_module_that_the_solution_imports_is_there(sandbox: Sandbox):
    source = "assert f(3) == sys.getsizeof(3) - sys.getsizeof(3) + 3"
    for reference in ("import sys\ndef f(x): return x", ""):
        problem = problem_of(source, reference=reference)
        assert verdict_on(problem, sandbox).is_correct


def test_results_are_in_the_order_of_the_tests(sandbox: Sandbox):
    problem = problem_of(
        "assert f(1) == 1",
        "x = f(1)\nassert x == 2",
        "assert f(1) == 1\nassert fails(1)",
    )
    verdict = verdict_on(problem, sandbox)
    assert verdict.test_statuses == ("OK", "WA", "OK", "RE")
    assert (verdict.status, verdict.num_passed, verdict.num_tests) == ("WA", 2, 4)
    assert "line 2 of the test" in verdict.detail


def test_exception_of_the_program_has_its_line(sandbox: Sandbox):
    for source in ("assert fails(1)", "x = fails(1)\nassert x"):
        (result,) = verdict_on(problem_of(source), sandbox).results
        assert (result.status, result.error_class) == ("RE", "exception")
        assert result.exception is not None
        assert result.exception.type_name == "ValueError"
        assert result.exception.line == 7


def test_stateless_tests_do_not_see_each_other(sandbox: Sandbox):
    sources = ["x = f([])\nx.append(1)\nassert x == [1]", "assert 'x' not in globals()"]
    verdict = verdict_on(problem_of(sources[0], sources[0]), sandbox)
    assert verdict.num_passed == 2


def test_endless_call_costs_its_own_test_only(sandbox: Sandbox):
    program = "def f(x):\n    while x == 2: pass\n    return x\n"
    settings = JudgeSettings(extraction="raw", limits=Limits(cpu_s=0.1, wall_s=5.0))
    for text in ("assert f({0}) == {0}", "x = f({0})\nassert x == {0}"):
        problem = problem_of(*(text.format(n) for n in range(5)))
        verdict = judge_program(problem, program, sandbox, settings)
        assert verdict.test_statuses == ("OK", "OK", "TLE", "OK", "OK")
        assert (verdict.status, verdict.num_passed) == ("TLE", 4)


def test_crash_costs_its_own_test_only(sandbox: Sandbox):
    program = "import os\ndef f(x):\n    if x == 2: os._exit(0)\n    return x\n"
    for text in ("assert f({0}) == {0}", "x = f({0})\nassert x == {0}"):
        problem = problem_of(*(text.format(n) for n in range(4)))
        verdict = verdict_on(problem, sandbox, program)
        assert verdict.test_statuses == ("OK", "OK", "RE", "OK")
        assert verdict.error_class == "exit"


def test_missing_function_is_told_from_an_exception(sandbox: Sandbox):
    for source in ("assert g(1) == 1", "x = g(1)\nassert x == 1"):
        verdict = verdict_on(problem_of(source), sandbox, "def f(x): return x")
        assert verdict.error_class == "missing_function"


# What has to be trusted


@pytest.mark.parametrize(
    "source",
    [
        "assert Stack().items == []",
        "s = Stack()\ns.push(1)\nassert s.pop() == 1",
        "assert f(Node(1)) == 1",
        "assert f(lambda x: x)(1) == 1",
        "assert f(int) is int",
        "assert f(x for x in [1]) == [1]",
        "assert f.__name__ == 'f'",
        "assert LIMIT == 3 and f(1)",
        "assert TABLE['a'] == f(1)",
        "assert f(1) == 1 and LIMIT",
        "x = -LIMIT + f(1)\nassert x",
        "for x in TABLE:\n    assert f(x) == x",
        "x = []\nassert f(x) is x",
        "x = []\ny = f(x)\nassert y is not x",
        "try:\n    f(1)\nexcept MyError:\n    pass",
        "class T(Base): pass\nassert f(1) == 1",
        "import pytest\nassert f(1) == 1",
        "import numpy as np\nassert f(np.array([1])) == 1",
    ],
)
def test_inexpressible_assert_is_marked_and_not_run(source: str, sandbox: Sandbox):
    problem = problem_of(source)
    assert untrusted_reason(problem)
    verdict = verdict_on(problem, sandbox)
    assert (verdict.status, verdict.error_class) == ("INFRA", "untrusted_asserts")
    assert without_untrusted([problem]) == ([], {"p": untrusted_reason(problem)})


def test_solution_tells_classes_and_generators():
    reference = "class stack: pass\ndef gen():\n    yield 1\ndef f(): return gen"
    assert untrusted_reason(problem_of("assert stack()", reference=reference))
    assert untrusted_reason(problem_of("assert next(gen()) == 1", reference=reference))
    assert not untrusted_reason(problem_of("assert list(gen())", reference=reference))
    assert not untrusted_reason(problem_of("assert f()", reference=reference))


def test_data_that_cannot_be_handed_over_is_not_a_failure(sandbox: Sandbox):
    source = "import decimal\nx = decimal.Decimal(1)\nassert f(x) == 1"
    problem = problem_of(source)
    assert not untrusted_reason(problem)  # nobody can know before it runs
    verdict = verdict_on(problem, sandbox)
    assert (verdict.status, verdict.error_class) == ("INFRA", "untrusted_asserts")
    swallowed = problem_of(
        f"try:\n    {source.splitlines()[0]}\nfinally:\n    pass\n"
        "try:\n    f(print)\nexcept BaseException:\n    pass\n"
        "assert f(1) == 1"
    )
    assert verdict_on(swallowed, sandbox).status == "INFRA"


def test_assert_inside_runs_beside_the_program(sandbox: Sandbox):
    program = "class Stack:\n    items = []\n"
    for source, status in (
        ("assert Stack().items == []", "OK"),
        ("assert Stack().items == [1]", "WA"),
        ("assert Stack().size == 1", "RE"),
    ):
        problem = problem_of(source, is_inside=True)
        assert not untrusted_reason(problem)
        assert verdict_on(problem, sandbox, program).status == status


def test_early_exit_does_not_pass_an_assert_inside(sandbox: Sandbox):
    problem = problem_of("assert Stack().items == []", is_inside=True)
    for program in ("import sys\nsys.exit(0)", "import os\nos._exit(0)"):
        assert verdict_on(problem, sandbox, program).status == "RE"


# Tests that say nothing


def test_test_that_calls_nothing_is_never_a_pass(sandbox: Sandbox):
    for source in ("assert 1 == 1", "assert True", "x = 1", "def g(): pass"):
        verdict = verdict_on(problem_of(source), sandbox)
        assert (verdict.status, verdict.error_class) == ("INFRA", "no_tests")


@pytest.mark.parametrize("source", ["assert True", "x = 1", "pass"])
def test_test_without_a_call_is_refused(source: str):
    with pytest.raises(ValueError, match="test 0: no assert calls the program"):
        check_problem(problem_of(source))


def test_check_without_a_function_is_refused():
    with pytest.raises(ValueError, match="test 0: a test defines check.*Name it"):
        check_problem(problem_of("def check(candidate):\n    assert candidate(1)"))


def test_test_that_is_no_python_is_refused():
    with pytest.raises(ValueError, match="test 1: a test is no Python"):
        check_problem(problem_of("assert f(1)", "assert f(1"))
