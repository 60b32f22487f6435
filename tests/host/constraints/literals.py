"""Values for tests of nested grammars, and how deep their brackets nest."""

from typing import Any

from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.complex_numbers(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.characters(categories=["Cs", "Cn", "Cc", "Co"]).map(lambda c: f"'{c}\"")
    | st.binary()
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.lists(inner).map(tuple), max_leaves=5)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(HASHABLE)
        | st.dictionaries(HASHABLE, inner)
    )


VALUES = st.recursive(HASHABLE, _around, max_leaves=8)

JSON_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.characters(categories=["Cs", "Cc", "Co"])
)
JSON_VALUES = st.recursive(
    JSON_SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
