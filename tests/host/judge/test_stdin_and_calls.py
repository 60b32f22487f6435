import pytest

from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.batches import MAX_ENDS, MAX_TIMEOUTS
from jaxgrpo.host.judge.programs import check_problem, judge_program
from jaxgrpo.host.judge.results import MAX_DETAIL_CHARACTERS, MAX_OUTPUT_CHARACTERS
from jaxgrpo.host.records import Limits, Problem, Test, Verdict
from jaxgrpo.host.sandbox import Sandbox

SHORT = Limits(cpu_s=0.2, wall_s=10.0, memory_bytes=128 * 2**20, output_bytes=50_000)


def stdin_problem(*pairs: tuple[str, str], checker: str = "") -> Problem:
    tests = tuple(
        Test(kind="stdin", stdin=given, expected=expected, checker=checker)
        for given, expected in pairs
    )
    return Problem(id="p", kind="stdin", prompt="", reference="", tests=tests)


def call_problem(*tests: Test) -> Problem:
    return Problem(id="p", kind="call", prompt="", reference="", tests=tests)


def calls_of(
    *pairs: tuple[object, object], compare: str = "default", checker: str = ""
) -> Problem:
    return call_problem(
        *(
            Test(
                kind="call",
                function="f",
                arguments=(x,),
                expected=y,
                compare=compare,
                checker=checker,
            )
            for x, y in pairs
        )
    )


def verdict_on(
    problem: Problem, program: str, sandbox: Sandbox, *, stops: bool = False
) -> Verdict:
    settings = JudgeSettings(extraction="raw", limits=SHORT, stops_at_failure=stops)
    return judge_program(problem, program, sandbox, settings)


DOUBLE = stdin_problem(("1", "2"), ("5\n", "10\n"))


# Standard input and output


def test_program_runs_as_a_script(sandbox: Sandbox):
    program = "n = int(input())\nif __name__ == '__main__':\n    print(2 * n)"
    verdict = verdict_on(DOUBLE, program, sandbox)
    assert (verdict.status, verdict.error_class) == ("OK", "passed")
    assert (verdict.num_passed, verdict.num_tests) == (2, 2)
    assert verdict.results[1].stdout == "10\n"
    assert verdict.results[1].cpu_s > 0
    assert verdict.results[1].peak_bytes > 2**20


def test_wrong_output_is_shown(sandbox: Sandbox):
    verdict = verdict_on(DOUBLE, "print(2)", sandbox)
    assert verdict.test_statuses == ("OK", "WA")
    assert verdict.error_class == "wrong_answer"
    assert verdict.detail == "expected '10\\n', got '2\\n'"


def test_exit_status_0_is_a_good_end(sandbox: Sandbox):
    for end in ("sys.exit()", "sys.exit(0)", "os._exit(0)", "exit()"):
        program = f"import os, sys\nprint(2 * int(input()), flush=True)\n{end}"
        assert verdict_on(DOUBLE, program, sandbox).is_correct, end


@pytest.mark.parametrize(
    ("end", "error_class"),
    [
        ("sys.exit(1)", "exit"),
        ("os._exit(3)", "exit"),
        ("1 / 0", "exception"),
        ("os.abort()", "crash"),
        ("undefined", "exception"),
    ],
)
def test_bad_end_counts_even_with_the_right_output(
    end: str, error_class: str, sandbox: Sandbox
):
    program = f"import os, sys\nprint(2 * int(input()), flush=True)\n{end}"
    verdict = verdict_on(DOUBLE, program, sandbox)
    assert (verdict.status, verdict.error_class) == ("RE", error_class)
    assert verdict.num_passed == 0


