import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.judge.comparators import (
    DEFAULTS,
    TEXT_COMPARATORS,
    VALUE_COMPARATORS,
    Kind,
    comparator,
)
from jaxgrpo.host.judge.comparators.values import canonical_text


def matches(kind: Kind, name: str, expected: object, actual: object) -> bool:
    return comparator(kind, name)(expected, actual).is_match


# Printed output


@pytest.mark.parametrize(
    ("name", "expected", "actual", "is_match"),
    [
        # Blanks at line ends and lines at the end are not seen.
        ("exact", "a b\n", "a b \n\n\n", True),
        ("exact", "a b", "a  b", False),
        ("exact", "a", " a", False),
        ("exact", "a\nb", "a\n\nb", False),
        ("exact", "", "\n \n", True),
        ("exact", "a", "", False),
        ("tokens", "1 2\n3", "1   2\n 3", True),
        ("tokens", "1 2\n3", "1 2 3", False),
        ("tokens", "a\nb", "a\n\nb", False),
        ("tokens", "a\nb", "\na\nb", False),
        ("tokens", "a b", "a\u00a0b", False),
        ("tokens", "a\u2028b", "a\nb", False),
        ("tokens", "YES", "Yes", False),
        # Numbers are text unless `float` is asked for.
        ("tokens", "1000", "1_000", False),
        ("tokens", "1", "\u0661", False),
        ("tokens", "0", "-0", False),
        ("tokens", "1000", "1e3", False),
        ("tokens", "0.5", "0.50", False),
        ("float", "0.3333333333", "0.333333333", True),
        ("float", "0.5", ".5", True),
        ("float", "1e3", "1000", True),
        ("float", "1.0", "1", True),
        ("float", "3.0", "3.00001", False),
        ("float", "1", "1.0", False),
        ("float", "1000000", "1000009", False),
        ("float", "12345678901234567890", "12345678901234567891", False),
        ("float", "0.5", "0.5 0.5", False),
        ("float", "0.5\n", "0.5\nx", False),
        ("float", "1.5", "\u0661.5", False),
        ("float", "1.5", "1_0.5", False),
        ("float", "1.5", "nan", False),
        ("float", "nan", "nan", True),
        ("float", "inf", "1e999", False),
        ("float", "1e999", "2e999", False),
        ("float", "x.5", "x.50", False),
        ("float(rel=0.1)", "10.0", "10.9", True),
        ("float(abs=0, rel=0)", "1.0", "1.0000001", False),
        ("unordered_lines", "1 2\n3\n3", "3\n1  2\n3", True),
        ("unordered_lines", "1\n1\n2", "1\n2\n2", False),
        ("unordered_lines", "1 2", "2 1", False),
        ("unordered_tokens", "1 2\n3", "2 1\n3", True),
        ("unordered_tokens", "1 2\n3", "3\n1 2", False),
        ("unordered_tokens", "1 1 2", "1 2 2", False),
    ],
)
def test_printed_output(name: str, expected: str, actual: str, is_match: bool):
    assert matches("stdin", name, expected, actual) == is_match


# Values

VALUES = [
    # name, expected, actual, whether they match
    ("exact", [1, (2, "a")], [1, (2, "a")], True),
    ("exact", [1, 2], (1, 2), False),
    ("exact", 1, True, False),
    ("exact", 1.0, 1, False),
    ("exact", math.nan, math.nan, True),
    ("exact", 0.0, -0.0, False),
    ("python", 1, True, True),
    ("python", 1, 1.0, True),
    ("python", [1, 2], (1, 2), False),
    ("python", math.nan, float("nan"), False),
    ("python", 0.3, 0.1 + 0.2, False),
    ("value", [(1, 2)], ([1, 2],), True),
    ("value", {"a": (1,)}, {"a": [1]}, True),
    ("value", True, 1, False),
    ("value", 1, True, False),
    ("value", [1], [True], False),
    ("value", 2.0, 2, True),
    ("value", 2, 2.0, False),
    ("value", 0.3, 0.1 + 0.2, False),
    ("value", 0.0, -0.0, True),
    ("value", math.nan, math.nan, True),
    ("value", math.inf, math.inf, True),
    ("value", math.inf, -math.inf, False),
    ("value", {1, 2}, {2, 1}, True),
    ("value", {1}, frozenset({1}), True),
    ("value", {1, 2}, [1, 2], False),
    ("value", [1, 2], {1, 2}, False),
    ("value", {1}, {True}, False),
    ("value", {1: 2}, {True: 2}, False),
    ("value", {"1": 2}, {1: 2}, False),
    ("value", {"a": 1}, {"a": 1, "b": 2}, False),
    ("value", {"a": 1, "b": 2}, {"a": 1}, False),
    ("value", [1], [1, 1], False),
    ("value", "1", 1, False),
    ("value", "a", b"a", False),
    ("value", None, False, False),
    ("value", None, None, True),
    ("value", 1.0, True, False),
    ("value", 1.0, 10**400, False),
    ("value", 1 + 0j, 1.0, True),
    ("float", 0.3, 0.1 + 0.2, True),
    ("float", [0.5, [1.0]], (0.5000001, (1,)), True),
    ("float", 1.0, 1.1, False),
    ("float", 10**9, 10**9 + 1, False),
    ("float", 1.0, 10**400, False),
    ("float", math.nan, 1.0, False),
    ("float", math.inf, 1e308, False),
    ("float", 1 + 1j, 1 + 1.0000001j, True),
    ("float", {"a": 0.1}, {"a": 0.1000000001}, True),
    ("float(rel=0, abs=0.5)", 1.0, 1.4, True),
    ("unordered", [3, 1, 1], (1, 3, 1), True),
    ("unordered", [1, 1, 2], [1, 2, 2], False),
    ("unordered", [[1, 2]], [[2, 1]], False),
    ("unordered", [(1, 2), (3,)], [[3], [1, 2]], True),
    ("unordered", [{"a": [1]}, 2], (2, {"a": (1,)}), True),
    ("unordered", [0.0], [-0.0], True),
    ("unordered", [1], [1.0], False),
    ("unordered", [1], [True], False),
    ("unordered", [1], {1}, False),
    ("unordered", 5, 5, True),
]


