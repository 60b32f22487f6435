"""Tests of a program in one child, run in another."""

import pytest

from jaxgrpo.host.records import Call, Examination, Limits, Program
from jaxgrpo.host.sandbox import Sandbox, TesterTask

SHORT = Limits(cpu_s=0.3, wall_s=5.0)
PROGRAM = """
def f(x): return x
def pair(a, b=5): return (a, b)
def sort_it(x): x.sort()
def grow(x): x["new"] = [1]
def fails(x): raise KeyError(x)
def odd(x):
    class Odd(Exception): pass
    raise Odd("strange")
def decode(x): return b"\\xff".decode()
def each(n): yield from range(n)
def endless(x):
    while True: pass
def large(x): return "x" * 5_000_000
"""
NAMES = tuple("f pair sort_it grow fails odd decode each endless large".split())


def examine(
    sandbox: Sandbox, *tests: str, program: str = PROGRAM, limits: Limits = SHORT
) -> Examination:
    tasks = [TesterTask(source=test, names=NAMES) for test in tests]
    return sandbox.examine(Program(source=program, mode="calls", limits=limits), tasks)


def statuses(examination: Examination) -> list[str]:
    return [finding.status for finding in examination.findings]


def test_tests_pass_and_fail(sandbox: Sandbox):
    found = examine(sandbox, "assert f(1) == 1", "x = 1\nassert f(1) == 2, 'no'")
    assert statuses(found) == ["passed", "failed"]
    assert found.execution.status == "OK"
    assert [finding.num_calls for finding in found.findings] == [1, 1]
    exception = found.findings[1].exception
    assert exception is not None
    assert (exception.type_name, exception.message) == ("AssertionError", "no")
    assert exception.line == 2


@pytest.mark.parametrize(
    "test",
    [
        "assert pair(1, b=2) == (1, 2)",
        "assert f({1: (2, {3})}) == {1: (2, {3})}",
        "x = [3, 1]\nsort_it(x)\nassert x == [1, 3]",
        "x = {}\ngrow(x)\nassert x == {'new': [1]}",
        # The test's own inner objects are changed, not replaced.
        "inner = [3, 1]\nouter = [inner]\nsort_it(outer[0])\nassert inner == [1, 3]",
        "inner = {'a': 1}\nouter = (inner,)\ngrow(outer[0])\nassert 'new' in inner",
        "try:\n    fails('k')\nexcept KeyError as e:\n    assert str(e) == repr('k')\n"
        "else:\n    assert False",
        "try:\n    odd(1)\nexcept Exception as e:\n    found = repr(e)\n"
        "assert found == \"Odd('strange')\"",
        "try:\n    decode(1)\nexcept UnicodeDecodeError:\n    ok = True\nassert ok",
        "assert list(map(f, [1, 2])) == [1, 2]",
        "from math import pi\nassert f(pi) == pi",
        "import random\nassert f(random.random()) < 1",
    ],
)
def test_stub_behaves_as_the_function(test: str, plain_sandbox: Sandbox):
    (finding,) = examine(plain_sandbox, test).findings
    assert finding.status == "passed", finding


def test_exception_that_a_test_lets_pass_is_the_programs(plain_sandbox: Sandbox):
    (finding,) = examine(plain_sandbox, "fails(1)").findings
    assert finding.status == "failed"
    assert finding.cause is not None and finding.cause.exception is not None
    assert finding.cause.exception.type_name == "KeyError"
    assert finding.cause.exception.line == 6


def test_exception_of_the_test_is_its_own(plain_sandbox: Sandbox):
    test = "try:\n    fails(1)\nexcept KeyError:\n    undefined"
    (finding,) = examine(plain_sandbox, test).findings
    assert finding.cause is None
    assert finding.exception is not None
    assert (finding.exception.type_name, finding.exception.line) == ("NameError", 4)


@pytest.mark.parametrize(
    "test",
    [
        "f(lambda: 1)",
        "f(object())",
        "f(int)",
        "f(x for x in [1])",
        "f.attribute",
        "try:\n    f(print)\nexcept Exception:\n    pass",
        "try:\n    f(print)\nexcept BaseException:\n    pass",
        "pair(1, b=print)",
    ],
)
def test_more_than_plain_data_cannot_be_handed_over(test: str, plain_sandbox: Sandbox):
    found = examine(plain_sandbox, test, "assert f(1) == 1")
    assert statuses(found) == ["inexpressible", "passed"]
    assert found.findings[0].reason


def test_value_that_is_no_data_is_the_programs_failure(plain_sandbox: Sandbox):
    (finding,) = examine(plain_sandbox, "assert list(each(2)) == [0, 1]").findings
    assert finding.cause is not None and finding.cause.exception is not None
    assert finding.cause.exception.type_name == "NotPlainDataError"


def test_too_large_a_value_is_the_programs_failure(plain_sandbox: Sandbox):
    (finding,) = examine(plain_sandbox, "large(1)").findings
    assert finding.cause is not None
    assert finding.cause.status == "OLE"