@pytest.mark.parametrize(
    ("program", "status", "error_class"),
    [
        ("print(", "CE", "syntax_error"),
        ("while True: pass", "TLE", "timeout"),
        ("x = bytearray(1 << 30)", "MLE", "memory_limit"),
        ("print('x' * 100_000)", "OLE", "output_limit"),
    ],
)
def test_limits_have_classes_of_their_own(
    program: str, status: str, error_class: str, sandbox: Sandbox
):
    verdict = verdict_on(DOUBLE, program, sandbox)
    assert (verdict.status, verdict.error_class) == (status, error_class)


def test_line_of_the_exception_is_kept(sandbox: Sandbox):
    (result, _) = verdict_on(DOUBLE, "x = 1\n\nx.y", sandbox).results
    assert result.exception is not None
    assert (result.exception.type_name, result.exception.line) == ("AttributeError", 3)


def test_output_and_detail_are_capped(sandbox: Sandbox):
    (result, _) = verdict_on(DOUBLE, "print('é' * 9000)", sandbox).results
    assert result.stdout == "é" * MAX_OUTPUT_CHARACTERS
    assert result.is_stdout_cut
    assert len(result.detail) == MAX_DETAIL_CHARACTERS


def test_tests_that_run_out_of_time_are_tried_a_few_times_only(sandbox: Sandbox):
    problem = stdin_problem(*[("1", "2")] * 8)
    verdict = verdict_on(problem, "while True: pass", sandbox)
    assert verdict.test_statuses == ("TLE",) * MAX_TIMEOUTS
    assert (verdict.status, verdict.num_passed, verdict.num_tests) == ("TLE", 0, 8)


def test_judge_stops_at_the_first_failure_if_asked_to(sandbox: Sandbox):
    problem = stdin_problem(("1", "2"), ("1", "3"), ("1", "2"))
    verdict = verdict_on(problem, "print(2)", sandbox, stops=True)
    assert verdict.test_statuses == ("OK", "WA")
    assert (verdict.status, verdict.num_passed, verdict.num_tests) == ("WA", 1, 3)


def test_limits_of_the_problem_go_before_the_settings(sandbox: Sandbox):
    limits = Limits(cpu_s=0.2, wall_s=10.0, output_bytes=10)
    problem = Problem(
        id="p", kind="stdin", prompt="", reference="", tests=DOUBLE.tests, limits=limits
    )
    assert verdict_on(problem, "print('x' * 11)", sandbox).status == "OLE"


# Calls


def test_values_are_compared_on_this_side(sandbox: Sandbox):
    problem = calls_of((2, 4), ("a", "aa"), ([1], (1, 1)), (0.1, 0.2))
    verdict = verdict_on(problem, "def f(x): return x + x", sandbox)
    assert verdict.is_correct
    assert verdict.results[0].peak_bytes > 2**20


def test_comparator_of_the_test_decides(sandbox: Sandbox):
    program = "def f(x): return (x,)"
    assert verdict_on(calls_of((1, [1])), program, sandbox).is_correct
    assert not verdict_on(
        calls_of((1, [1]), compare="exact"), program, sandbox
    ).is_correct
    assert not verdict_on(
        calls_of((1, [1]), compare="python"), program, sandbox
    ).is_correct
    verdict = verdict_on(calls_of((1, [1]), compare="microcoder"), program, sandbox)
    assert verdict.results[0].rung == "sequences"


def test_method_of_a_class_may_be_called(sandbox: Sandbox):
    test = Test(
        kind="call",
        function="Solution.plus",
        arguments=(1,),
        keywords={"b": 2},
        expected=3,
    )
    program = "class Solution:\n    def plus(self, a, b): return a + b"
    assert verdict_on(call_problem(test), program, sandbox).is_correct


