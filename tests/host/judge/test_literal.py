import ast
import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.judge.literal import (
    EXACT,
    LITERAL_CLASSES,
    NOT_ONE_LITERAL,
    WRONG_REPR,
    WRONG_VALUE,
    judge_literal,
)
from jaxgrpo.host.judge.literal_values import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    NotALiteralError,
    is_same_value,
    read_literal,
    readings,
)


def class_of(text: str, reference: str) -> str:
    return judge_literal(text, reference).error_class


# The taxonomy, case by case.

TAXONOMY = [
    ("5", "5", EXACT),
    ("[1, 2]", "[1, 2]", EXACT),
    ("", "", EXACT),
    ("range(0, 3)", "range(0, 3)", EXACT),
    ("nan", "nan", EXACT),
    # Right value, spelled otherwise.
    (" 5", "5", WRONG_REPR),
    ("5\n", "5", WRONG_REPR),
    ("[1,2]", "[1, 2]", WRONG_REPR),
    ("[1, 2,]", "[1, 2]", WRONG_REPR),
    ("[\n 1,\n 2\n]", "[1, 2]", WRONG_REPR),
    ('"a"', "'a'", WRONG_REPR),
    ("'a' 'b'", "'ab'", WRONG_REPR),
    ("r'a'", "'a'", WRONG_REPR),
    ("'\\x41'", "'A'", WRONG_REPR),
    ("true", "True", WRONG_REPR),
    ("null", "None", WRONG_REPR),
    ('{"a": [true, null]}', "{'a': [True, None]}", WRONG_REPR),
    ("(1,true)", "(1, True)", WRONG_REPR),
    ("NaN", "nan", WRONG_REPR),
    ("[Infinity, -Infinity]", "[inf, -inf]", WRONG_REPR),
    ("1e400", "inf", WRONG_REPR),
    ("1.50", "1.5", WRONG_REPR),
    ("+5", "5", WRONG_REPR),
    ("(5)", "5", WRONG_REPR),
    ("0x10", "16", WRONG_REPR),
    ("1_000", "1000", WRONG_REPR),
    ("1, 2", "(1, 2)", WRONG_REPR),
    ("1,", "(1,)", WRONG_REPR),
    ("{2, 1}", "{1, 2}", WRONG_REPR),
    ("{'b': 2, 'a': 1}", "{'a': 1, 'b': 2}", WRONG_REPR),
    ("frozenset({2, 1})", "frozenset({1, 2})", WRONG_REPR),
    ("set( )", "set()", WRONG_REPR),
    ("1+2j", "(1+2j)", WRONG_REPR),
    ('"\\ud83d\\ude00"', "'\U0001f600'", WRONG_REPR),
    # Another value, or another type.
    ("6", "5", WRONG_VALUE),
    ("True", "1", WRONG_VALUE),
    ("1", "True", WRONG_VALUE),
    ("true", "1", WRONG_VALUE),
    ("1.0", "1", WRONG_VALUE),
    ("-0.0", "0.0", WRONG_VALUE),
    ("'5'", "5", WRONG_VALUE),
    ("b'a'", "'a'", WRONG_VALUE),
    ("[1, 2]", "(1, 2)", WRONG_VALUE),
    ("[2, 1]", "[1, 2]", WRONG_VALUE),
    ("[(1, True)]", "[(1, 1)]", WRONG_VALUE),
    ("{(1, True)}", "{(1, 1)}", WRONG_VALUE),
    ("{1: 'a'}", "{True: 'a'}", WRONG_VALUE),
    ("{1, 2}", "frozenset({1, 2})", WRONG_VALUE),
    ("{}", "set()", WRONG_VALUE),
    ("{nan}", "{nan, nan}", WRONG_VALUE),
    ("nan", "5", WRONG_VALUE),
    ("false", "True", WRONG_VALUE),
    ("[0, 1, 2]", "range(0, 3)", WRONG_VALUE),
    # Anything else.
    ("", "5", NOT_ONE_LITERAL),
    ("The answer is 5", "5", NOT_ONE_LITERAL),
    ("5.", "5.0", WRONG_REPR),
    ("5 is the answer", "5", NOT_ONE_LITERAL),
    ("5 # because", "5", NOT_ONE_LITERAL),
    ("5\n5", "5", NOT_ONE_LITERAL),
    ("5 5", "5", NOT_ONE_LITERAL),
    ("= 5", "5", NOT_ONE_LITERAL),
    ("`5`", "5", NOT_ONE_LITERAL),
    ("```\n5\n```", "5", NOT_ONE_LITERAL),
    ("2 + 3", "5", NOT_ONE_LITERAL),
    ("--5", "5", NOT_ONE_LITERAL),
    ("not True", "False", NOT_ONE_LITERAL),
    ("007", "7", NOT_ONE_LITERAL),
    ("5a", "5", NOT_ONE_LITERAL),
    ("hello", "'hello'", NOT_ONE_LITERAL),
    ("'hello", "'hello'", NOT_ONE_LITERAL),
    ("[1, 2", "[1, 2]", NOT_ONE_LITERAL),
    ("[1 2]", "[1, 2]", NOT_ONE_LITERAL),
    ("1]", "[1]", NOT_ONE_LITERAL),
    ("(1]", "[1]", NOT_ONE_LITERAL),
    ("[,]", "[]", NOT_ONE_LITERAL),
    ("{1: 2, 3}", "{1: 2}", NOT_ONE_LITERAL),
    ("{1, 2: 3}", "{1, 2}", NOT_ONE_LITERAL),
    ("{[1]}", "{1}", NOT_ONE_LITERAL),
    ("set([1])", "{1}", NOT_ONE_LITERAL),
    ("list()", "[]", NOT_ONE_LITERAL),
    ("f'{1}'", "'1'", NOT_ONE_LITERAL),
    ("'a' b'b'", "'ab'", NOT_ONE_LITERAL),
    ("'''a'''", "'a'", NOT_ONE_LITERAL),
    ("...", "Ellipsis", NOT_ONE_LITERAL),
    ("\uff15", "5", NOT_ONE_LITERAL),
    ("[x for x in (1, 2)]", "[1, 2]", NOT_ONE_LITERAL),
]


