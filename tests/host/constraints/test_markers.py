from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.constraints import parse_constraint
from jaxgrpo.host.constraints.compilation import text_automaton
from tests.host.constraints.conftest import Bench
from tests.reference.constraints import Position, TokenReader, after_bytes, is_whole

RANDOM = st.randoms(use_true_random=False)


def accepts(
    bench: Bench, text: str, kind: str, after: str = "", until: str = ""
) -> bool:
    constraint = parse_constraint(kind, after=after, until=until)
    automaton = text_automaton(constraint, bench.vocabulary)
    end = after_bytes(automaton, Position(automaton.starts[0]), text.encode())
    return end is not None and is_whole(automaton, end)


@settings(max_examples=200, deadline=None)
@given(st.text("ab", min_size=1, max_size=6), st.text("abc", max_size=20))
def test_the_value_begins_after_the_first_occurrence(
    bench: Bench, marker: str, text: str
):
    expected = text.partition(marker)[1:] == (marker, "c")
    assert accepts(bench, text, "choice:c", after=marker) == expected


@pytest.mark.parametrize("kind", ["python_literal", "json", "regex:[0-9]", "choice:1"])
@pytest.mark.parametrize(
    ("between", "is_allowed"),
    [
        *(("", True), (" ", True), ("\n", True), ("\n\n", True), ("\n\n ", True)),
        *(
            ("  ", False),
            ("\n\n\n", False),
            (" \n", False),
            ("\t", False),
            ("x", False),
        ),
    ],
)
def test_line_breaks_and_a_blank_may_follow_the_marker(
    bench: Bench, kind: str, between: str, is_allowed: bool
):
    text = f"Let me think.</think>{between}1"
    assert accepts(bench, text, kind, after="</think>") == is_allowed


@pytest.mark.parametrize(
    "kind", ["python_literal", "json", "regex:.*", "choice:[1]|12"]
)
@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        *(("[1][/A]", True), ("12[/A]", True), ("[1]", False), ("[1][/A", False)),
        *(("[1] [/A]", False), ("[1][/A] ", False), ("[[/A]1]", False)),
    ],
)
def test_the_closing_marker_must_follow(
    bench: Bench, kind: str, text: str, is_allowed: bool
):
    if kind == "regex:.*":
        is_allowed = text.endswith("[/A]")
    assert accepts(bench, text, kind, until="[/A]") == is_allowed


@pytest.mark.parametrize("until", ["0", "e", ",", "]", ")", "}", ":", ".", "-"])
def test_a_closing_marker_that_might_continue_the_value_is_refused(
    bench: Bench, until: str
):
    with pytest.raises(ValueError, match="that might also continue the value"):
        bench.tables("python_literal", until=until)


def test_markers_cross_the_borders_of_tokens(bench: Bench):
    tables = bench.tables("python_literal", after="\nf([", until="|")
    # The marker ends and the value begins within the token `[[`.
    pieces = [b"):\n return ", b"\n", b"\nf(", b"[[", b"]", b"|"]
    assert bench.accepts(tables, [bench.ids[piece] for piece in pieces])
    assert not bench.accepts(tables, [bench.ids[piece] for piece in pieces[:-1]])


def test_before_the_marker_everything_is_allowed_except_to_end(bench: Bench):
    tables = bench.tables("json", after="</think>")
    reader = TokenReader.at_start(tables)
    tokens = {*bench.ids.values(), *bench.vocabulary.special_ids.values()}
    assert {token for token in tokens if not reader.allows(token)} == bench.ends


def test_within_a_value_special_tokens_are_not_allowed(bench: Bench):
    special = bench.vocabulary.special_ids.values()
    for after in ("", "</think>"):
        reader = TokenReader.at_start(bench.tables("json", after=after))
        if after:
            reader = reader.after(bench.ids[b"</think>"])
        for piece in (b'["', b"a"):
            reader = reader.after(bench.ids[piece])
            assert not any(map(reader.allows, special))


def test_a_special_token_may_be_the_marker(bench: Bench):
    tables = bench.tables("choice:a", after="<|im_start|>")
    marker = bench.vocabulary.special_ids["<|im_start|>"]
    other = bench.vocabulary.special_ids["<|endoftext|>"]
    letter, b = bench.ids[b"a"], bench.ids[b"b"]
    assert bench.accepts(tables, [letter, b, other, marker, letter])
    assert not bench.accepts(tables, [letter, b, other, marker, b])
    assert not bench.accepts(tables, [letter, b, other, letter])
    assert not bench.accepts(tables, [marker, marker, letter])


def test_special_tokens_do_not_interrupt_a_marker(bench: Bench):
    # They write nothing: the text is the marker without a gap.
    tables = bench.tables("choice:c", after="ab")
    special = bench.vocabulary.special_ids["<|im_start|>"]
    a, b, c = (bench.ids[piece] for piece in (b"a", b"b", b"c"))
    assert bench.accepts(tables, [a, special, b, c])


def test_values_cannot_begin_after_an_end(bench: Bench):
    with pytest.raises(ValueError, match="which ends the completion"):
        bench.tables("json", after="<|im_end|>")


def test_a_special_token_is_no_closing_marker(bench: Bench):
    with pytest.raises(ValueError, match="special token, which writes no text"):
        bench.tables("json", until="<|im_end|>")


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), RANDOM)
def test_a_value_that_has_begun_is_finished_within_the_budget(
    bench: Bench, budget: int, random: Random
):
    # The marker is one byte, so that random text meets it.
    tables = bench.tables("choice:1234|5", after="a", until="[/A]")
    text, has_ended = bench.random_text(tables, random, budget)
    assert has_ended == (b"a" in text)
    assert not has_ended or text.endswith((b"1234[/A]", b"5[/A]"))