@pytest.mark.parametrize(("name", "expected", "actual", "is_match"), VALUES, ids=repr)
def test_values(name: str, expected: object, actual: object, is_match: bool):
    assert matches("call", name, expected, actual) == is_match


def test_unordered_is_quick_on_numbers_whose_hashes_collide():
    crowd = [i * (2**61 - 1) for i in range(1, 20_000)]
    assert matches("call", "unordered", crowd, crowd[::-1])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(max_size=2), max_size=3).map(set)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_every_value_matches_itself(value: object):
    for name in ("exact", "value", "float", "unordered", "microcoder"):
        assert matches("call", name, value, value), name


@given(PLAIN, PLAIN)
def test_rules_grow_looser_in_order(first: object, second: object):
    for strict, loose in (("exact", "value"), ("value", "float")):
        if matches("call", strict, first, second):
            assert matches("call", loose, first, second)


@given(PLAIN, PLAIN)
def test_canonical_text_tells_values_apart(first: object, second: object):
    if canonical_text(first) == canonical_text(second):
        assert matches("call", "value", first, second)


@given(st.text(max_size=30), st.text(max_size=30))
def test_rules_for_text_grow_looser_in_order(first: str, second: str):
    order = [("exact", "tokens"), ("tokens", "float"), ("tokens", "unordered_lines")]
    for strict, loose in order:
        if matches("stdin", strict, first, second):
            assert matches("stdin", loose, first, second)


# The ladder


@pytest.mark.parametrize(
    ("expected", "actual", "rung"),
    [
        ("1 2\n", "1 2", "exact"),
        ("a\nb", "\n a\n\n  b", "lines"),
        ("1 2", "1\n2", "tokens"),
        ("[1, 2]", "(1,2)", "literal"),
        ("0.3", "0.30000001", "close"),
        ("[0.3, 1]", "[0.30000001,1.0]", "close"),
        ("0.01", "0.0100004", "rounded"),
        ("a\nb", "b\na", ""),
        ("1", "2", ""),
        ("nan", "x", ""),
    ],
)
def test_ladder_says_which_rung_matched(expected: str, actual: str, rung: str):
    match = comparator("stdin", "microcoder")(expected, actual)
    assert (match.is_match, match.rung) == (bool(rung), rung)


@pytest.mark.parametrize(
    ("expected", "actual", "rung"),
    [
        ([1, (2,)], [1, (2,)], "exact"),
        (1, True, "equal"),
        ([1, 2], (1, 2), "sequences"),
        ({1, 2}, [1, 2], "sequences"),
        ([0.3], [0.30000001], "close"),
        (3, 3.00000001, "close"),
        (0.01, 0.0100004, "rounded"),
        ([1, 2], [2, 1], ""),
        ([1, 2], None, ""),
        ("a", 1, ""),
    ],
)
def test_ladder_of_values_says_which_rung_matched(
    expected: object, actual: object, rung: str
):
    match = comparator("call", "microcoder")(expected, actual)
    assert (match.is_match, match.rung) == (bool(rung), rung)


def test_order_is_free_on_the_ladder_only_on_request():
    name = "microcoder(unordered=true)"
    assert comparator("stdin", name)("a\nb", "b\na").rung == "unordered"
    assert comparator("call", name)([1, 2], [2, 1]).rung == "unordered"
    # As often as it occurs: a set would not see this.
    assert not comparator("stdin", name)("a\na\nb", "a\nb\nb").is_match
    assert not comparator("call", name)([1, 1, 2], [1, 2, 2]).is_match


# Names


@pytest.mark.parametrize("kind", DEFAULTS)
def test_default_is_a_comparator_of_the_kind(kind: Kind):
    known = TEXT_COMPARATORS if kind == "stdin" else VALUE_COMPARATORS
    assert DEFAULTS[kind] in known
    assert comparator(kind, "default")("1", "1").is_match


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("call", "flaot", "Did you mean 'float'?"),
        ("call", "tokens", "There are: exact, python, value"),
        ("stdin", "value", "There are: exact, tokens, float"),
        ("stdin", "float(digits=3)", "has no option 'digits=3'. Its options: rel, abs"),
        ("stdin", "tokens(rel=1)", "Its options: none"),
        ("stdin", "float(rel)", "has no option 'rel'"),
        ("stdin", "float(rel=-1)", "Write a number >= 0"),
        ("stdin", "float(rel=nan)", "Write a number >= 0"),
        ("stdin", "float(rel=1e999)", "Write a number >= 0"),
        ("stdin", "float(rel=true)", "Write a number >= 0"),
        ("call", "microcoder(digits=1.5)", "Write a number >= 0"),
        ("call", "microcoder(unordered=1)", "Write true or false"),
        ("call", "float(", "Write it like tokens or float"),
        ("call", "", "Write it like tokens or float"),
    ],
)
def test_wrong_name_is_refused(kind: Kind, name: str, message: str):
    with pytest.raises(ValueError) as caught:
        comparator(kind, name)
    assert message in str(caught.value)