@pytest.mark.parametrize(
    ("program", "status", "error_class"),
    [
        ("def g(x): return x", "RE", "missing_function"),
        ("def f(x): return undefined", "RE", "exception"),
        ("def f(x): return object()", "WA", "not_plain_data"),
        ("def f(x): yield x", "WA", "not_plain_data"),
        ("import sys\ndef f(x): sys.exit(0)", "RE", "exit"),
        ("import os\ndef f(x): os._exit(0)", "RE", "exit"),
        ("import os\ndef f(x): os.abort()", "RE", "crash"),
        ("import sys\nsys.exit(0)", "RE", "exit"),
        ("def f(x) return x", "CE", "syntax_error"),
        ("1 / 0", "RE", "exception"),
        ("def f(x): return 'x' * 100_000", "OLE", "output_limit"),
        ("def f(x): return bytearray(1 << 30)", "MLE", "memory_limit"),
        ("def f(x):\n    while True: pass", "TLE", "timeout"),
        ("while True: pass", "TLE", "timeout"),
        ("def f(x): return 7", "WA", "wrong_answer"),
    ],
)
def test_kinds_of_failure(
    program: str, status: str, error_class: str, sandbox: Sandbox
):
    verdict = verdict_on(calls_of((1, 1), (2, 2)), program, sandbox)
    assert (verdict.status, verdict.error_class) == (status, error_class)
    assert (verdict.num_passed, verdict.num_tests) == (0, 2)


def test_tests_that_share_a_process_do_not_share_its_time(sandbox: Sandbox):
    # Five tests of 0.12 s each within a limit of 0.2 s for each.
    program = (
        "import time\n"
        "def f(x):\n"
        "    end = time.process_time() + 0.12\n"
        "    while time.process_time() < end: pass\n"
        "    return x\n"
    )
    verdict = verdict_on(calls_of(*((n, n) for n in range(5))), program, sandbox)
    assert verdict.test_statuses == ("OK",) * 5


def test_tests_that_share_a_process_do_not_share_its_memory(sandbox: Sandbox):
    program = "kept = []\ndef f(x):\n    kept.append(bytearray(50 << 20))\n    return x"
    verdict = verdict_on(calls_of(*((n, n) for n in range(4))), program, sandbox)
    assert verdict.is_correct


def test_tests_that_share_a_process_do_not_share_its_output(sandbox: Sandbox):
    program = "def f(x):\n    print('x' * 40_000)\n    return x"
    verdict = verdict_on(calls_of(*((n, n) for n in range(4))), program, sandbox)
    assert verdict.is_correct


def test_failed_load_is_told_of_every_test(sandbox: Sandbox):
    problem = calls_of(*((n, n) for n in range(100)))
    verdict = verdict_on(problem, "1 / 0", sandbox)
    assert verdict.test_statuses == ("RE",) * 100


def test_processes_that_end_early_are_replaced_a_few_times_only(sandbox: Sandbox):
    problem = calls_of(*((n, n) for n in range(MAX_ENDS + 20)))
    verdict = verdict_on(problem, "import os\ndef f(x): os._exit(0)", sandbox)
    assert verdict.test_statuses == ("RE",) * MAX_ENDS
    assert verdict.num_tests == MAX_ENDS + 20


# Checkers

CHECKER = """
def check(given, expected, answer):
    if isinstance(answer, str):
        answer = [int(x) for x in answer.split()]
    return sum(answer) == int(expected)
"""


def test_checker_decides_on_output(sandbox: Sandbox):
    problem = stdin_problem(("", "10"), checker=CHECKER)
    assert verdict_on(problem, "print(3, 7)", sandbox).is_correct
    verdict = verdict_on(problem, "print(3, 8)", sandbox)
    assert (verdict.status, verdict.error_class) == ("WA", "wrong_answer")
    assert "the checker refuses '3 8" in verdict.detail


def test_checker_decides_on_values(sandbox: Sandbox):
    problem = calls_of((1, 10), checker=CHECKER)
    assert verdict_on(problem, "def f(x): return [x, 9]", sandbox).is_correct
    assert not verdict_on(problem, "def f(x): return [x]", sandbox).is_correct


def test_checker_is_not_in_the_programs_process(sandbox: Sandbox):
    program = (
        "import gc, sys\n"
        "def check(*a): return True\n"
        "sys.modules['__main__'].check = check\n"
        "print(1)"
    )
    problem = stdin_problem(("", "10"), checker=CHECKER)
    assert verdict_on(problem, program, sandbox).status == "WA"


