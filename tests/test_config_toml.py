"""The TOML writer against the standard library's reader."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.config_toml import toml_document, toml_value

# TOML is UTF-8, and the reader takes \r\n for \n outside of strings only.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_document_reads_back_equal(data: dict[str, Any]):
    assert tomllib.loads(toml_document(data)) == data


@given(VALUES)
def test_value_reads_back_equal(value: Any):
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


def test_keys_of_a_table_stand_before_its_subtables():
    text = toml_document({"a": {"below": {"x": 1}, "y": 2}})
    assert text.index("y = 2") < text.index("[a.below]")


@pytest.mark.parametrize("value", [None, {1, 2}, b"x"])
def test_value_without_a_toml_form_is_refused(value: object):
    with pytest.raises(ValueError, match="has no TOML form"):
        toml_value(value)
