import json
from dataclasses import replace
from pathlib import Path

import pytest

from jaxgrpo.host.records import Call, Limits, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.trace_records import Trace

from .events import plain
from .hostile_programs import INTERPRETER, LEGITIMATE
from .traced_programs import PROGRAMS

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "traces.json").read_text(encoding="utf-8")
)


def traced(sandbox: Sandbox, source: str, **limits: float) -> Trace:
    chosen = replace(Limits(), **limits)
    execution = sandbox.run(Program(source=source, mode="trace", limits=chosen))
    (trace,) = execution.traces
    return trace


def values_of(trace: Trace, name: str) -> list[str]:
    """What became of a variable."""
    pairs = [pair for event in trace.events for pair in event.values]
    return [text for found, text in pairs if found == name]


# The same events by `sys.settrace` and by `sys.monitoring`.


def test_stored_events_were_the_same_both_ways():
    ways = {made_by.split()[1] for made_by in GOLDEN["made_by"]}
    assert ways == {"settrace", "monitoring"}
    assert set(GOLDEN["events"]) == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_events_are_those_that_other_versions_gave(name: str, plain_sandbox: Sandbox):
    trace = traced(plain_sandbox, PROGRAMS[name])
    assert json.loads(json.dumps(plain(trace))) == GOLDEN["events"][name]
    assert trace.cut == ""


# A traced program does what it does untraced.


@pytest.mark.parametrize("name", PROGRAMS)
def test_traced_program_ends_as_the_untraced_one(name: str, plain_sandbox: Sandbox):
    source = PROGRAMS[name] + "\nprint(sorted(k for k in globals() if k[0] != '_'))\n"
    plainly = plain_sandbox.run(Program(source=source))
    execution = plain_sandbox.run(Program(source=source, mode="trace"))
    assert (execution.status, execution.stdout) == (plainly.status, plainly.stdout)
    assert execution.exception == plainly.exception


@pytest.mark.parametrize(
    "case", [*LEGITIMATE, *INTERPRETER], ids=lambda case: case.name
)
def test_traced_program_prints_what_the_untraced_one_does(case, plain_sandbox: Sandbox):
    program = Program(source=case.source, stdin=case.stdin, mode="trace")
    execution = plain_sandbox.run(program)
    if case.outputs:
        assert execution.stdout in case.outputs
    assert plain_sandbox.run(Program(source="print(1)")).stdout == "1\n"


def test_calls_give_the_same_values_traced(sandbox: Sandbox):
    source = "def f(x):\n    y = x * 2\n    return [y, (x,), {x: y}]\n"
    calls = tuple(Call(function="f", arguments=(n,)) for n in (1, 2.5, "a"))
    program = Program(source=source, mode="calls", calls=calls)
    plainly = sandbox.run(program)
    execution = sandbox.run(replace(program, mode="trace"))
    assert [result.value for result in execution.results] == [
        result.value for result in plainly.results
    ]
    assert len(execution.traces) == 3


def test_exception_has_the_line_of_the_source(plain_sandbox: Sandbox):
    source = "x = 1; y = 0\n\n\ndef f():\n    return [\n        x / y]\nf()\n"
    for mode in ("main", "trace"):
        execution = plain_sandbox.run(replace(Program(source=source), mode=mode))
        assert execution.exception is not None
        # Python blames the line of the division, or that of its statement.
        assert execution.exception.line in (5, 6)
        assert execution.exception.type_name == "ZeroDivisionError"


# One trace per call.


def test_each_call_has_its_trace(plain_sandbox: Sandbox):
    program = Program(
        source="def f(x):\n    return x\ndef g(): 1 / 0",
        mode="trace",
        calls=(
            Call(function="f", arguments=(1,)),
            Call(function="no_such_function"),
            Call(function="g"),
            Call(function="f", arguments=(2,)),
        ),
    )
    first, missing, failing, last = plain_sandbox.run(program).traces
    assert values_of(first, "<return>") == ["1"]
    assert missing.events == ()
    assert values_of(failing, "<raise>") == ["ZeroDivisionError"]
    assert values_of(last, "<return>") == ["2"]
    assert last.events[0].activation == 0


