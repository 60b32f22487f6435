import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.constraints.json_value import json_value
from tests.host.constraints.conftest import Bench
from tests.host.constraints.literals import JSON_VALUES
from tests.reference.constraints import random_spelling, reads

AUTOMATON = json_value()
RANDOM = st.randoms(use_true_random=False)


@settings(max_examples=200, deadline=None)
@given(JSON_VALUES, st.sampled_from([(", ", ": "), (",", ":")]), RANDOM)
def test_every_dump_is_accepted_in_any_tokens(
    bench: Bench, value: Any, separators: tuple[str, str], random: Random
):
    text = json.dumps(value, separators=separators)
    tokens = random_spelling(text.encode(), bench.ids, random)
    assert bench.accepts(bench.tables("json"), tokens)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), RANDOM)
def test_every_string_is_accepted_as_it_is(bench: Bench, value: str, random: Random):
    data = json.dumps(value, ensure_ascii=False).encode()
    tokens = random_spelling(data, bench.ids, random)
    assert bench.accepts(bench.tables("json"), tokens)


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 60), RANDOM)
def test_every_accepted_text_is_one_value(bench: Bench, budget: int, random: Random):
    text, has_ended = bench.random_text(bench.tables("json"), random, budget)
    assert has_ended
    json.loads(text.decode(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "text",
    [
        *(" null", "true", "false", "0", "-0", "-1.5E+7", "1e5", '""', "[]", "{}"),
        *(
            r'"\" \\ \/ \b \f \n \r \t \u00e9 \ud83d\ude00 \ud800"',
            '"\x7f\u2028\U0010ffff"',
        ),
        *('{"a":[1, {"b": {}}],"a": null}', "[[], [{}]]"),
    ],
)
def test_value_is_accepted(text: str):
    json.loads(text)
    assert reads(AUTOMATON, text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "NaN", "Infinity", "-Infinity", "+1", "01", "1.", ".5", "1e", "-", "nul"),
        *("'a'", '"a', '"\n"', r'"\x41"', r'"\u12"', "[1,]", "[,]", "[1", "1]", "[1}"),
        *(
            "{1: 2}",
            '{"a"}',
            '{"a":}',
            '{"a": 1,}',
            '{"a": 1, 2}',
            "{[]: 1}",
            "{null: 1}",
        ),
        *(
            '{"a": 1, "b"}',
            '{"a", "b"}',
            "1 2",
            "1 ",
            "[1 ]",
            "[ 1]",
            '{ "a": 1}',
            "None",
        ),
    ],
)
def test_other_text_is_refused(text: str):
    assert not reads(AUTOMATON, text)
