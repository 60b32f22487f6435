import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.decoding import decode_completion
from jaxgrpo.host.prompts import (
    Example,
    PromptStyle,
    encode_prompt,
    ends_in_thought,
    eos_token_ids,
    load_tokenizer,
    prompt_notes,
    split_by_length,
    stable_hash,
)
from jaxgrpo.host.records import Problem, Prompt

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
CORPUS = [
    "def f(x): return x + 1",
    f"caf\u00e9 {FAMILY} \U0001f600\U0001f601 e\u0301 \u0915\u093f \ud55c\uae00",
    "a\u0323\u0307 \u2028 \u200f \u00a0",
] * 20
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Spelled as text; the last but one is also how the vocabulary writes one byte.
PLAIN_ADDED = ["<think>", "</think>", " two words ", "\u00e8", "\u20ac5"]
TEMPLATE = """
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""
PROBLEM = Problem(
    id="p", kind="output", prompt="f(1)", reference="2", hints=("Add.", "Add one.")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small byte-level tokenizer with a template as Qwen3's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=["<|im_start|>"],
        chat_template=TEMPLATE,
        # A limit that must not shorten any prompt.
        model_max_length=4,
    )
    fast.add_tokens(PLAIN_ADDED)
    folder = tmp_path_factory.mktemp("tokenizer")
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return load_tokenizer(folder)


def prompt_of(length: int) -> Prompt:
    return Prompt(problem_id=str(length), text="", token_ids=np.zeros(length, np.int32))


# Loading.


def test_folder_without_a_tokenizer_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no tokenizer\.json in .*Give a folder"):
        load_tokenizer(tmp_path)


def test_loading_is_silent_and_loads_no_jax(folder: Path):
    code = f"""if True:
        import sys
        from jaxgrpo.host.prompts import load_tokenizer
        print(load_tokenizer({str(folder)!r}).eos_token, "jax" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        env={"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "<|im_end|> False\n"
    assert done.stderr == ""


# Ends of a completion.


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ([7, 5], (7, 5)),
        (7, (7,)),
        (None, ()),
    ],
)
def test_every_declared_end_is_honoured(
    tokenizer: Any, tmp_path: Path, declared: object, expected: tuple[int, ...]
):
    content = json.dumps({"eos_token_id": declared})
    (tmp_path / "generation_config.json").write_text(content)
    own = tokenizer.eos_token_id
    assert eos_token_ids(tmp_path, tokenizer) == (*expected, own)


def test_config_declares_the_ends_where_no_generation_config_does(
    tokenizer: Any, tmp_path: Path
):
    (tmp_path / "config.json").write_text('{"eos_token_id": [7, 5]}')
    own = tokenizer.eos_token_id
    assert eos_token_ids(tmp_path, tokenizer) == (7, 5, own)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 9}')
    assert eos_token_ids(tmp_path, tokenizer) == (9, own)


def test_repeated_end_is_named_once(tokenizer: Any, tmp_path: Path):
    own = tokenizer.eos_token_id
    content = json.dumps({"eos_token_id": [own, 5, own]})
    (tmp_path / "generation_config.json").write_text(content)
    assert eos_token_ids(tmp_path, tokenizer) == (own, 5)


def test_tokenizer_alone_declares_its_end(tokenizer: Any, folder: Path):
    assert eos_token_ids(folder, tokenizer) == (tokenizer.eos_token_id,)


@pytest.mark.parametrize("declared", ["<|im_end|>", [1, "2"], -1, True])
def test_malformed_end_is_named(tokenizer: Any, tmp_path: Path, declared: object):
    content = json.dumps({"eos_token_id": declared})
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(ValueError, match=r"eos_token_id in .*generation_config\.json"):
        eos_token_ids(tmp_path, tokenizer)


# Prompts.


def encode(tokenizer: Any, variant: str = "", **changes: Any) -> Prompt:
    style = PromptStyle(**{"enable_thinking": True, **changes})
    return encode_prompt(tokenizer, PROBLEM, style, variant)