def test_top_level_is_not_part_of_a_call(plain_sandbox: Sandbox):
    source = "def f(): return 1\nx = f()"
    program = Program(source=source, mode="trace", calls=(Call(function="f"),))
    (trace,) = plain_sandbox.run(program).traces
    assert [event.kind for event in trace.events] == ["call", "return"]


def test_printed_text_belongs_to_the_statement_that_printed_it(
    plain_sandbox: Sandbox,
):
    source = (
        "import os\nprint('a'); print('b', end='')\nprint('ü', flush=True)\n"
        "os.write(1, b'c')\nx = [print(i) for i in range(2)]"
    )
    trace = traced(plain_sandbox, source)
    assert values_of(trace, "<stdout>") == ["a\n", "b", "ü\n", "c", "0\n1\n"]
    (printed,) = [e for e in trace.events if ("<stdout>", "b") in e.values]
    assert (printed.statement.line, printed.statement.column) == (2, 12)


def test_of_much_output_the_rest_is_counted(plain_sandbox: Sandbox):
    trace = traced(plain_sandbox, "print('é' * 5000)\nprint('a')\nprint('ü' * 4096)")
    assert [len(text) for text in values_of(trace, "<stdout>")] == [4096, 2, 4096]
    first, last = values_of(trace, "<unseen>")
    assert first.startswith("1809 bytes, checksum ")
    assert last.startswith("1 bytes, checksum ")
    other = traced(plain_sandbox, "print('é' * 4999 + 'ü')")
    (unseen,) = values_of(other, "<unseen>")
    assert unseen.startswith("1809 bytes") and unseen != first


# Limits.


def test_trace_ends_at_the_largest_number_of_events(plain_sandbox: Sandbox):
    source = "i = 0\nwhile i < 10 ** 5: i += 1\nprint(i)"
    program = Program(source=source, mode="trace", limits=Limits(trace_events=100))
    execution = plain_sandbox.run(program)
    assert (execution.status, execution.stdout) == ("OK", "100000\n")
    (trace,) = execution.traces
    assert (len(trace.events), trace.cut) == (100, "events")


def test_each_call_may_have_the_largest_number_of_events(plain_sandbox: Sandbox):
    program = Program(
        source="def f():\n    for _ in range(99): pass",
        mode="trace",
        calls=(Call(function="f"),) * 2,
        limits=Limits(trace_events=50),
    )
    traces = plain_sandbox.run(program).traces
    assert [(len(trace.events), trace.cut) for trace in traces] == [(50, "events")] * 2


def test_traces_end_at_the_largest_size(plain_sandbox: Sandbox):
    program = Program(
        source="def f(n):\n    x = 'a' * 150\n    for i in range(n): x = x[1:] + 'b'",
        mode="trace",
        calls=tuple(Call(function="f", arguments=(n,)) for n in (3, 99, 3)),
        limits=Limits(trace_bytes=8000),
    )
    execution = plain_sandbox.run(program)
    assert execution.status == "OK"
    assert [trace.cut for trace in execution.traces] == ["", "bytes", "bytes"]
    assert execution.traces[2].events == ()
    assert len(execution.traces[1].events) > 5


def test_source_too_large_for_the_trace_runs_untraced(plain_sandbox: Sandbox):
    source = "x = 1\n" * 500 + "print(x)"
    program = Program(source=source, mode="trace", limits=Limits(trace_bytes=4000))
    execution = plain_sandbox.run(program)
    assert (execution.status, execution.stdout) == ("OK", "1\n")
    assert (execution.traces[0].events, execution.traces[0].cut) == ((), "bytes")


def test_source_that_cannot_be_numbered_runs_untraced(plain_sandbox: Sandbox):
    source = "x = " + "-" * 2900 + "1\nprint(x)"
    execution = plain_sandbox.run(Program(source=source, mode="trace"))
    plainly = plain_sandbox.run(Program(source=source))
    assert (execution.status, execution.stdout) == (plainly.status, plainly.stdout)


