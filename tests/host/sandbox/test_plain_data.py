import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.sandbox.plain_data import (
    MAX_DEPTH,
    NotPlainDataError,
    TooMuchDataError,
    from_bytes,
    to_bytes,
)

LIMIT = 10**6
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary(),
    lambda items: st.tuples(items, items) | st.frozensets(items, max_size=3),
    max_leaves=5,
)
PLAIN = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=3),
    lambda items: (
        st.lists(items, max_size=3)
        | st.tuples(items)
        | st.dictionaries(HASHABLE, items, max_size=3)
    ),
    max_leaves=10,
)


def types_of(value: object) -> object:
    if isinstance(value, dict):
        return (dict, [(types_of(k), types_of(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value), [types_of(item) for item in value])
    return type(value)


@settings(max_examples=50, deadline=None)
@given(PLAIN)
def test_every_plain_value_crosses_unchanged(value: object):
    back = from_bytes(to_bytes(value, LIMIT))
    assert back == value
    assert types_of(back) == types_of(value)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=50) | st.text(max_size=50).map(str.encode))
def test_hostile_bytes_give_a_value_or_the_one_error(encoded: bytes):
    try:
        from_bytes(encoded)
    except NotPlainDataError:
        return


def test_not_a_number_crosses():
    back = from_bytes(to_bytes([math.nan, math.inf, -math.inf], LIMIT))
    assert repr(back) == "[nan, inf, -inf]"


def test_negative_zero_keeps_its_sign():
    assert repr(from_bytes(to_bytes(-0.0, LIMIT))) == "-0.0"


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"{}",
        b'{"t": 1}',
        b'{"t": [], "s": []}',
        b'{"i": 5}',
        b'{"i": "x"}',
        b'{"i": "' + b"f" * 10**6 + b'"}',
        b'{"f": "1"}',
        b'{"c": [1.0]}',
        b'{"c": ["a", 1.0]}',
        b'{"b": "zz"}',
        b'{"d": [[1]]}',
        b'{"d": [[[], 1]]}',
        b'{"s": [[]]}',
        b'{"unknown": 1}',
        b"NaN",
        b"1e999",
        b"9" * 5000,
        b"[" * 10**5,
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b'"\xff"',
    ],
    ids=lambda encoded: repr(encoded[:20]),
)
def test_what_encodes_no_value_is_refused(encoded: bytes):
    with pytest.raises(NotPlainDataError):
        from_bytes(encoded)


def test_nesting_up_to_the_limit_crosses():
    value: list = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert from_bytes(to_bytes(value, LIMIT)) == value


def test_nesting_beyond_the_limit_is_refused():
    value: list = []
    for _ in range(MAX_DEPTH):
        value = [value]
    with pytest.raises(NotPlainDataError, match="nested deeper than 100"):
        to_bytes(value, LIMIT)


def test_colliding_hashes_are_refused_fast():
    modulus = 2**61 - 1  # Of the hash of integers.
    with pytest.raises(NotPlainDataError, match="same hash"):
        from_bytes(
            to_bytes([i * modulus for i in range(100)], LIMIT).join([b'{"s": ', b"}"])
        )


def test_many_different_elements_are_fine():
    value = set(range(10000))
    assert from_bytes(to_bytes(value, LIMIT)) == value


def test_lists_that_refer_to_each_other_stop_at_the_limit():
    value: list = [0]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(TooMuchDataError):
        to_bytes(value, 10**4)


def test_instance_of_a_subclass_is_refused():
    class Sneaky(list):
        def __eq__(self, other: object) -> bool:
            return True

    with pytest.raises(NotPlainDataError, match="type Sneaky is not plain data"):
        to_bytes([Sneaky()], LIMIT)
