import json
import mmap
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.sandbox.traces import traces_of
from jaxgrpo.host.sandbox.tracing.region import Region
from jaxgrpo.host.trace_records import Trace

TABLE = [
    [10, 1, 0, 1, 5, "assign", "<module>", "Assign"],
    [11, 2, 0, 2, 4, "branch", "<module>", "If"],
]
EVENT = [10, "", 0, None, [["x", "1"]]]
SCOPE = [0, "<module>"]


def content(*lines: object, size: int = 1 << 16) -> bytes:
    region = Region(mmap.mmap(-1, size))
    for line in lines:
        region.write(line)
    return region._memory[:]


def test_what_a_region_holds_is_read_back():
    written = content(TABLE, "begin", SCOPE, EVENT, [11, "", 0, True, []], "end")
    (trace,) = traces_of(written, 1)
    first, second = trace.events
    assert (first.statement.line, first.kind, first.values) == (
        1,
        "assign",
        (("x", "1"),),
    )
    assert (second.kind, second.branch, second.scope) == ("branch", True, "<module>")
    assert [statement.kind for statement in trace.statements] == ["assign", "branch"]
    assert trace.cut == ""


def test_a_trace_without_an_end_was_stopped():
    lines = [SCOPE, EVENT]
    written = content(TABLE, "begin", *lines, "begin", *lines, "end", "begin")
    cuts = [trace.cut for trace in traces_of(written, 4)]
    assert cuts == ["stopped", "", "stopped", "not begun"]
    written = content(TABLE, "begin", *lines, "cut", "begin", *lines, "x")
    assert [trace.cut for trace in traces_of(written, 2)] == ["events", "broken"]


def test_there_are_as_many_traces_as_there_should_be():
    written = content(TABLE, "begin", SCOPE, EVENT)
    first, second, third = traces_of(written, 3)
    assert len(first.events) == 1
    assert second == third == Trace(statements=first.statements, cut="not begun")
    many = content(TABLE, *["begin"] * 9)
    assert len(traces_of(many, 2)) == 2


def test_untouched_memory_holds_no_trace():
    assert traces_of(bytes(100), 1) == (Trace(cut="not begun"),)


@pytest.mark.parametrize(
    "line",
    [
        {"x": 1},
        7,
        None,
        "something",
        [],
        [10],
        [99, "", 0, None, []],
        [10, "dance", 0, None, []],
        [10, "", 5, None, []],
        [10, "", -1, None, []],
        [10, "", 0, 1, []],
        [10, "", 0, "True", []],
        [10, "", 0, None, {}, 1],
        [10, "", 0, None, [["x"]]],
        [10, "", 0, None, [["x", 1]]],
        [10, "", 0, None, [["", "1"]]],
        [10, "", 0, None, [["x" * 999, "1"]]],
        [10.0, "", 0, None, []],
        [True, "", 0, None, []],
        [[10], "", 0, None, []],
        [1 << 40, "x"],
    ],
    ids=str,
)
def test_line_that_no_recorder_writes_ends_the_trace(line: object):
    written = content(TABLE, "begin", SCOPE, EVENT, line, EVENT)
    (trace,) = traces_of(written, 1)
    assert (len(trace.events), trace.cut) == (1, "broken")


@pytest.mark.parametrize(
    "row",
    [
        [10, 0, 0, 1, 5, "assign", "<module>", ""],
        [10, 2, 0, 1, 5, "assign", "<module>", ""],
        [10, 1, 9, 1, 5, "assign", "<module>", ""],
        [10, 1, 0, 1, 5, "dance", "<module>", ""],
        [10, 1, 0, 1, 5, "assign", 7, ""],
        [10, 1, 0, 1, 5, "assign"],
        ["10", 1, 0, 1, 5, "assign", "<module>", ""],
        10,
    ],
    ids=str,
)
def test_statement_that_cannot_be_is_refused(row: object):
    (trace,) = traces_of(content([row], "begin", SCOPE, EVENT), 1)
    assert (trace.events, trace.statements, trace.cut) == ((), (), "broken")


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"1" * 5000, b"\xff\xfe", b'"\\ud800"', b"NaN", b"[1e999]"]
)
def test_hostile_json_ends_the_trace(text: bytes):
    written = bytearray(content(TABLE, "begin", SCOPE, EVENT, size=1 << 18))
    end, cut = struct.unpack_from("<II", written)
    written[end : end + len(text) + 1] = text + b"\n"
    struct.pack_into("<II", written, 0, end + len(text) + 1, cut)
    (trace,) = traces_of(bytes(written), 1)
    assert (len(trace.events), trace.cut) == (1, "broken")


@given(st.binary(min_size=8, max_size=300))
def test_any_bytes_give_the_right_number_of_traces(noise: bytes):
    assert len(traces_of(noise, 2)) == 2


@given(st.integers(0, 1 << 30))
def test_damaged_memory_gives_the_right_number_of_traces(seed: int):
    generator = random.Random(seed)
    written = bytearray(content(TABLE, "begin", SCOPE, *[EVENT] * 5, size=600))
    for _ in range(generator.randint(1, 8)):
        written[generator.randrange(len(written))] = generator.randrange(256)
    for trace in traces_of(bytes(written), 2):
        for event in trace.events:
            assert json.dumps(event.values)
            assert event.statement in trace.statements
