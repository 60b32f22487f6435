"""The tokenizer of a GGUF file as tokenizer.json and tokenizer_config.json.

Reference:
  How a text is split before merging, by the name in `tokenizer.ggml.pre`: the
  tokenizers of SmolLM2, Qwen2 and Llama 3 on the Hugging Face hub. Which tokens end a
  completion: `special_eog_ids` in llama.cpp's llama-vocab.cpp.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxgrpo.weights.gguf import Gguf
from jaxgrpo.weights.writing import write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    "qwen2": _WORDS.replace("DIGITS", r"\p{N}"),
    "llama-bpe": _WORDS.replace("DIGITS", r"\p{N}{1,3}"),
}
SPLITS = ("smollm", *_PATTERNS)
"""Values of `tokenizer.ggml.pre` that are known."""

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
"""Of `tokenizer.ggml.token_type`."""

_ENDS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "pad_token": "padding_token_id",
    "unk_token": "unknown_token_id",
}


def write_tokenizer(gguf: Gguf, folder: Path) -> None:
    """Writes tokenizer.json and tokenizer_config.json, with the chat template.

    Raises:
      ValueError: If the file has no byte-level BPE, or splits text in a way that is
        not known.
    """
    gguf_tokenizer(gguf).save(str(folder / "tokenizer.json"))
    tokens = _field(gguf, "tokens")
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": gguf.field("context_length"),
    }
    for name, key in _SPECIAL.items():
        token_id = _field(gguf, key, None)
        config[name] = None if token_id is None else tokens[token_id]
    template = gguf.metadata.get("tokenizer.chat_template")
    if template is not None:
        config["chat_template"] = template
    write_json(folder / "tokenizer_config.json", config)


def gguf_tokenizer(gguf: Gguf) -> "Tokenizer":
    """The tokenizer that the metadata describe."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    if (kind := _field(gguf, "model")) != "gpt2":
        raise ValueError(
            f"{gguf.path} has a tokenizer of the kind {kind!r}; read is 'gpt2', "
            "byte-level BPE. Use a model of the Qwen, Llama 3 or SmolLM2 family."
        )
    split = _field(gguf, "pre", "")
    if split not in SPLITS:
        raise ValueError(
            f"{gguf.path} has tokenizer.ggml.pre {split!r}; known are "
            f"{', '.join(SPLITS)}. Use a model of the Qwen, Llama 3 or SmolLM2 family."
        )
    tokens, types = _used_tokens(gguf)
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ", 1)) for merge in _field(gguf, "merges")],
            ignore_merges=split == "llama-bpe",
        )
    )
    _set_split(tokenizer, split)
    tokenizer.decoder = decoders.ByteLevel()
    for kind, is_special in ((_CONTROL, True), (_USER_DEFINED, False)):
        added = [
            AddedToken(token, special=is_special, normalized=False)
            for token, of_kind in zip(tokens, types, strict=True)
            if of_kind == kind
        ]
        (tokenizer.add_special_tokens if is_special else tokenizer.add_tokens)(added)
    if _field(gguf, "add_bos_token", split == "llama-bpe"):
        _add_bos(tokenizer, tokens, _field(gguf, "bos_token_id"))
    return tokenizer


def end_ids(gguf: Gguf) -> tuple[int, ...]:
    """Every token that ends a completion: those declared, and those known by name."""
    tokens, types = _used_tokens(gguf)
    declared = [_field(gguf, key, None) for key in _END_KEYS]
    known = [
        token_id
        for token_id, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if token in _ENDS and kind == _CONTROL
    ]
    return tuple(dict.fromkeys(i for i in [*declared, *known] if i is not None))


def _field(gguf: Gguf, key: str, *default: Any) -> Any:
    full = f"tokenizer.ggml.{key}"
    if full not in gguf.metadata and not default:
        raise ValueError(
            f"{gguf.path} has no {full}. Use a file that holds its tokenizer."
        )
    return gguf.metadata.get(full, *default)


def _used_tokens(gguf: Gguf) -> tuple[list[str], list[int]]:
    """Tokens and their types, without those that only pad the embedding."""
    tokens, types = _field(gguf, "tokens"), _field(gguf, "token_type")
    size = len(tokens)
    while size and types[size - 1] == _UNUSED:
        size -= 1
    return tokens[:size], types[:size]


def _set_split(tokenizer: "Tokenizer", split: str) -> None:
    from tokenizers import Regex, normalizers, pre_tokenizers

    if split == "smollm":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        return
    if split == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PATTERNS[split]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _add_bos(tokenizer: "Tokenizer", tokens: list[str], bos_id: int) -> None:
    from tokenizers import processors

    bos = tokens[bos_id]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos}:1 $B:1",
        special_tokens=[(bos, bos_id)],
    )