def test_prompt_is_the_template_up_to_the_completion(tokenizer: Any):
    prompt = encode(tokenizer)
    user = "<|im_start|>user\nf(1)<|im_end|>\n"
    assert prompt.text == f"{user}<|im_start|>assistant\n"
    assert prompt.token_ids.dtype == np.int32
    assert tokenizer.decode(prompt.token_ids) == prompt.text


def test_special_tokens_are_single_tokens(tokenizer: Any):
    token_ids = encode(tokenizer).token_ids.tolist()
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert token_ids[0] == start
    assert (token_ids.count(start), token_ids.count(end)) == (2, 1)


def test_thinking_is_the_template_s_business(tokenizer: Any):
    thinking = encode(tokenizer, enable_thinking=True)
    silent = encode(tokenizer, enable_thinking=False)
    assert silent.text == f"{thinking.text}<think>\n\n</think>\n\n"


def test_system_message_comes_first(tokenizer: Any):
    prompt = encode(tokenizer, system="Be exact.")
    assert prompt.text.startswith("<|im_start|>system\nBe exact.<|im_end|>\n")
    assert prompt.text.endswith(encode(tokenizer).text)


def test_hint_follows_the_problem(tokenizer: Any):
    prompt = encode(tokenizer, variant="hint-2")
    assert "user\nf(1)\n\nAdd one.<|im_end|>" in prompt.text
    assert prompt.variant == "hint-2"


@pytest.mark.parametrize(
    "variant", ["hint-0", "hint-3", "hint-", "hint-\u00b2", "other"]
)
def test_unknown_variant_is_named(tokenizer: Any, variant: str):
    with pytest.raises(ValueError, match=f"{variant!r} does not exist.*2 hints"):
        encode(tokenizer, variant=variant)


def test_tokenizer_without_a_template_is_refused(folder: Path):
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        encode(tokenizer)


def test_prompt_is_never_truncated(folder: Path):
    tokenizer = load_tokenizer(folder)
    whole = encode(tokenizer).token_ids
    assert len(whole) > tokenizer.model_max_length
    tokenizer.backend_tokenizer.enable_truncation(max_length=4)
    assert np.array_equal(encode(tokenizer).token_ids, whole)


def test_long_prompts_are_set_apart_in_order():
    prompts = [prompt_of(length) for length in (3, 9, 5, 6, 8)]
    fitting, too_long = split_by_length(prompts, max_tokens=6)
    assert fitting == [prompts[0], prompts[2], prompts[3]]
    assert too_long == [prompts[1], prompts[4]]


# Templates, examples, plain text.


def test_template_shapes_the_message(tokenizer: Any):
    prompt = encode(tokenizer, template="What is {prompt}?")
    assert "user\nWhat is f(1)?<|im_end|>" in prompt.text


def test_examples_are_turns_before_the_problem(tokenizer: Any):
    examples = (Example("f(0)", "1"), Example("f(7)", "8"))
    turns = [
        ("system", "Be exact."),
        ("user", "f(0)"),
        ("assistant", "1"),
        ("user", "f(7)"),
        ("assistant", "8"),
    ]
    prompt = encode(tokenizer, system="Be exact.", examples=examples)
    shown = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns)
    assert prompt.text == shown + encode(tokenizer).text


def test_plain_prompt_is_text_without_any_marks(folder: Path):
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = None
    style = PromptStyle(
        format="plain",
        system="Evaluate.",
        template="{prompt} == ",
        examples=(Example("f(0) == ", "1"),),
    )
    prompt = encode_prompt(tokenizer, PROBLEM, style)
    assert prompt.text == "Evaluate.\n\nf(0) == 1\n\nf(1) == "
    assert tokenizer.decode(prompt.token_ids) == prompt.text


