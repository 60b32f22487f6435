import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxgrpo
from jaxgrpo.problems.output_prediction.notation import foreign_notation
from jaxgrpo.problems.output_prediction.tokenizer import PIECES, write_tokenizer

SHIPPED = Path(jaxgrpo.__file__).parent / "assets" / "output_prediction_tokenizer"


@cache
def tokenizer(folder: Path = SHIPPED) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


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


def test_ids_fill_the_vocabulary_without_holes():
    ids = sorted(tokenizer().get_vocab().values())
    assert ids == list(range(len(tokenizer())))
    assert len(ids) == 256 + len(PIECES) + 9 <= 1024


def test_special_tokens_are_qwens():
    special = tokenizer().special_tokens_map
    assert special["eos_token"] == "<|im_end|>"
    assert special["pad_token"] == "<|endoftext|>"
    assert "bos_token" not in special and "unk_token" not in special
    assert len(encoded("<|im_start|><|im_end|><think></think>")) == 4
    assert tokenizer().decode(encoded("a<|im_end|>"), skip_special_tokens=True) == "a"


@given(st.text())
def test_every_text_comes_back(text):
    assert tokenizer().decode(encoded(text)) == text


@pytest.mark.parametrize("plane", range(17))
def test_every_plane_of_unicode_comes_back(plane):
    points = [*range(0x100), *range(0xFF00, 0x10000, 7)]
    codes = [plane * 0x10000 + point for point in points]
    text = "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
    assert tokenizer().decode(encoded(text)) == text


def test_every_byte_has_a_token():
    text = bytes(range(256)).decode("latin-1") + "\r\n\t\x00"
    assert tokenizer().decode(encoded(text)) == text
    assert {len(encoded(chr(byte))) for byte in range(128)} == {1}


def test_longest_piece_wins_and_values_stay_characters():
    code = "def f(x):\n return x[::-1]\nf(['ab', 'c'])"
    assert pieces_of(code) == [
        "def f(", "x", "):\n return ", "x", "[::-1]", "\nf(", "['", "a", "b", "', '",
        "c", "']", ")",
    ]  # fmt: skip
    assert pieces_of("[10, -2]") == ["[", "1", "0", ", ", "-", "2", "]"]


def test_offsets_cover_the_text():
    text = " return é['a', 12] \n"
    offsets = tokenizer()(text, return_offsets_mapping=True)["offset_mapping"]
    assert offsets[0][0] == 0 and offsets[-1][1] == len(text)
    covered = {index for start, end in offsets for index in range(start, end)}
    assert covered == set(range(len(text)))


def test_loads_the_same_beside_the_config_of_a_model(tmp_path):
    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    text = "def f(x):\n for i in x:\n  x += é\n"
    again = tokenizer(tmp_path).encode(text, add_special_tokens=False)
    assert again == encoded(text)


CHAT = [{"role": "user", "content": "f(1)"}]
OPENED = ["<|im_start|>", "user\n", "f", "(", "1", ")", "<|im_end|>", "\n"]
ANSWER = ["<|im_start|>", "assistant\n"]


def chat_pieces(messages: list[dict[str, str]], **options: Any) -> list[str]:
    tokens = tokenizer().apply_chat_template(messages, return_dict=False, **options)
    return [tokenizer().decode([token]) for token in tokens]


def test_chat_template_with_thinking():
    expected = [*OPENED, *ANSWER]
    assert chat_pieces(CHAT, add_generation_prompt=True) == expected
    thinking = chat_pieces(CHAT, add_generation_prompt=True, enable_thinking=True)
    assert thinking == expected


def test_chat_template_without_thinking():
    pieces = chat_pieces(CHAT, add_generation_prompt=True, enable_thinking=False)
    assert pieces == [*OPENED, *ANSWER, "<think>", "\n\n", "</think>", "\n\n"]


def test_chat_template_with_system_and_history():
    messages = [
        {"role": "system", "content": "x"},
        *CHAT,
        {"role": "assistant", "content": "<think>\ny\n</think>\n\n2"},
    ]
    assert chat_pieces(messages) == [
        "<|im_start|>", "system\n", "x", "<|im_end|>", "\n",
        *OPENED, *ANSWER, "2", "<|im_end|>", "\n",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([{"role": "tool", "content": ""}], "Unknown role: tool"),
        ([*CHAT, {"role": "system", "content": ""}], "must come first"),
    ],
)
def test_chat_template_refuses_what_it_does_not_know(messages, reason):
    from jinja2 import TemplateError

    with pytest.raises(TemplateError, match=reason):
        chat_pieces(messages)


def test_problems_and_answers_fit_the_quickstart(load_split):
    for problem in load_split("train"):
        content = [{"role": "user", "content": problem.prompt}]
        prompt = chat_pieces(content, add_generation_prompt=True, enable_thinking=False)
        assert len(prompt) <= 96
        answer_tokens = len(encoded(problem.reference))
        foreign = foreign_notation(problem.reference, problem.id, 1.0)
        assert answer_tokens + 1 <= 23
        assert len(encoded(foreign)) <= answer_tokens + 1
