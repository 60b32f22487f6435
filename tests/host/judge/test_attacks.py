"""No attack gains a test: each gets what honest wrong code gets, which is nothing."""

import pytest

from jaxgrpo.host import stored_tests
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.assert_plans import plan_of
from jaxgrpo.host.judge.programs import judge_program
from jaxgrpo.host.records import Limits, Problem, ProblemKind, Test, Verdict
from jaxgrpo.host.sandbox import Sandbox
from tests.host.judge.attacks import (
    FINDABLE,
    FUNCTION_ATTACKS,
    NEEDLES,
    PRINTING_ATTACKS,
    SEARCHES,
    Attack,
)

LIMITS = Limits(cpu_s=0.5, wall_s=5.0, memory_bytes=256 * 2**20)
SHORT = Limits(cpu_s=0.1, wall_s=0.3)
HONEST = f"def f(x):\n    return {('', *NEEDLES)!r}[x]\n"
HONEST_PRINTER = f"print({('', *NEEDLES)!r}[int(input())])\n"
WRONG = "def f(x):\n    return 'needle-0000'\n"
HELPER = "def same(a, b):\n    assert a == b\n"
"""A test that defines a function is not rewritten, but goes to a tester."""


def problem_of(kind: ProblemKind, *tests: Test) -> Problem:
    return Problem(id=kind, kind=kind, prompt="", reference="", tests=tests)


ARGUMENTS = tuple(enumerate(NEEDLES, start=1))
BY_CALLS = problem_of(
    "call",
    *(
        Test(kind="call", function="f", arguments=(n,), expected=needle)
        for n, needle in ARGUMENTS
    ),
)
BY_ASSERTS = problem_of(
    "assert",
    *(
        Test(kind="assert", source=f"assert f({n}) == {needle!r}")
        for n, needle in ARGUMENTS
    ),
)
BY_CHECK = problem_of(
    "assert",
    Test(
        kind="assert",
        function="f",
        source="METADATA = {}\ndef check(candidate):\n"
        + "".join(f"    assert candidate({n}) in [{x!r}]\n" for n, x in ARGUMENTS),
    ),
)
BY_TESTER = problem_of(
    "assert",
    *(
        Test(kind="assert", source=f"{HELPER}same(f({n}), {needle!r})")
        for n, needle in ARGUMENTS
    ),
)
BY_OUTPUT = problem_of(
    "stdin",
    *(Test(kind="stdin", stdin=f"{n}\n", expected=x) for n, x in ARGUMENTS),
)
BY_FUNCTION = {
    "calls": BY_CALLS,
    "asserts": BY_ASSERTS,
    "check": BY_CHECK,
    "tester": BY_TESTER,
}


def verdict_on(
    problem: Problem, source: str, sandbox: Sandbox, limits: Limits = LIMITS
) -> Verdict:
    settings = JudgeSettings(extraction="raw", limits=limits)
    return judge_program(problem, source, sandbox, settings)


def test_there_are_enough_attacks():
    names = [attack.name for attack in FUNCTION_ATTACKS]
    assert len(set(names)) == len(names)
    assert len(names) >= 43


def test_the_ways_to_judge_a_function_are_different_ones():
    plans = {
        name: [
            plan_of(t.source, t.function, "", False)
            for t in stored_tests.tests_of(problem)
        ]
        for name, problem in BY_FUNCTION.items()
        if problem.kind == "assert"
    }
    assert all(plan.cases and not plan.task for plan in plans["asserts"])
    assert all(len(plan.cases or ()) == 3 for plan in plans["check"])
    assert all(plan.task and plan.cases is None for plan in plans["tester"])


@pytest.mark.parametrize("name", BY_FUNCTION)
def test_honest_code_passes_and_wrong_code_does_not(name: str, sandbox: Sandbox):
    problem = BY_FUNCTION[name]
    assert verdict_on(problem, HONEST, sandbox).num_passed == 3
    assert verdict_on(problem, WRONG, sandbox).num_passed == 0


@pytest.mark.parametrize("name", BY_FUNCTION)
@pytest.mark.parametrize("attack", FUNCTION_ATTACKS, ids=lambda attack: attack.name)
def test_attack_gains_no_test(attack: Attack, name: str, sandbox: Sandbox):
    problem = BY_FUNCTION[name]
    limits = SHORT if attack.is_endless else LIMITS
    verdict = verdict_on(problem, attack.source, sandbox, limits)
    assert (verdict.num_passed, verdict.num_tests) == (0, 3)
    # Nor does it get out of being judged.
    assert verdict.status not in ("OK", "INFRA"), verdict.detail
    assert verdict_on(problem, HONEST, sandbox).is_correct


@pytest.mark.parametrize("name", FINDABLE)
def test_search_finds_what_is_there(name: str, sandbox: Sandbox):
    (attack,) = (attack for attack in SEARCHES if attack.name == name)
    source = FINDABLE[name].format(NEEDLES[0]) + attack.source
    assert verdict_on(BY_CALLS, source, sandbox).num_passed == 1


@pytest.mark.parametrize("attack", PRINTING_ATTACKS, ids=lambda attack: attack.name)
def test_printing_attack_gains_no_test(attack: Attack, sandbox: Sandbox):
    verdict = verdict_on(BY_OUTPUT, attack.source, sandbox)
    assert (verdict.num_passed, verdict.num_tests) == (0, 3)
    assert verdict.status not in ("OK", "INFRA"), verdict.detail
    assert verdict_on(BY_OUTPUT, HONEST_PRINTER, sandbox).is_correct
