"""Stop strings are found wherever tokens cut them, and texts end before them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.stop_strings import StopStrings

PIECES = [b"a", b"b", b"ab", b"ba", b"aab", b"", "é".encode()[:1], "é".encode()[1:]]


def first_end_slowly(texts: list[str], token_ids: list[int]) -> int | None:
    """Tokens up to the first whose end completes one of the texts."""
    for count in range(1, len(token_ids) + 1):
        written = b"".join(PIECES[token_id] for token_id in token_ids[:count])
        if any(text.encode() in written for text in texts):
            return count
    return None


@given(
    texts=st.lists(st.text("abé", min_size=1, max_size=4), min_size=1, max_size=3),
    token_ids=st.lists(st.integers(0, len(PIECES) - 1), max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
def test_the_first_completing_token_is_found_however_tokens_come(
    texts: list[str], token_ids: list[int], cuts: list[int]
):
    stop = StopStrings(texts, PIECES)
    bounds = sorted({0, len(token_ids), *(min(cut, len(token_ids)) for cut in cuts)})
    carried, found = b"", None
    for start, end in zip(bounds, bounds[1:], strict=False):
        count, carried = stop.first_end(carried, token_ids[start:end])
        if count is not None:
            found = start + count
            break
    assert found == first_end_slowly(texts, token_ids)


def test_nothing_longer_than_needed_is_carried():
    stop = StopStrings(["abc", "de"], [b"x" * 50])
    assert stop.first_end(b"", [0, 0]) == (None, b"xx")
    assert StopStrings(["x"], [b"y"]).first_end(b"", [0]) == (None, b"")


def test_the_text_ends_before_the_earliest_stop_and_tokens_stay_aligned():
    stop = StopStrings(["ND", "END"], [])
    offsets = np.array([[0, 1], [1, 3], [3, 5], [5, 5]])
    text, trimmed = stop.trimmed("abEND", offsets)
    assert text == "ab"
    assert trimmed.tolist() == [[0, 1], [1, 2], [2, 2], [2, 2]]


@pytest.mark.parametrize("texts", [[], ["a", ""]])
def test_no_text_and_empty_texts_are_refused(texts: list[str]):
    with pytest.raises(ValueError, match="Give at least one, and no empty one"):
        StopStrings(texts, PIECES)
