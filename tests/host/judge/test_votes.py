"""Which completions vote together; programs are run by the real judge."""

from dataclasses import replace

import pytest

from jaxgrpo.host.judge import judge
from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.judge.results import verdict_of
from jaxgrpo.host.judge.votes import key_of_calls, key_of_output, vote_of
from jaxgrpo.host.records import CallResult, Problem, Test, TestResult
from jaxgrpo.host.sandbox import Sandbox
from tests.host.conftest import completion_of


def literal_vote(text: str) -> str:
    return vote_of("output", judge_literal(text, "[1]"))


@pytest.mark.parametrize(
    ("first", "second"),
    [("[1,2]", "[1, 2]"), ("{'a', 'b'}", "{'b', 'a'}"), ("true", "True"), ("x", " x ")],
)
def test_literals_vote_by_value(first, second):
    assert literal_vote(first) == literal_vote(second) != ""


@pytest.mark.parametrize(
    ("first", "second"), [("1", "True"), ("1", "1.0"), ("[1]", "(1,)"), ("x", "y")]
)
def test_other_values_are_other_votes(first, second):
    assert literal_vote(first) != literal_vote(second)


def test_an_empty_answer_does_not_vote():
    assert literal_vote("  ") == ""


def test_votes_do_not_depend_on_what_was_expected():
    verdicts = [judge_literal("[1]", reference) for reference in ("[1]", "[2]", "x")]
    assert len({vote_of("output", verdict) for verdict in verdicts}) == 1


def test_huge_numbers_vote():
    assert literal_vote("0x" + "f" * 4000) != literal_vote("0x" + "e" * 4000)


# Programs


def program_vote(sandbox: Sandbox, problem: Problem, source: str) -> str:
    text = f"```python\n{source}\n```"
    return vote_of(problem.kind, judge(problem, completion_of(text), sandbox))


CALLS = Problem(
    id="p", kind="call", prompt="", reference="",
    tests=(
        Test(kind="call", function="f", arguments=(2,), expected=4),
        Test(kind="call", function="f", arguments=(3,), expected=9),
    ),
)  # fmt: skip
READS = Problem(
    id="q", kind="stdin", prompt="", reference="",
    tests=(Test(kind="stdin", stdin="2\n", expected="4\n"),),
)  # fmt: skip


def test_programs_that_return_the_same_vote_together(sandbox):
    square, power, double, triple = (
        program_vote(sandbox, CALLS, f"def f(x):\n    return {expression}")
        for expression in ("x * x", "x ** 2", "x + x", "3 * x")
    )
    assert square == power
    assert len({square, double, triple}) == 3


def test_wrong_programs_that_return_the_same_vote_together(sandbox):
    first, second = (
        program_vote(sandbox, CALLS, f"def f(x):\n    return {expression}")
        for expression in ("x + x", "2 * x")
    )
    assert first == second


def test_programs_that_print_the_same_vote_together(sandbox):
    sources = ("print(int(input()) ** 2)", "x = int(input())\nprint(x * x, '')",
               "print(5)")  # fmt: skip
    first, second, other = (program_vote(sandbox, READS, s) for s in sources)
    assert first == second != other


def test_programs_that_fail_in_the_same_way_vote_together(sandbox):
    first, second, other = (
        program_vote(sandbox, READS, s)
        for s in ("1 / 0", "x = 0\n1 // x", "raise KeyError(1)")
    )
    assert first == second != other


SUMS = """
xs = []
for n in range(3):
    xs.append(f(n))
assert sum(xs) == 3
"""


def test_asserts_that_another_process_decides_vote_by_source(sandbox):
    problem = Problem(
        id="r", kind="assert", prompt="", reference="",
        tests=(Test(kind="assert", source=SUMS),),
    )  # fmt: skip
    sources = ("def f(x): return x", "def f(x): return x ", "def f(y): return y")
    first, same, other = (program_vote(sandbox, problem, s) for s in sources)
    assert first == same != other


def test_a_test_that_was_left_out_leaves_the_source_to_vote_by():
    wrong = TestResult(
        status="WA", error_class="wrong_answer", output_key=key_of_output("5")
    )
    stopped = verdict_of([wrong], 2)
    votes = {
        vote_of("stdin", replace(stopped, extracted=source)) for source in ("a", "b")
    }
    assert len(votes) == 2


def test_white_space_does_not_tell_outputs_apart():
    assert key_of_output("1 2\n3\n") == key_of_output("1  2 3")
    assert key_of_output("12") != key_of_output("1 2")


def test_a_call_without_a_value_has_no_key():
    lost = CallResult(status="RE")
    assert key_of_calls([CallResult(status="OK", value=1), lost]) == ""
