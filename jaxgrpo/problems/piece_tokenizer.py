"""Tokenizers of the built-in models: bytes, pieces of text, Qwen's specials.

A text is cut at the longest piece that fits; what is no piece is written in bytes, and
every text comes back as it was.
"""

import json
from collections.abc import Sequence
from pathlib import Path

SPECIAL_TOKENS = (
    ("<|endoftext|>", True),
    ("<|im_start|>", True),
    ("<|im_end|>", True),
    ("<tool_call>", False),
    ("</tool_call>", False),
    ("<tool_response>", False),
    ("</tool_response>", False),
    ("<think>", False),
    ("</think>", False),
)
"""Token and whether decoding may skip it, as in Qwen3."""

CHAT_TEMPLATE = """\
{%- for message in messages %}
    {%- if message.role not in ('system', 'user', 'assistant') %}
        {{- raise_exception('Unknown role: ' + message.role) }}
    {%- endif %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('The system message must come first.') }}
    {%- endif %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
"""Qwen3's template without tools: earlier thoughts are dropped from the history, and
`enable_thinking=False` closes the thought before it begins."""


def write_tokenizer(folder: Path, pieces: Sequence[str]) -> None:
    """Writes the tokenizer's files, always the same bytes.

    The folder then loads with `transformers.AutoTokenizer.from_pretrained(folder)`.

    Args:
      folder: Made if missing.
      pieces: Texts of one token, besides the 256 bytes; distinct, in the order of
        their ids.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "tokenizer.json", _tokenizer(pieces))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(pieces))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def _write_json(path: Path, content: dict[str, object]) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _tokenizer(pieces: Sequence[str]) -> dict[str, object]:
    """Returns the file format of the `tokenizers` library, version 1.0.

    Its byte-pair model has no merges: a piece that is in the vocabulary is one token
    (`ignore_merges`), anything else falls apart into bytes.
    """
    byte_names = _byte_names()
    tokens = [*byte_names, *(_spelled(piece, byte_names) for piece in pieces)]
    first_special = len(tokens)
    pre_tokenizer = {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": _longest_piece_pattern(pieces)},
                "behavior": "Isolated",
                "invert": False,
            },
            _byte_level(),
        ],
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": True,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": first_special + index, **_added_token(content, special)}
            for index, (content, special) in enumerate(SPECIAL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": _byte_level(),
        "model": model,
    }


def _tokenizer_config(pieces: Sequence[str]) -> dict[str, object]:
    first_special = 256 + len(pieces)
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(first_special + index): _added_token(content, special)
            for index, (content, special) in enumerate(SPECIAL_TOKENS)
        },
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 32768,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }


def _added_token(content: str, special: bool) -> dict[str, object]:
    return {
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def _byte_level() -> dict[str, object]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }


def _byte_names() -> list[str]:
    """Returns the character that stands for each byte in byte-level vocabularies.

    Printable Latin-1 characters stand for themselves, the others for the characters
    from U+0100 on, in order.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    names = {byte: chr(byte) for byte in printable}
    names |= {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [names[byte] for byte in range(256)]


def _spelled(piece: str, byte_names: list[str]) -> str:
    return "".join(byte_names[byte] for byte in piece.encode())


def _longest_piece_pattern(pieces: Sequence[str]) -> str:
    """Returns a pattern that cuts any text into pieces and single characters.

    Alternatives are tried in order, so longer pieces come first.
    """
    longest_first = sorted(pieces, key=lambda piece: (-len(piece), piece))
    return "|".join([*map(_quoted, longest_first), "[\\s\\S]"])


def _quoted(text: str) -> str:
    special = "\\.^$*+?{}[]|()/-&~#"
    quoted = "".join("\\" + char if char in special else char for char in text)
    return quoted.replace("\n", "\\n")