@pytest.mark.parametrize(
    "output", ["print('x')", "print('9' * 5000)", "print('[' * 5000)"]
)
def test_answer_that_a_checker_cannot_read_is_wrong(output: str, sandbox: Sandbox):
    problem = stdin_problem(("", "10"), checker=CHECKER.replace("int(x)", "int(x, 36)"))
    verdict = verdict_on(problem, output, sandbox)
    assert verdict.status == "WA"


def test_checker_that_raises_does_not_accept(sandbox: Sandbox):
    problem = stdin_problem(("", "10"), checker=CHECKER)
    verdict = verdict_on(problem, "print('x')", sandbox)
    assert (verdict.status, verdict.error_class) == ("WA", "checker_failed")
    assert verdict.detail.startswith("checker: ValueError")


@pytest.mark.parametrize("value", ["1", "None", "'yes'", "object()", "answer"])
def test_nothing_but_true_accepts(value: str, sandbox: Sandbox):
    checker = f"def check(given, expected, answer): return {value}"
    verdict = verdict_on(stdin_problem(("", ""), checker=checker), "pass", sandbox)
    assert (verdict.status, verdict.error_class) == ("WA", "checker_failed")


@pytest.mark.parametrize(
    "checker",
    [
        "def check(",
        "def accept(*a): return True",
        "1 / 0",
    ],
)
def test_broken_checker_decides_nothing(checker: str, sandbox: Sandbox):
    problem = stdin_problem(("", "10"), checker=checker)
    verdict = verdict_on(problem, "print(10)", sandbox)
    assert (verdict.status, verdict.error_class) == ("INFRA", "infra")


# Problems that cannot be judged


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (call_problem(), "no tests"),
        (call_problem(Test(kind="stdin", expected="")), "kind 'stdin' in a problem"),
        (call_problem(Test(kind="call", expected=1)), "no function to call"),
        (calls_of((1, 1), compare="flaot"), "Did you mean 'float'"),
        (
            calls_of((1, 1), compare="exact", checker="x"),
            "a checker and the comparator",
        ),
        (calls_of((object(), 1)), "arguments of call 0 .f.: a value of type object"),
        (calls_of((1, object())), "expected value: a value of type object"),
        (stdin_problem(("", None)), "expected output of type NoneType"),  # type: ignore
        (
            call_problem(
                Test(kind="call", function="f", keywords={"a": 1}, checker="x")
            ),
            "a checker and keyword arguments",
        ),
    ],
)
def test_problem_that_cannot_be_judged_is_refused(problem: Problem, message: str):
    with pytest.raises(ValueError, match=message):
        check_problem(problem)


@pytest.mark.parametrize("kind", ["stdin", "call", "assert"])
def test_problem_without_tests_is_never_a_pass(kind, sandbox: Sandbox):
    problem = Problem(id="p", kind=kind, prompt="", reference="")
    verdict = verdict_on(problem, "print(1)", sandbox)
    assert (verdict.status, verdict.error_class) == ("INFRA", "no_tests")


def test_completion_without_code_fails_every_test(sandbox: Sandbox):
    verdict = judge_program(DOUBLE, "I cannot.", sandbox, JudgeSettings())
    assert (verdict.status, verdict.error_class) == ("CE", "no_code_block")
    assert (verdict.num_passed, verdict.num_tests) == (0, 2)


def test_code_is_found_and_its_place_told(sandbox: Sandbox):
    text = "So:\n```python\nprint(2 * int(input()))\n```\n"
    verdict = judge_program(DOUBLE, text, sandbox, JudgeSettings())
    assert verdict.is_correct
    assert verdict.extracted == "print(2 * int(input()))\n"
    (span,) = verdict.spans
    assert text[span.start : span.end] == verdict.extracted
    assert span.label == "code"
