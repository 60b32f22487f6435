from collections.abc import Iterator

import pytest

from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.records import ExceptionInfo, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.trace import exception_span, line_starts, statement_span
from jaxgrpo.host.trace_records import Statement


def statement(line: int, column: int, end_line: int, end_column: int) -> Statement:
    return Statement(
        index=0,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        kind="assign",
        scope="<module>",
        shape="",
    )


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(level="B") as opened:
        yield opened


def test_span_of_a_statement_in_a_text():
    text = "Well:\n\nx = 1; y = 2\nz = 3\n"
    code = text[7:]
    span = statement_span(statement(1, 7, 1, 12), line_starts(code, start=7))
    assert text[span.start : span.end] == "y = 2"
    assert span.label == "assign"
    span = statement_span(statement(1, 7, 2, 5), line_starts(code, start=7), "fault")
    assert text[span.start : span.end] == "y = 2\nz = 3"
    assert span.label == "fault"


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        ("", (0,)),
        ("a", (0,)),
        ("a\n", (0, 2)),
        ("a\r\nb\rc\nd", (0, 3, 5, 7)),
        ("a\x0bb\x0cc\x1cd\x85e\u2028f\ng", (0, 12)),
        ("\n\n", (0, 1, 2)),
    ],
)
def test_lines_begin_where_python_begins_them(source: str, starts: tuple[int, ...]):
    assert line_starts(source) == starts


COMPLETIONS = [
    "Thus:\n```python\n{}\n```\nDone.",
    "é😀 ```\n```python\r\n{}\r\n```",
    "1. So:\n   ```python\n   {}\n   ```\n",
    "<think>```python\nx = 0\n```</think>\n````python\n{}\n````",
]
STATEMENTS = [
    "x = '😀é'; y = 'ü'",
    "s = '''```'''; t = 1",
    "\u0078 = [1,  # ü\n   2]",
    "if 'ü' : a = 1",
]


@pytest.mark.parametrize("frame", COMPLETIONS)
@pytest.mark.parametrize("code", STATEMENTS)
def test_spans_of_a_trace_are_exact_in_the_completion(
    frame: str, code: str, sandbox: Sandbox
):
    indent = "   " if frame.startswith("1.") else ""
    text = frame.format(code.replace("\n", "\n" + indent))
    found = extract(text, "last_block")
    assert found.answer.strip() == code
    (trace,) = sandbox.run(Program(source=found.answer, mode="trace")).traces
    assert trace.events
    for event in trace.events:
        span = statement_span(event.statement, found.line_starts)
        place = statement_span(event.statement, line_starts(found.answer))
        expected = found.answer[place.start : place.end]
        assert text[span.start : span.end].replace("\n" + indent, "\n") == expected
        assert expected == expected.strip()


def test_syntax_error_blames_its_characters():
    code = "x = 1\ny = = 2\n"
    exception = ExceptionInfo(
        type_name="SyntaxError",
        message="",
        line=2,
        end_line=2,
        column=4,
        end_column=5,
    )
    span = exception_span(exception, line_starts(code, 100), end=100 + len(code))
    assert span is not None
    assert (span.start, span.end, span.label) == (110, 111, "SyntaxError")


def test_other_exceptions_blame_their_line():
    code = "x = 1\n1 / 0\n"
    exception = ExceptionInfo(type_name="ZeroDivisionError", message="", line=2)
    span = exception_span(exception, line_starts(code), end=len(code))
    assert span is not None
    assert code[span.start : span.end] == "1 / 0\n"


@pytest.mark.parametrize("line", [None, 0, 9])
def test_unknown_line_blames_nothing(line: int | None):
    exception = ExceptionInfo(type_name="E", message="", line=line)
    assert exception_span(exception, line_starts("x\n"), end=2) is None


@pytest.mark.parametrize(
    ("column", "end_column"), [(0, 0), (5, 5), (99, 99), (3, 1), (0, 99)]
)
def test_span_of_an_exception_is_never_empty_nor_outside(column: int, end_column: int):
    code = "x = (1\n"
    exception = ExceptionInfo(
        type_name="SyntaxError",
        message="",
        line=1,
        end_line=1,
        column=column,
        end_column=end_column,
    )
    span = exception_span(exception, line_starts(code), end=len(code))
    assert span is not None
    assert 0 <= span.start < span.end <= len(code)