def test_large_arguments_go_through(plain_sandbox: Sandbox):
    test = "x = [*range(300_000, 0, -1)]\nsort_it(x)\nassert x[0] == 1"
    limits = Limits(cpu_s=5.0, wall_s=30.0)
    found = examine(plain_sandbox, test, limits=limits)
    assert statuses(found) == ["passed"]


def test_tests_have_a_module_each(plain_sandbox: Sandbox):
    found = examine(plain_sandbox, "x = f(1)", "assert 'x' not in globals()")
    assert statuses(found) == ["passed", "passed"]
    assert [finding.num_calls for finding in found.findings] == [1, 0]


def test_setup_runs_before_and_keeps_line_numbers(plain_sandbox: Sandbox):
    task = TesterTask(
        source="assert near(f(1), 1)\nassert near(f(1), 2)",
        names=("f",),
        setup="import math\nfrom math import isclose as near",
    )
    program = Program(source=PROGRAM, mode="calls", limits=SHORT)
    (finding,) = plain_sandbox.examine(program, [task]).findings
    assert finding.exception is not None
    assert finding.exception.line == 2


# Ends


def test_endless_program_ends_the_examination(sandbox: Sandbox):
    found = examine(sandbox, "f(1)", "endless(1)", "f(2)")
    assert statuses(found) == ["passed"]
    assert found.execution.status == "TLE"
    assert found.execution.is_loaded


def test_endless_test_counts_as_the_programs(plain_sandbox: Sandbox):
    found = examine(plain_sandbox, "f(1)", "while True:\n    pass")
    assert statuses(found) == ["passed"]
    assert found.execution.status == "TLE"


def test_test_that_exits_counts_as_failed(plain_sandbox: Sandbox):
    found = examine(plain_sandbox, "import sys\nsys.exit(0)", "f(1)")
    assert statuses(found) == ["failed", "passed"]


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("1 / 0", "RE"),
        ("def f(", "CE"),
        ("import sys\nsys.exit(0)", "RE"),
        ("import os\nos._exit(0)", "RE"),
        ("while True: pass", "TLE"),
    ],
)
def test_program_that_does_not_load_has_no_findings(
    program: str, status: str, plain_sandbox: Sandbox
):
    found = examine(plain_sandbox, "f(1)", program=program)
    assert not found.findings
    assert found.execution.status == status
    assert not found.execution.is_loaded


@pytest.mark.parametrize(
    "end", ["os._exit(0)", "os.write(3, b'x' * 99)", "os.close(3)", "os.abort()"]
)
def test_program_that_breaks_off_is_at_fault(end: str, plain_sandbox: Sandbox):
    program = f"import os\ndef f(x):\n    {end}\n    return 1\n"
    found = examine(plain_sandbox, "f(1)", "assert 1", program=program)
    assert not found.findings
    assert found.execution.status == "RE"
    assert statuses(examine(plain_sandbox, "f(1)")) == ["passed"]


def test_sandbox_can_run_after_an_examination(plain_sandbox: Sandbox):
    examine(plain_sandbox, "endless(1)")
    assert plain_sandbox.run(Program(source="print(1)")).stdout == "1\n"
    assert statuses(examine(plain_sandbox, "assert f(1) == 1")) == ["passed"]


def test_dead_tester_is_replaced():
    with Sandbox(level="B") as sandbox:
        assert statuses(examine(sandbox, "f(1)")) == ["passed"]
        testers = sandbox._testers
        assert testers is not None
        testers._plain.zygote().process.kill()
        assert statuses(examine(sandbox, "f(1)")) == ["passed"]


def test_testers_end_with_their_sandbox():
    with Sandbox(level="B") as sandbox:
        examine(sandbox, "f(1)")
        testers = sandbox._testers
        assert testers is not None
        process = testers._plain.zygote().process
    assert process.returncode is not None
    with pytest.raises(ValueError, match="the sandbox is closed"):
        examine(sandbox, "f(1)")


# What single calls offer for this


def call(sandbox: Sandbox, function: str, *arguments: object, **rest):
    program = Program(
        source=PROGRAM,
        mode="calls",
        calls=(Call(function=function, arguments=arguments, **rest),),
        limits=SHORT,
    )
    (result,) = sandbox.run(program).results
    return result


def test_keyword_arguments_are_passed(plain_sandbox: Sandbox):
    result = call(plain_sandbox, "pair", 1, keywords={"b": {2}})
    assert result.value == (1, {2})


def test_iterator_is_drained_on_request(plain_sandbox: Sandbox):
    assert call(plain_sandbox, "each", 3).status == "RE"
    assert call(plain_sandbox, "each", 3, is_drained=True).value == [0, 1, 2]
    assert call(plain_sandbox, "f", 3, is_drained=True).status == "RE"


def test_changed_arguments_come_back_on_request(plain_sandbox: Sandbox):
    changed = call(plain_sandbox, "sort_it", [2, 1], returns_arguments=True)
    assert changed.arguments == ([1, 2],)
    same = call(plain_sandbox, "f", [2, 1], returns_arguments=True)
    assert same.arguments is None
    assert call(plain_sandbox, "sort_it", [2, 1]).arguments is None
