from dataclasses import replace

import pytest

from jaxgrpo.host.records import (
    Call,
    ExceptionInfo,
    Execution,
    Limits,
    Program,
)
from jaxgrpo.host.sandbox import Sandbox


def run(sandbox: Sandbox, source: str, stdin: str = "", **limits) -> Execution:
    chosen = Limits(**limits) if limits else Limits()
    return sandbox.run(Program(source=source, stdin=stdin, limits=chosen))


def test_program_reads_input_and_prints(sandbox: Sandbox):
    execution = run(sandbox, "print(int(input()) * 2)", "21")
    assert (execution.status, execution.stdout) == ("OK", "42\n")


def test_standard_error_is_kept_apart(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "import sys\nprint('é', file=sys.stderr)")
    assert (execution.stdout, execution.stderr) == ("", "é\n")


def test_output_is_not_translated(plain_sandbox: Sandbox):
    assert run(plain_sandbox, "print('a\\r\\nb\\tç😀')").stdout == "a\r\nb\tç😀\n"


def test_output_that_is_not_utf8_is_marked(plain_sandbox: Sandbox):
    assert run(plain_sandbox, "import os\nos.write(1, b'\\xff')").stdout == "\ufffd"


def test_program_is_main(plain_sandbox: Sandbox):
    assert run(plain_sandbox, "print(__name__, __file__)").stdout == (
        "__main__ solution.py\n"
    )


@pytest.mark.parametrize(
    ("source", "type_name", "message", "line"),
    [
        ("x = 1\n1 / 0", "ZeroDivisionError", "division by zero", 2),
        (
            "def f():\n    return [][3]\n\nf()",
            "IndexError",
            "list index out of range",
            2,
        ),
        ("import json\n\njson.loads('')", "JSONDecodeError", "Expecting value", 3),
        ("class E(Exception): pass\nraise E('a')", "E", "a", 2),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "", 1),
        ("assert 1 == 2, 'no'", "AssertionError", "no", 1),
    ],
)
def test_exception_is_runtime_error_with_type_and_line(
    source: str, type_name: str, message: str, line: int, plain_sandbox: Sandbox
):
    execution = run(plain_sandbox, source)
    assert execution.status == "RE"
    assert execution.exception is not None
    assert execution.exception.type_name == type_name
    assert execution.exception.message.startswith(message)
    assert execution.exception.line == line


def test_traceback_shows_the_program_alone(plain_sandbox: Sandbox):
    stderr = run(plain_sandbox, "def f():\n    raise ValueError('a')\nf()").stderr
    # Newer interpreters underline more of a line.
    assert [line for line in stderr.splitlines() if line.strip("~^ ")] == [
        "Traceback (most recent call last):",
        '  File "solution.py", line 3, in <module>',
        "    f()",
        '  File "solution.py", line 2, in f',
        "    raise ValueError('a')",
        "ValueError: a",
    ]


def test_syntax_error_is_compile_error_with_place(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "x = 1\ny = = 2")
    assert execution.status == "CE"
    assert execution.exception == ExceptionInfo(
        type_name="SyntaxError",
        message="invalid syntax",
        line=2,
        end_line=2,
        column=4,
        end_column=5,
    )


def test_compile_error_in_an_exec_is_runtime_error(plain_sandbox: Sandbox):
    assert run(plain_sandbox, "exec('x =')").status == "RE"


@pytest.mark.parametrize("code", [1, 7, 97, 99, 120, 255])
def test_exit_status_that_is_not_zero_is_runtime_error(
    code: int, plain_sandbox: Sandbox
):
    execution = run(plain_sandbox, f"print(1)\nraise SystemExit({code})")
    assert (execution.status, execution.stdout) == ("RE", "1\n")
    assert execution.reason == f"exit status {code}"


@pytest.mark.parametrize("argument", ["", "0", "None", "False", "256"])
def test_exit_status_zero_is_ok(argument: str, plain_sandbox: Sandbox):
    assert run(plain_sandbox, f"raise SystemExit({argument})").status == "OK"


def test_exit_with_a_text_prints_it_and_is_runtime_error(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "import sys\nsys.exit('no')")
    assert (execution.status, execution.stderr) == ("RE", "no\n")


def test_signal_is_runtime_error_that_names_it(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "import ctypes\nctypes.string_at(0)")
    assert (execution.status, execution.reason) == ("RE", "killed by SIGSEGV")


def test_processor_time_decides_time_limit(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "while True: pass", cpu_s=0.1, wall_s=20.0)
    assert (execution.status, execution.reason) == ("TLE", "processor time limit")
    assert 0.1 <= execution.cpu_s < 0.3


def test_sleeping_costs_no_processor_time(plain_sandbox: Sandbox):
    source = "import time\ntime.sleep(0.4)\nprint(1)"
    execution = run(plain_sandbox, source, cpu_s=0.3, wall_s=20.0)
    assert execution.status == "OK"
    assert execution.wall_s >= 0.4


def test_wall_clock_stops_a_sleeping_program(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "import time\ntime.sleep(60)", wall_s=0.3)
    assert (execution.status, execution.reason) == ("TLE", "wall-clock limit")
    assert execution.wall_s >= 0.3


def test_threads_share_the_processor_time(plain_sandbox: Sandbox):
    source = (
        "import threading\ndef f():\n    while True: pass\n"
        "for _ in range(3): threading.Thread(target=f).start()"
    )
    execution = run(plain_sandbox, source, cpu_s=0.1, wall_s=20.0)
    assert (execution.status, execution.reason) == ("TLE", "processor time limit")


