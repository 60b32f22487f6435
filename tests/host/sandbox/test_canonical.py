import collections
import datetime
import decimal
import fractions
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.sandbox.tracing.canonical import canonical

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5), inner, max_size=5)
        | st.sets(st.integers(), max_size=5)
    ),
    max_leaves=20,
)
Pair = collections.namedtuple("Pair", "a b")


class Slotted:
    __slots__ = ("left", "right")


@given(VALUES)
def test_text_of_plain_data_is_python(value: object):
    assert eval(canonical(value), {"inf": float("inf")}) == value


@given(VALUES)
def test_equal_values_have_equal_texts(value: object):
    copy = eval(repr(value), {"inf": float("inf")})
    assert canonical(copy) == canonical(value)


def test_order_of_sets_and_dictionaries_does_not_count():
    assert canonical({3, 1, 2}) == canonical({2, 3, 1}) == "{1, 2, 3}"
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (1, 1.0),
        (0.0, -0.0),
        ("1", 1),
        ([1], (1,)),
        ({1}, frozenset({1})),
        (b"a", "a"),
        ([1, 2], [2, 1]),
        (bytearray(b"a"), b"a"),
    ],
)
def test_values_that_differ_in_kind_have_other_texts(one: object, other: object):
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (collections.OrderedDict(b=1, a=2), "{'a': 2, 'b': 1}"),
        (collections.Counter("aab"), "{'a': 2, 'b': 1}"),
        (collections.deque([1, 2], 5), "deque(1, 2)"),
        (Pair(1, "x"), "(1, 'x')"),
        (range(1, 9, 2), "range(1, 9, 2)"),
        (fractions.Fraction(1, 3), "Fraction(1, 3)"),
        (decimal.Decimal("1.50"), "Decimal('1.50')"),
        (datetime.date(2024, 2, 29), "datetime.date(2024, 2, 29)"),
        (ValueError("a", 1), "ValueError('a', 1)"),
        (types.SimpleNamespace(b=1, a=[2]), "object(a=[2], b=1)"),
        (np.float64(1.5), "1.5"),
        (np.array([[1, 2], [3, 4]]), "array([[1, 2], [3, 4]])"),
        (float("nan"), "nan"),
        (Ellipsis, "Ellipsis"),
        (types, "<module>"),
    ],
    ids=str,
)
def test_texts_of_known_types(value: object, text: str):
    assert canonical(value) == text


@pytest.mark.parametrize(
    "value",
    [
        object(),
        iter([]),
        (i for i in ()),
        lambda: 0,
        print,
        [].append,
        Slotted,
        types,
        open,
        Slotted(),
        [object(), {1: lambda: 0}],
        memoryview(b"a"),
        type("T", (), {})(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_address_is_shown(value: object):
    assert "0x" not in canonical(value)
    assert hex(id(value))[2:] not in canonical(value)


def test_value_inside_itself_is_shown_once():
    value: list = [1]
    value.append(value)
    table: dict = {"a": 1}
    table["self"] = table
    assert canonical(value) == "[1, <itself>]"
    assert canonical(table) == "{'a': 1, 'self': <itself>}"


def test_value_that_is_there_twice_is_shown_twice():
    inner = [1]
    assert canonical([inner, inner]) == canonical([[1], [1]])


@pytest.mark.parametrize(
    "value",
    [
        "a" * 10**6,
        b"a" * 10**6,
        10**20000,
        list(range(10**5)),
        set(range(10**5)),
        {n: n for n in range(10**5)},
        np.arange(10**6),
        [[[[[[[[[[[[[[1]]]]]]]]]]]]]],
        [[i] * 40 for i in range(40)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_large_value_has_a_short_text(value: object):
    assert len(canonical(value)) < 16_000
    assert canonical(value) == canonical(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a" * 500 + "b", "a" * 501),
        (10**500, 10**500 + 1),
        ([0] * 999, [0] * 998 + [1]),
        ([0] * 999, [0] * 1000),
        ({*range(200)}, {*range(199), 777}),
        ({n: 0 for n in range(99)}, {n: int(n == 50) for n in range(99)}),
        ([0] * 2000, [0] * 1000 + [1] + [0] * 999),
        ([[0, 0]] * 99, [[0, 0]] * 70 + [[0, 1]] + [[0, 0]] * 28),
        (
            [[0] * 99] * 99,
            [[0] * 99] * 70 + [[0] * 60 + [1] + [0] * 38] + [[0] * 99] * 28,
        ),
        (
            [[[0] * 9] * 9] * 40,
            [[[0] * 9] * 9] * 39 + [[[0] * 9] * 8 + [[0] * 8 + [1]]],
        ),
        ([{"a": [0]}] * 99, [{"a": [0]}] * 98 + [{"a": [1]}]),
        ({n: [n] for n in range(400)}, {n: [n + (n == 399)] for n in range(400)}),
    ],
    ids=str,
)
def test_large_values_are_told_apart(one: object, other: object):
    assert canonical(one) != canonical(other)


def test_equal_numbers_have_equal_checksums():
    def checksum(value: list) -> str:
        return canonical(value).partition("checksum ")[2]

    assert checksum([0] * 99) == checksum([0.0] * 99) == checksum([False] * 99)
    assert checksum([*range(60), "a"]) == checksum([*map(float, range(60)), "a"])
    assert checksum([[0]] * 99) == checksum([[-0.0]] * 99)
    assert checksum([0.5, 1] * 50) != checksum([0, 1] * 50)


def test_what_is_left_out_of_a_large_set_does_not_depend_on_its_order():
    pairs = [(n, str(n)) for n in range(1500)]
    assert canonical({*pairs}) == canonical({*reversed(pairs)}) == "{<1500 in all>}"
    assert canonical({*pairs[:500]}) == canonical({*reversed(pairs[:500])})


def test_subclass_is_read_by_the_methods_of_its_base():
    class Lying(list):
        def __iter__(self):
            raise AssertionError("called")

        def __len__(self):
            raise AssertionError("called")

        def __repr__(self):
            raise AssertionError("called")

    class Odd(int):
        def __repr__(self):
            raise AssertionError("called")

    assert canonical(Lying([1, 2])) == "[1, 2]"
    assert canonical(Odd(7)) == "7"


def test_instances_of_the_programs_classes_are_shown_by_their_attributes():
    code = (
        "class A:\n    __slots__ = ('x',)\n    def __repr__(self): 1 / 0\n"
        "class B(A):\n    def __init__(self): self.x, self.y = 1, [2]\n"
        "    def __getattribute__(self, name): 1 / 0\n"
    )
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code, namespace)
    assert canonical(namespace["B"]()) == "object(x=1, y=[2])"