def with_ends(folder: Path, template: str) -> Any:
    """A tokenizer that adds tokens of its own to every text."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = load_tokenizer(folder)
    special = [
        (name, tokenizer.convert_tokens_to_ids(name))
        for name in ("<|im_start|>", "<|im_end|>")
    ]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=special
    )
    return tokenizer


def test_plain_prompt_begins_as_the_tokenizer_begins_texts(folder: Path):
    plain = PromptStyle(format="plain")
    tokenizer = with_ends(folder, "<|im_start|> $A")
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    token_ids = encode_prompt(tokenizer, PROBLEM, plain).token_ids.tolist()
    assert token_ids[0] == start
    assert tokenizer.decode(token_ids[1:]) == "f(1)"
    # A chat template writes such a token itself.
    assert encode(tokenizer).token_ids.tolist().count(start) == 2


def test_plain_prompt_that_would_be_ended_is_refused(folder: Path):
    tokenizer = with_ends(folder, "$A <|im_end|>")
    with pytest.raises(ValueError, match="ends texts with a token of its own"):
        encode_prompt(tokenizer, PROBLEM, PromptStyle(format="plain"))


DATED = "{{ %s + ' ' + messages[-1].content }}"
LLAMA3_DATE = "(date_string if date_string is defined else strftime_now('%d %b %Y'))"


def test_prompt_does_not_depend_on_the_day(folder: Path):
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = DATED % LLAMA3_DATE
    assert encode(tokenizer).text == "26 Jul 2024 f(1)"
    assert prompt_notes(tokenizer, PromptStyle()) == ()


def test_template_that_will_have_today_s_date_is_said(folder: Path):
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = DATED % "strftime_now('%d %b %Y')"
    (note,) = prompt_notes(tokenizer, PromptStyle())
    assert note.startswith("the chat template writes today's date")


# Thinking.

HEEDLESS = TEMPLATE.replace("enable_thinking is false", "enable_thinking is none")
OPENED = TEMPLATE.replace("\n\n</think>\n\n", "\n").replace(
    "enable_thinking is false", "true"
)


@pytest.mark.parametrize(
    ("template", "is_on", "said"),
    [
        (TEMPLATE, True, ""),
        (TEMPLATE, False, ""),
        (HEEDLESS, True, "is true, but the chat template does not look at it"),
        (HEEDLESS, False, ""),
        (OPENED, True, ""),
        (OPENED, False, "is false, but the chat template opens a thought"),
    ],
    ids=[
        "heeds-on",
        "heeds-off",
        "heedless-on",
        "heedless-off",
        "opens-on",
        "opens-off",
    ],
)
def test_template_that_does_otherwise_is_said(
    folder: Path, template: str, is_on: bool, said: str
):
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = template
    notes = prompt_notes(tokenizer, PromptStyle(enable_thinking=is_on))
    assert len(notes) == bool(said)
    assert said in "".join(notes)
    assert "\n" not in "".join(notes)
    assert ends_in_thought(encode(tokenizer, enable_thinking=is_on)) == (
        template == OPENED
    )


def test_words_about_thoughts_open_none(tokenizer: Any):
    prompt = encode(tokenizer, template="{prompt} Use <think>")
    assert not ends_in_thought(prompt)


# Completions.


def check_offsets(tokenizer: Any, token_ids: list[int]) -> None:
    text, offsets_T2 = decode_completion(tokenizer, token_ids)
    assert text == tokenizer.decode(token_ids, skip_special_tokens=True)
    assert offsets_T2.shape == (len(token_ids), 2)
    assert offsets_T2.dtype == np.int32
    is_covered = np.zeros(len(text), bool)
    position = 0
    for token_id, (start, end) in zip(token_ids, offsets_T2.tolist(), strict=True):
        is_covered[start:end] = True
        if tokenizer.decode([token_id], skip_special_tokens=True):
            # One character may be shared with the token before.
            assert position - 1 <= start <= position < end + (start < position)
            position = max(position, end)
        else:
            assert start == end
    assert is_covered.all()
    assert position == len(text)


def spelled(tokenizer: Any, token_ids: list[int]) -> list[str]:
    text, offsets_T2 = decode_completion(tokenizer, token_ids)
    return [text[start:end] for start, end in offsets_T2.tolist()]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 'two']",
        "caf\u00e9",
        FAMILY,
        "\U0001f600\U0001f602x",
        "e\u0301\u0323",
        "\ud55c\uae00\u0915\u093f",
        "\ufffd",
        "\u2028\u200f\ufeff\0",
        "<think>\n</think>",
    ],
)
def test_every_prefix_of_a_text_decodes_exactly(tokenizer: Any, text: str):
    token_ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert decode_completion(tokenizer, token_ids)[0] == text
    for length in range(len(token_ids) + 1):
        check_offsets(tokenizer, token_ids[:length])


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_any_tokens_decode_exactly(tokenizer: Any, data: st.DataObject):
    token = st.integers(0, len(tokenizer) - 1)
    check_offsets(tokenizer, data.draw(st.lists(token, max_size=24)))


@given(content=st.lists(st.integers(0, 255), max_size=24))
@settings(max_examples=300, deadline=None)
def test_any_bytes_decode_exactly(tokenizer: Any, content: list[int]):
    token_ids = [id_of_byte(tokenizer, byte) for byte in content]
    check_offsets(tokenizer, token_ids)
    text, _ = decode_completion(tokenizer, token_ids)
    assert text == bytes(content).decode("utf-8", "replace")


def id_of_byte(tokenizer: Any, byte: int) -> int:
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte:
        return model["vocab"][chr(byte)]
    below = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    return model["vocab"][chr(0x100 + below.index(byte))]


def test_tokens_that_share_a_character_share_its_span(tokenizer: Any):
    ids = [id_of_byte(tokenizer, byte) for byte in "a\U0001f602b".encode()]
    assert spelled(tokenizer, ids) == ["a", *["\U0001f602"] * 4, "b"]


def test_bytes_of_no_character_read_as_replacements(tokenizer: Any):
    # A stray continuation byte; a character of four bytes cut off after two.
    ids = [id_of_byte(tokenizer, byte) for byte in b"\x80\xf0\x9fz"]
    assert decode_completion(tokenizer, ids)[0] == "\ufffd\ufffdz"
    assert decode_completion(tokenizer, ids)[1].tolist() == [
        [0, 1], [1, 2], [1, 2], [2, 3]
    ]  # fmt: skip


def test_special_tokens_are_empty_where_they_stand(tokenizer: Any):
    end = tokenizer.eos_token_id
    (a,) = tokenizer("a")["input_ids"]
    text, offsets_T2 = decode_completion(tokenizer, [end, a, end, a, end])
    assert text == "aa"
    assert offsets_T2.tolist() == [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2]]


def test_special_token_inside_a_character_is_empty(tokenizer: Any):
    first, second = [id_of_byte(tokenizer, byte) for byte in "\u00e9".encode()]
    _, offsets_T2 = decode_completion(
        tokenizer, [first, tokenizer.eos_token_id, second]
    )
    start, end = offsets_T2[1]
    assert start == end


def test_empty_completion_has_no_offsets(tokenizer: Any):
    text, offsets_T2 = decode_completion(tokenizer, np.zeros(0, np.int32))
    assert text == ""
    assert offsets_T2.shape == (0, 2)


@pytest.mark.parametrize("token_id", [-1, 10**6])
def test_id_of_no_token_is_named(tokenizer: Any, token_id: int):
    with pytest.raises(ValueError, match=f"token id {token_id} is none"):
        decode_completion(tokenizer, [0, token_id])


def test_added_token_is_known_after_the_first_decoding(folder: Path):
    tokenizer = load_tokenizer(folder)
    decode_completion(tokenizer, [0])
    tokenizer.add_tokens(["brand new"])
    assert decode_completion(tokenizer, [len(tokenizer) - 1])[0] == "brand new"


def test_tokenizer_that_is_not_byte_level_is_refused():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    words.decoder = decoders.WordPiece()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    with pytest.raises(ValueError, match="decoder is WordPiece, not ByteLevel"):
        decode_completion(tokenizer, [1])


# Keys.


def test_hash_is_the_same_for_ever():
    assert stable_hash("train-17") == (815446964, 1872510412)
    assert stable_hash("") == (1470146276, 3031595380)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_hash_is_two_words_of_32_bits(problem_id: str):
    for word in stable_hash(problem_id):
        assert 0 <= word < 2**32
