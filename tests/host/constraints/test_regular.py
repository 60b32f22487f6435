import re
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from outlines_core import Index
from outlines_core import Vocabulary as OutlinesVocabulary

from jaxgrpo.host.constraints.regular import any_of, literal, regular
from tests.host.constraints.conftest import Bench
from tests.reference.constraints import TokenReader, reads

RANDOM = st.randoms(use_true_random=False)
PATTERN = r"(-?[0-9]{1,3}|é{2}|\[[a-f, ]*\])"


@settings(max_examples=30, deadline=None)
@given(RANDOM)
def test_tokens_are_those_that_outlines_core_allows(bench: Bench, random: Random):
    (end,) = bench.ends
    index = Index(
        PATTERN, OutlinesVocabulary(end, {p: [t] for p, t in bench.ids.items()})
    )
    tables = bench.tables(f"regex:{PATTERN}")
    members = bench.members(tables)
    reader, state = TokenReader.at_start(tables), index.get_initial_state()
    for _ in range(12):
        allowed = sorted(t for c in reader.allowed_classes() for t in members[c])
        assert allowed == sorted(index.get_allowed_tokens(state))
        token = random.choice(allowed)
        if token == end:
            break
        reader, state = reader.after(token), index.get_next_state(state, token)


@settings(max_examples=100, deadline=None)
@given(st.integers(4, 30), RANDOM)
def test_every_accepted_text_matches(bench: Bench, budget: int, random: Random):
    text, has_ended = bench.random_text(
        bench.tables(f"regex:{PATTERN}"), random, budget
    )
    assert has_ended
    assert re.fullmatch(PATTERN, text.decode())


TEXTS = st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1))


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4), TEXTS)
@example(["a", "abc"], "ab")
def test_a_choice_is_its_texts_and_no_other(choices: list[str], other: str):
    automaton = regular(any_of(choices))
    assert all(reads(automaton, choice) for choice in choices)
    assert reads(automaton, other) == (other in choices)


@pytest.mark.parametrize("pattern", ["a|abc", "a(bc)?", "a(bc)??", "a((bc)*?)"])
def test_the_whole_text_must_match_whatever_the_pattern_prefers(pattern: str):
    automaton = regular(pattern)
    assert [reads(automaton, text) for text in ("a", "ab", "abc")] == [
        True,
        False,
        True,
    ]


def _repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "+?"])
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})")
        | st.tuples(inner, counts).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    )


ATOMS = st.sampled_from(
    ["a", "b", "é", ".", "[ab]", "[^a]", r"\W", r"\.", "[^]b]", "[.a-]"]
)
SMALL_PATTERNS = st.recursive(ATOMS, _repeated, max_leaves=5)


@settings(max_examples=200, deadline=None)
@given(SMALL_PATTERNS, st.lists(st.text("abé.]\n", max_size=5), max_size=10))
@example(r"a.{0,40}b", ["ab", "a" * 42 + "b", "a" * 41 + "b"])
@example(r"[0-9]+(\.[0-9]+)?", ["1", "1.", "1.5"])
def test_patterns_match_what_they_match_in_python(pattern: str, texts: list[str]):
    automaton = regular(pattern)
    for text in texts:
        assert reads(automaton, text) == bool(re.fullmatch(pattern, text)), text


def test_a_literal_has_no_special_characters():
    assert reads(regular(literal(r".*[a]\n$^(|)? +é")), r".*[a]\n$^(|)? +é")


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "^a$", r"(a)\1", r"a\b"])
def test_what_cannot_be_compiled_is_refused_in_one_line(pattern: str):
    with pytest.raises(ValueError, match="cannot be compiled") as caught:
        regular(pattern)
    assert "\n" not in str(caught.value)
    assert "without anchors" in str(caught.value)


@pytest.mark.parametrize("pattern", ["(?s).", "(?i-u)a", "(?s:.)", "(?x)a"])
def test_flags_that_change_what_a_dot_is_are_refused(pattern: str):
    with pytest.raises(ValueError, match=r"flags .* not supported"):
        regular(pattern)


def test_other_flags_are_kept():
    assert reads(regular("(?i)ab"), "aB")
    assert reads(regular("(?P<sux>a)"), "a")


def test_classes_may_nest():
    automaton = regular(r"[[a-c]&&[^b]][\p{Greek}\]][[:digit:]]\pL")
    assert reads(automaton, "a]1b") and reads(automaton, "cα7é")
    assert not reads(automaton, "b]1b")


def test_a_pattern_that_nothing_matches_is_refused(bench: Bench):
    with pytest.raises(ValueError, match=r"\[a&&b\]"):
        bench.tables("regex:[a&&b]")


def test_a_pattern_of_too_many_states_is_refused(bench: Bench):
    with pytest.raises(ValueError, match="states, more than 16,384. Write a simpler"):
        bench.tables("regex:a{16384}")
