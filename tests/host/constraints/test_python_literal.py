import ast
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxgrpo.host.constraints.python_literal import python_literal
from tests.host.constraints.conftest import Bench
from tests.host.constraints.literals import VALUES
from tests.reference.constraints import random_spelling, reads

AUTOMATON = python_literal()
RANDOM = st.randoms(use_true_random=False)


@settings(max_examples=120, deadline=None)
@given(VALUES, RANDOM)
@example({"a": [{1: {2}}, (3,)], ("b", (None, b"c")): set()}, Random(0))
def test_every_repr_is_accepted_in_any_tokens(bench: Bench, value: Any, random: Random):
    tokens = random_spelling(repr(value).encode(), bench.ids, random)
    assert bench.accepts(bench.tables("python_literal"), tokens)


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 60), RANDOM)
def test_every_accepted_text_is_one_literal(bench: Bench, budget: int, random: Random):
    text, has_ended = bench.random_text(bench.tables("python_literal"), random, budget)
    assert has_ended
    assert len(text.decode().splitlines()) == 1
    ast.literal_eval(text.decode())


@pytest.mark.parametrize(
    "text",
    [
        *(" 1", "-1.5e-07", "1e5", "0.0", "1j", "-1.5+0.5e2j", "(1+2j)", "[-1-0j]"),
        *("''", '""', r"'\\ \' \" \n \r \t \x0a \u1234 \U0010ffff \U000e0001'"),
        *("'\u00e9\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff'", '"it\'s"'),
        *("b''", rb"b'a\xff\\'".decode(), 'b"\'"', "None", "True", "False", "set()"),
        *("()", "(1)", "((1))", "(1,)", "(1, 2,)", "[]", "[1,2]", "[(), [()]]"),
        *("{}", "{1}", "{1,2}", "{1:2}", "{1: {2: [3]}}", "{(1): 2}", "{(1, (2,)): 3}"),
        *("{(), (1,)}", "{-1+2j: {3}}", "[set()]", "{1: set()}", "{b'': (1, [2])}"),
    ],
)
def test_literal_is_accepted(text: str):
    ast.literal_eval(text)
    assert reads(AUTOMATON, text)


@pytest.mark.parametrize(
    "text",
    [
        *("{[1]}", "{([1],): 1}", "{{1}}", "{(1, {2}): 3}", "{set()}", "{(1, set())}"),
        *("{{}: 1}", "{1: 2, [3]: 4}", "{1, [2]}", "{((([]))): 1}"),
    ],
)
def test_what_cannot_be_hashed_is_refused(text: str):
    with pytest.raises((TypeError, ValueError)):
        ast.literal_eval(text)
    assert not reads(AUTOMATON, text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "1 2",
            "[1",
            "1]",
            "(1]",
            "[,]",
            "(,)",
            "{,}",
            "{1:}",
            "{:1}",
            "{1::2}",
        ),
        *(
            "{1: 2, 3}",
            "{1, 2: 3}",
            "{1: 2: 3}",
            "01",
            "1.2.3",
            "--1",
            "1j+2j",
            "1e",
            "+",
        ),
        *("nan", "inf", "-inf", "frozenset()", "None1", "TrueFalse", "1 + 2", "[1]j"),
        *("'a' 'b'", "'''a'''", "f'a'", "r'a'", "u'a'", "'\n'", "'\r'", "'\0'", "'a"),
        *(r"'\x1'", r"'\u123'", r"'\U00110000'", r"'\N{DIGIT ONE}'", r"'\d'", "'\\"),
        *("b'\u00e9'", r"b'\u1234'", "'\u2028'", "'\u2029'", "'\u0085'", "'\udc80'"),
        *("1\n", "x", "[1 ]", "[ 1]", "[1,  2]", "{1 :2}", "1_0", "0x1", "-'a'", "1,2"),
    ],
)
def test_other_text_is_refused(text: str):
    assert not reads(AUTOMATON, text)


@pytest.mark.parametrize(
    "data", [b"'\xc0\x80'", b"'\xed\xa0\x80'", b"'\xf4\x90\x80\x80'"]
)
def test_bytes_that_are_no_utf8_are_refused(bench: Bench, data: bytes):
    tokens = [bench.ids[bytes([byte])] for byte in data]
    assert not bench.accepts(bench.tables("python_literal"), tokens)


@pytest.mark.parametrize(("depth", "fits"), [(16, True), (17, False)])
@pytest.mark.parametrize("brackets", ["[]", "()"])
def test_sixteen_brackets_may_be_open(
    bench: Bench, brackets: str, depth: int, fits: bool
):
    # Byte by byte: brackets that one token opens and closes do not count.
    text = brackets[0] * depth + brackets[1] * depth
    tokens = [bench.ids[bytes([byte])] for byte in text.encode()]
    assert bench.accepts(bench.tables("python_literal"), tokens) == fits