@pytest.mark.parametrize(("text", "reference", "expected"), TAXONOMY)
def test_taxonomy(text: str, reference: str, expected: str):
    assert class_of(text, reference) == expected


@pytest.mark.parametrize("error_class", LITERAL_CLASSES)
def test_only_the_exact_text_is_right(error_class: str):
    text, reference, _ = next(case for case in TAXONOMY if case[2] == error_class)
    verdict = judge_literal(text, reference)
    assert verdict.is_correct == (error_class == EXACT)
    assert verdict.status == ("OK" if error_class == EXACT else "WA")
    assert (verdict.num_passed, verdict.num_tests) == (int(error_class == EXACT), 1)


# Laws.

FINITE_COMPLEX = st.complex_numbers(allow_nan=False, allow_infinity=False)
NUMBERS = st.integers() | st.floats() | FINITE_COMPLEX
ATOMS = st.none() | st.booleans() | NUMBERS | st.text() | st.binary()
HASHABLE = st.recursive(
    ATOMS,
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
VALUES = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=12,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_repr_is_exact_and_reads_as_itself(value: object):
    assert class_of(repr(value), repr(value)) == EXACT
    assert class_of(f" {value!r}", repr(value)) == WRONG_REPR


@given(JSON_VALUES)
@settings(max_examples=200, deadline=None)
def test_json_spelling_has_the_right_value(value: object):
    text = json.dumps(value)
    assert class_of(text, repr(value)) == (EXACT if text == repr(value) else WRONG_REPR)


@given(JSON_VALUES)
@settings(max_examples=100, deadline=None)
def test_compact_spelling_has_the_right_value(value: object):
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert class_of(text, repr(value)) == (EXACT if text == repr(value) else WRONG_REPR)


@given(st.text().filter(lambda text: "'" not in text and '"' not in text))
def test_other_quotes_have_the_right_value(text: str):
    assert class_of(f'"{repr(text)[1:-1]}"', repr(text)) == WRONG_REPR


@given(VALUES, st.sampled_from([0, 1, True, 1.0, "", None, -0.0]))
@settings(max_examples=100, deadline=None)
def test_altered_value_is_wrong(value: object, extra: object):
    altered = [value, extra]
    assert class_of(repr(altered), repr([value])) == WRONG_VALUE
    assert class_of(repr(value), repr(altered)) == WRONG_VALUE
    assert class_of(repr([value, [extra]]), repr(altered)) == WRONG_VALUE


@given(VALUES, st.sampled_from(["Answer: {}", "{} is it", "{}\n{}", "# {}", "{}#"]))
@settings(max_examples=100, deadline=None)
def test_words_around_a_literal_make_it_none(value: object, frame: str):
    assert class_of(frame.format(*[repr(value)] * 2), repr(value)) == NOT_ONE_LITERAL


@given(st.text(alphabet="0123456789.eExj_+-,:'\"[](){} \nabnrTrue", max_size=16))
@settings(max_examples=1000, deadline=None)
@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
def test_reads_what_python_reads(text: str):
    try:
        expected = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return
    if '"""' in text or "'''" in text or "\n" in text.strip():
        return  # beyond what is read here
    if "Ellipsis" in repr(expected):
        return  # no plain value; no `repr` is written `...`
    assert is_same_value(read_literal(text), expected)


def test_three_dots_are_no_literal():
    assert class_of("...", "Ellipsis") == NOT_ONE_LITERAL


@given(VALUES)
@settings(max_examples=100, deadline=None)
def test_value_is_the_same_as_itself(value: object):
    assert is_same_value(value, read_literal(repr(value)))


def test_nan_is_nan_and_zeros_differ():
    assert is_same_value([math.nan], [float("nan")])
    assert not is_same_value(0.0, -0.0)


# Hostile text: no crash, no time, no class above "wrong value".

HOSTILE = {
    "open brackets": "[" * MAX_CHARACTERS,
    "nested beyond the bound": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "long past the bound": "[" + "1," * MAX_CHARACTERS + "]",
    "minus signs": "-" * (MAX_CHARACTERS - 1) + "1",
    "long sum": "1+" * (MAX_CHARACTERS // 2 - 1) + "1",
    "long integer": "9" * MAX_CHARACTERS,
    "long float": "1." + "0" * (MAX_CHARACTERS - 2),
    "million digits": "9" * 1_000_000,
    "power": "10**9**9",
    "product": "'a' * 10**9",
    "list of brackets": "[" + "[]," * (MAX_CHARACTERS // 3 - 1) + "]",
    "quotes": "'" * MAX_CHARACTERS,
    "backslashes": "'" + "\\" * (MAX_CHARACTERS - 2) + "'",
    "escapes": "[" + "'\\d'," * (MAX_CHARACTERS // 6) + "]",
    "bad escape": "'\\x1'",
    "unknown character name": "'\\N{NO SUCH NAME}'",
    "open string": "'" + "a" * (MAX_CHARACTERS - 1),
    "NUL": "\0",
    "NUL in a string": "'\0'",
    "lone surrogate": "'\ud800'",
    "lone surrogate outside": "\ud800",
    "overflowing float": "1e400",
    "overflowing complex": "9" * 400 + "+1j",
    "underscores": "1_" * (MAX_CHARACTERS // 2),
    "colliding hashes": (
        "{" + ",".join(hex(n * (2**61 - 1)) for n in range(1, 900)) + "}"
    ),
    "call": "__import__('os').system('true')",
    "attribute": "().__class__",
    "lambda": "lambda: 0",
    "byte order mark": "\ufeff5",
    "right to left": "\u202e5",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_gains_nothing_and_costs_little(name: str):
    started_s = time.thread_time()
    verdict = judge_literal(HOSTILE[name], "5")
    assert verdict.error_class in (NOT_ONE_LITERAL, WRONG_VALUE)
    # Attacks of this kind take minutes, or for ever, where they work.
    assert time.thread_time() - started_s < 10.0


def test_depth_up_to_the_bound_is_read():
    assert readings("[" * MAX_DEPTH + "]" * MAX_DEPTH)


def test_number_beyond_the_digits_that_python_converts_is_refused():
    with pytest.raises(NotALiteralError, match="4300"):
        read_literal("9" * 5000)


def test_huge_reference_still_has_its_exact_text():
    reference = repr(list(range(20_000)))
    assert class_of(reference, reference) == EXACT
    assert class_of("[1]", reference) == WRONG_VALUE
