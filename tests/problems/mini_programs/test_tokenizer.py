import os
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import jaxgrpo
from jaxgrpo.problems.mini_programs.generator import drafts
from jaxgrpo.problems.mini_programs.tokenizer import PIECES, write_tokenizer

SHIPPED = Path(jaxgrpo.__file__).parent / "assets" / "mini_programs_tokenizer"


@cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(SHIPPED)


def encoded(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False)


def pieces_of(text: str) -> list[str]:
    return [tokenizer().decode([token]) for token in encoded(text)]


def test_shipped_files_are_what_the_code_writes(tmp_path):
    write_tokenizer(tmp_path)
    names = sorted(os.listdir(tmp_path))
    assert names == sorted(os.listdir(SHIPPED))
    for name in names:
        assert (tmp_path / name).read_bytes() == (SHIPPED / name).read_bytes()


def test_pieces_are_distinct_and_longer_than_a_byte():
    assert len(set(PIECES)) == len(PIECES)
    assert all(len(piece) > 1 and piece.isascii() for piece in PIECES)


@settings(deadline=None)  # the first example loads the tokenizer
@given(st.text())
def test_every_text_comes_back(text):
    assert tokenizer().decode(encoded(text)) == text


def test_problems_are_short():
    for draft in drafts(0, 0, 200):
        assert len(encoded(draft.prompt)) <= 40
        for source in (draft.reference, draft.idiomatic, draft.careless):
            assert tokenizer().decode(encoded(source)) == source
            assert len(encoded(source)) < 56


def test_no_token_reaches_over_the_end_of_a_statement():
    for draft in drafts(0, 0, 200):
        for piece in pieces_of(draft.reference):
            assert "\n" not in piece[1:]


def test_values_stay_single_characters():
    assert pieces_of("def f(xs):\n    return [x * 10 for x in xs]") == [
        "def f(", "xs", "):", "\n    return", " [", "x", " *", " 1", "0", " for x in",
        " xs", "]",
    ]  # fmt: skip