def test_time_limit_keeps_what_was_printed(plain_sandbox: Sandbox):
    source = "print(1, flush=True)\nwhile True: pass"
    assert run(plain_sandbox, source, cpu_s=0.2).stdout == "1\n"


def test_memory_limit_is_told_from_other_errors(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "x = 1\ny = bytearray(1 << 30)", memory_bytes=2**27)
    assert execution.status == "MLE"
    assert execution.exception is not None
    assert (execution.exception.type_name, execution.exception.line) == (
        "MemoryError",
        2,
    )


def test_memory_budget_is_beyond_the_interpreter(sandbox: Sandbox):
    source = "x = bytearray(60 << 20)\nprint(len(x))"
    assert run(sandbox, source, memory_bytes=64 * 2**20).status == "OK"


def test_peak_memory_is_told(plain_sandbox: Sandbox):
    source = "x = b'a' * (100 << 20)"
    assert run(plain_sandbox, source).peak_bytes > 100 * 2**20


def test_caught_memory_error_is_no_failure(plain_sandbox: Sandbox):
    source = "try: bytearray(1 << 40)\nexcept MemoryError: print(1)"
    assert run(plain_sandbox, source).stdout == "1\n"


def test_output_at_the_limit_is_ok(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "print('a' * 999)", output_bytes=1000)
    assert (execution.status, len(execution.stdout)) == ("OK", 1000)


def test_output_beyond_the_limit_is_cut(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "print('a' * 1000)", output_bytes=1000)
    assert (execution.status, len(execution.stdout)) == ("OLE", 1000)


def test_output_limit_outranks_the_error_it_causes(plain_sandbox: Sandbox):
    execution = run(plain_sandbox, "while True: print('a' * 100)", output_bytes=1000)
    assert (execution.status, execution.exception) == ("OLE", None)


def test_unseeded_random_numbers_repeat(plain_sandbox: Sandbox):
    source = "import random\nprint(random.random())"
    assert run(plain_sandbox, source).stdout == run(plain_sandbox, source).stdout


def test_sets_of_strings_print_alike_in_every_sandbox(plain_sandbox: Sandbox):
    source = "print({'a', 'b', 'c', 'd', 'e', 'f', 'g'}, hash('a'))"
    with Sandbox(level="B") as other:
        assert run(plain_sandbox, source).stdout == run(other, source).stdout


def test_runs_share_nothing(sandbox: Sandbox):
    run(sandbox, "import math, builtins\nmath.pi = builtins.x = 3")
    execution = run(
        sandbox, "import math, builtins\nprint(math.pi, hasattr(builtins, 'x'))"
    )
    assert execution.stdout == "3.141592653589793 False\n"


def test_recursion_limit_is_the_interpreters_own(plain_sandbox: Sandbox):
    assert run(plain_sandbox, "import sys\nprint(sys.getrecursionlimit())").stdout == (
        "1000\n"
    )


def test_modules_that_were_not_loaded_before_can_be_imported(sandbox: Sandbox):
    source = "import sqlite3, difflib, unittest, xml.dom.minidom\nprint(1)"
    execution = run(sandbox, source)
    assert execution.stdout == "1\n", execution.stderr


def test_installed_packages_are_not_there_unless_allowed(sandbox: Sandbox):
    execution = run(sandbox, "import numpy")
    assert execution.exception is not None
    assert execution.exception.type_name == "ModuleNotFoundError"


def test_allowed_packages_can_be_imported(sandbox: Sandbox):
    with Sandbox(level=sandbox.level, packages=("numpy",)) as fresh:
        source = "import numpy, numpy.polynomial\nprint(numpy.arange(4).sum())"
        execution = fresh.run(Program(source=source))
    assert execution.stdout == "6\n", execution.stderr


def test_environment_is_the_sandboxs_own(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "secret")
    with Sandbox(level=sandbox.level) as fresh:
        execution = fresh.run(Program(source="import os\nprint(sorted(os.environ))"))
    assert (
        execution.stdout
        == str(
            [
                "LANG",
                "MKL_NUM_THREADS",
                "OMP_NUM_THREADS",
                "OPENBLAS_NUM_THREADS",
                "PYTHONHASHSEED",
            ]
        )
        + "\n"
    )


def test_secrets_are_not_in_memory_either(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    source = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "libc.getenv.restype = ctypes.c_char_p\nprint(libc.getenv(b'HF_TOKEN'))"
    )
    with Sandbox(level="B") as sandbox:
        assert sandbox.run(Program(source=source)).stdout == "None\n"


@pytest.mark.parametrize("name", ["cpu_s", "wall_s", "memory_bytes", "output_bytes"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_limit_that_is_none_is_refused(name: str, value: float, plain_sandbox: Sandbox):
    limits = replace(Limits(), **{name: value})
    program = Program(source="", limits=limits)
    with pytest.raises(ValueError, match=f"limit {name}: {value}. Use a positive"):
        plain_sandbox.run(program)


def test_calls_in_mode_main_are_refused(plain_sandbox: Sandbox):
    program = Program(source="", calls=(Call(function="f"),))
    with pytest.raises(ValueError, match="1 calls in a program of mode main"):
        plain_sandbox.run(program)


def test_unknown_mode_is_refused_by_name(plain_sandbox: Sandbox):
    program = replace(Program(source=""), mode="slowly")
    with pytest.raises(ValueError, match="program mode 'slowly'. Use main, calls"):
        plain_sandbox.run(program)
