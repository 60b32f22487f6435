"""Records survive a checkpoint's JSON bit for bit."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.plain_records import from_plain, to_plain
from jaxgrpo.host.records import Problem, Score, Span, Test, Verdict

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


def again(value):
    return from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))


def same(one, other) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    if isinstance(one, list | tuple):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(map(same, one, other))
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    return type(one) is type(other) and one == other


@given(values)
def test_plain_data_comes_back_as_it_was(value):
    assert same(again(value), value)


@pytest.mark.parametrize("shape", [(3, 2), (0, 2), (), (2, 1, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "float64"])
def test_arrays_come_back_bit_for_bit(dtype, shape):
    array = np.asarray(np.random.default_rng(0).normal(size=shape) * 5).astype(dtype)
    found = again(array)
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.tobytes() == array.tobytes()


def test_records_come_back_with_all_that_they_hold():
    test = Test(kind="call", function="f", arguments=((1, math.inf), {2: "x"}))
    problem = Problem(
        id="p", kind="call", prompt="", reference="", tests=(test,), tags={"a": "b"}
    )
    score = Score(
        rewards={"exact": 0.1 + 0.2},
        verdict=Verdict(status="OK", error_class="passed"),
        spans=(Span(start=0, end=1, label="x"),),
    )
    assert again((problem, score)) == (problem, score)
    abstaining = again(replace(score, rewards={"exact": math.nan}))
    assert math.isnan(abstaining.rewards["exact"])


def test_what_cannot_be_kept_is_named():
    with pytest.raises(TypeError, match="a set cannot be kept"):
        to_plain({"x": {1}})
    with pytest.raises(ValueError, match="'Martian', which this version"):
        from_plain({"$": "Martian", "fields": {}})
