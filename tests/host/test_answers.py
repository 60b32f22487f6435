from collections.abc import Iterator
from dataclasses import replace

import pytest

from jaxgrpo.host.answers import answers, decided_answers
from jaxgrpo.host.records import Execution, Program, Test
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.sandbox import Sandbox
from tests.host.rewards.groups import of_literals, of_programs

ADD = "def add(a, b):\n    return a + b\n"
ADD_OTHERWISE = "def add(x, y):\n    total = y\n    return total + x\n"
MULTIPLY = "def add(a, b):\n    return a * b\n"
CALLS = tuple(
    Test(kind="call", function="add", arguments=pair, expected="not looked at")
    for pair in ((2, 2), (1, 3), (1, 3), (0, 5))
)
ASSERTS = (Test(kind="assert", source="assert add(1, 3) == 'not looked at'"),)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as opened:
        yield opened


def classes(judged: Judged, num_inputs: int = 8) -> list[int | None]:
    """The number of each completion's answer, by the first to give it."""
    found = answers(judged, num_inputs)
    order = list(dict.fromkeys(one for one in found if one is not None))
    return [None if one is None else order.index(one) for one in found]


def test_values_agree_whatever_their_spelling():
    judged = of_literals("0", "[1, 2]", "[1,2]", " [ 1 ,2 ]", "(1, 2)", "[1, true]")
    assert classes(judged) == [0, 0, 0, 1, 2]


def test_what_is_no_literal_is_no_answer():
    assert classes(of_literals("f()", "f()", "It is 1", "", "1 2")) == [None] * 4


@pytest.mark.parametrize("tests", [CALLS, ASSERTS])
def test_programs_agree_if_they_do_the_same(sandbox: Sandbox, tests):
    judged = of_programs(
        ADD, MULTIPLY, ADD_OTHERWISE, "", "def add(a):\n    return a\n", "add = (",
        kind=tests[0].kind, tests=tests,
    )  # fmt: skip
    assert classes(replace(judged, run=sandbox.run)) == [0, 1, 0, None, None, None]


def test_only_the_first_inputs_tell_programs_apart(sandbox: Sandbox):
    judged = replace(of_programs(ADD, MULTIPLY, tests=CALLS), run=sandbox.run)
    assert classes(judged, num_inputs=1) == [0, 0]  # 2 + 2 is 2 * 2
    assert classes(judged, num_inputs=2) == [0, 1]


def test_failure_on_one_input_is_no_answer(sandbox: Sandbox):
    partly = "def add(a, b):\n    assert a\n    return a + b\n"
    judged = replace(of_programs(ADD, partly, tests=CALLS), run=sandbox.run)
    assert classes(judged) == [0, None]


def test_test_that_is_no_call_compares_nothing(sandbox: Sandbox):
    source = "xs = [2, 1]\nadd(xs, xs)\nassert xs == [1, 2]"
    judged = of_programs(
        ADD, ADD, kind="assert", tests=(Test(kind="assert", source=source),)
    )
    assert classes(replace(judged, run=sandbox.run)) == [None, None]


def test_scripts_agree_if_they_print_the_same_words(sandbox: Sandbox):
    tests = tuple(Test(kind="stdin", stdin=text, expected="?") for text in "12")
    judged = of_programs(
        "print(2 * int(input()))",
        "n = int(input())\nprint(f'{n + n} ')",
        "print(3)",
        "print(2 * int(input()))\nraise SystemExit(1)",
        "while True: pass",
        kind="stdin",
        tests=tests,
    )
    judged = replace(judged, run=sandbox.run)
    assert classes(judged) == [0, 0, 1, None, None]


def test_equal_programs_are_run_once():
    seen: list[Program] = []

    def run(program: Program) -> Execution:
        seen.append(program)
        return Execution(status="TLE")

    answers(replace(of_programs(ADD, ADD, tests=CALLS), run=run), 8)
    assert len(seen) == 1 and len(seen[0].calls) == 3  # one of four is a repetition


def test_failure_of_ours_is_no_answer_of_theirs():
    judged = replace(
        of_programs(ADD, tests=CALLS),
        run=lambda program: Execution(status="INFRA", reason="the machine is on fire"),
    )
    with pytest.raises(RuntimeError, match="the machine is on fire"):
        answers(judged, 8)


def test_rows_without_a_decision_are_left_out():
    judged = of_literals("1", "1", "2", "1")
    infra = replace(judged.verdicts[1], status="INFRA")
    judged = replace(judged, verdicts=(judged.verdicts[0], infra, judged.verdicts[2]))
    assert list(decided_answers(judged, 8)) == [0, 2]