@pytest.mark.parametrize(
    ("source", "status", "cut"),
    [
        ("x = 1\nwhile True: pass", "TLE", "events"),
        ("x = 1\nimport time\ntime.sleep(60)", "TLE", "stopped"),
        ("x = 1\nimport os\nos.abort()", "RE", "stopped"),
        ("x = 1\nimport ctypes\nctypes.string_at(0)", "RE", "stopped"),
        ("x = 1\nraise SystemExit(3)", "RE", ""),
        ("x = 1\ny = bytearray(1 << 40)", "MLE", ""),
        ("x = 1\nwhile True: print('a' * 10000)", "OLE", ""),
        ("x = 1\nimport os\nos._exit(0)", "OK", "stopped"),
        ("x = 1\nimport os\nos.fork()", "RE", ""),
        # Python leaves the trace when what follows it has no room on the stack.
        ("x = 1\ndef f(): return f()\nf()", "RE", None),
        ("x = 1\nimport sys; sys.exit()", "OK", ""),
    ],
)
def test_trace_is_there_whatever_the_end(
    source: str, status: str, cut: str | None, plain_sandbox: Sandbox
):
    limits = Limits(cpu_s=0.3, wall_s=1.0)
    program = Program(source=source, mode="trace", limits=limits)
    execution = plain_sandbox.run(program)
    assert execution.status == status
    (trace,) = execution.traces
    assert trace.events[0].values == (("x", "1"),)
    assert cut is None or trace.cut == cut


def test_program_that_does_not_compile_has_no_trace(plain_sandbox: Sandbox):
    execution = plain_sandbox.run(Program(source="x =", mode="trace"))
    assert (execution.status, execution.traces) == ("CE", ())
    assert execution.exception is not None
    assert execution.exception.line == 1


# What is not followed.


def test_other_threads_are_not_followed(plain_sandbox: Sandbox):
    source = (
        "import threading\ndef f(): x = 7\n"
        "t = threading.Thread(target=f)\nt.start()\nt.join()\ny = 8"
    )
    trace = traced(plain_sandbox, source)
    assert values_of(trace, "x") == []
    assert values_of(trace, "y") == ["8"]


def test_code_made_at_run_time_is_not_followed(plain_sandbox: Sandbox):
    trace = traced(plain_sandbox, "exec('x = 1\\ny = 2')\nz = eval('x + y')")
    assert [event.statement.line for event in trace.events] == [1, 2]
    assert values_of(trace, "z") == ["3"]


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.settrace(None)",
        "import sys\nfor i in range(6):\n    sys.monitoring.free_tool_id(i)",
        "import sys\nsys.setprofile(lambda *a: None)",
    ],
)
def test_program_that_stops_the_trace_only_loses_it(
    source: str, plain_sandbox: Sandbox
):
    source = f"try:\n    exec({source!r})\nexcept Exception: pass\nx = 1\nprint(x)"
    program = Program(source=source, mode="trace")
    execution = plain_sandbox.run(program)
    assert (execution.status, execution.stdout) == ("OK", "1\n")
    (trace,) = execution.traces
    assert trace.cut == ("stopped" if not values_of(trace, "x") else "")


def test_hostile_methods_are_not_called(plain_sandbox: Sandbox):
    source = (
        "class A(list):\n"
        "    def __getattribute__(self, name): print('called'); return 1\n"
        "    __repr__ = __iter__ = __len__ = __eq__ = __hash__ = None\n"
        "    def __class_getitem__(cls, k): print('called')\n"
        "a = A([1, 2])\nb = [a]"
    )
    program = Program(source=source, mode="trace")
    execution = plain_sandbox.run(program)
    assert (execution.status, execution.stdout) == ("OK", "")
    assert values_of(execution.traces[0], "b") == ["[[1, 2]]"]
