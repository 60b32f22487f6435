"""What is blamed for a syntax error, to the character, whatever Python counts in."""

import sys
from collections.abc import Iterator

import pytest

from jaxgrpo.host.records import Call, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.trace import exception_span, line_starts

BEFORE = "def g():\n    return '🧮'\n\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(level="B") as opened:
        yield opened


def blamed(source: str, sandbox: Sandbox, **fields: object) -> str:
    execution = sandbox.run(Program(source=source, **fields))  # type: ignore[arg-type]
    assert execution.status == "CE"
    assert execution.exception is not None
    span = exception_span(execution.exception, line_starts(source), len(source))
    assert span is not None
    assert 0 <= span.start < span.end <= len(source)
    return source[span.start : span.end]


PLACES = [
    # The parser, given bytes, counts bytes before Python 3.13.
    ("def f(x):\n    s = 'Größe' + ; return s\n", ";"),
    ("'''Größe der Länge 🧮'''; y = = 1\n", "="),
    ("s = '🧮é'; print s\n", "print s"),
    ("f(é=1, 2)\n", ")"),
    ("é = (\n 'ü',\n 'ö' 1 2\n)\n", "'ö' 1"),
    ("'é'\r\n'é'; x = = 1\r\n", "="),
    # The tokenizer counts characters.
    ("a = 'é'; b = 1)\n", ")"),
    ("a = 'é'; b = (1]\n", "]"),
    ("a = 'é'; b = “x”\n", "“"),
    ("a = 'é'; b = 1\xa0+ 2\n", "\xa0"),
    # What comes after parsing is placed in bytes of UTF-8.
    ("s = '🧮é'; return s\n", "return s"),
    ("for x in 'é':\n  pass\nx = 'é'; break\n", "break"),
    ("def f(é, ü, é): pass\n", "é"),
    ("'é'; return (\n 'ö', 1)\n", "return (\n 'ö', 1)"),
    # A string over several lines is told from its first line on.
    ("a = '''ü\nöö'''; x = = 1\n", "="),
    ("'''a long line of ASCII\né'''; y = = 1\n", "="),
    ("def f():\n  return '''é\nüü''' 'ö' 1\n", "1"),
    ("y = '''é\né'''; y = 12)\n", ")"),
    ("print '''é\nüü''', 1\n", "print '''é\nüü''', 1"),
    # An end beyond the width of the first line is lost: up to the end of the last.
    ("x = (1 +\n  'ö' + aaaaaaaaaaaaaa 1)\n", "1 +\n  'ö' + aaaaaaaaaaaaaa 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), PLACES)
def test_the_characters_of_a_syntax_error_are_exact(
    source: str, expected: str, sandbox: Sandbox
):
    assert blamed(source, sandbox) == expected
    assert blamed(BEFORE + source, sandbox) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x):\n    s = '🧮🧮🧮' + \n    t = 2\n", "    s = '🧮🧮🧮' + \n"),
        ("if 'é':\n        a = 'é'\n    b = 'ü'\n", "    b = 'ü'\n"),
        ("x = 'é' if", "x = 'é' if"),
        ("try:\n  x = 'é'\n\n\n", "  x = 'é'\n"),
        ("def f(x):\n\n\n", "def f(x):\n"),
    ],
)
def test_where_nothing_is_pointed_at_its_line_is_blamed(
    source: str, expected: str, sandbox: Sandbox
):
    assert blamed(source, sandbox) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = 'é'; b = 'abc\nc = 1\n", "'abc\n"),
        ("a = 'é'; b = '''abc\nc = 1\n", "'''abc\n"),
        ("a = 'é'; b = rb'abc\nc = 1\n", "rb'abc\n"),
    ],
)
def test_a_string_without_an_end_is_blamed_beyond_its_quote(
    source: str, expected: str, sandbox: Sandbox
):
    assert blamed(source, sandbox) == expected


def test_an_error_within_an_f_string_is_within_its_line(sandbox: Sandbox):
    source = "x = 1\na = 'é'; b = f'{x x}'\n"
    line = "a = 'é'; b = f'{x x}'\n"
    # Python 3.11 tells where it is in the braces alone.
    expected = line if sys.version_info < (3, 12) else "x x"
    assert blamed(source, sandbox) == expected


def test_what_depends_on_the_encoding_is_blamed_by_its_line(sandbox: Sandbox):
    assert blamed("\ufeffa = 'é'; x = = 1\n", sandbox) == "\ufeffa = 'é'; x = = 1\n"


def test_a_program_that_is_to_be_called_is_placed_alike(sandbox: Sandbox):
    calls = (Call(function="f", arguments=(1,)),)
    source = "def f(x):\n    s = 'Größe' + ; return s\n"
    assert blamed(source, sandbox, mode="calls", calls=calls) == ";"
