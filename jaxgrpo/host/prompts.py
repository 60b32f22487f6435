"""Problems to prompts, token ids to text: the only place that meets a tokenizer.

Token ids are the truth on both sides of the model. A prompt is encoded once and never
truncated; a completion is decoded for reading and judging, never encoded again.
"""

import functools
import hashlib
import json
import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxgrpo.host.records import Problem, Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_HINT = "hint-"


def load_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """Returns the tokenizer of a folder in Hugging Face layout, without any network.

    Args:
      folder: Holds `tokenizer.json` and `tokenizer_config.json`.
    """
    folder = Path(folder)
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(
            f"no tokenizer.json in {str(folder)!r}. Give a folder that holds it and "
            "tokenizer_config.json, as a Hugging Face checkpoint does."
        )
    return _auto_tokenizer().from_pretrained(folder, local_files_only=True)


def _auto_tokenizer() -> type:
    # Imported late: it takes seconds, and workers never need it. On import it warns
    # that models need PyTorch, which would mislead here: only tokenizers are used.
    logger = logging.getLogger("transformers")
    logger.addFilter(_is_not_about_pytorch)
    try:
        from transformers import AutoTokenizer
    finally:
        logger.removeFilter(_is_not_about_pytorch)
    return AutoTokenizer


def _is_not_about_pytorch(record: logging.LogRecord) -> bool:
    return "PyTorch was not found" not in record.getMessage()


def eos_token_ids(
    folder: str | Path, tokenizer: "PreTrainedTokenizerFast"
) -> tuple[int, ...]:
    """Returns every token id that is declared to end a completion.

    These are the ids of `generation_config.json` (one or a list), or of `config.json`
    where that file names none, followed by the tokenizer's own, without repeats. Chat
    models often declare two (Qwen3: 151645 and 151643); a sampler that honours one of
    them counts finished completions as cut off.

    Args:
      folder: Checkpoint folder; both files may be absent.
      tokenizer: The tokenizer of the same folder.
    """
    declared = _declared_eos(Path(folder) / "generation_config.json")
    declared = declared or _declared_eos(Path(folder) / "config.json")
    own = tokenizer.eos_token_id
    if own is not None:
        assert isinstance(own, int)
        declared = (*declared, own)
    if not declared:
        raise ValueError(
            f"no end-of-sequence token is declared in {str(folder)!r}. Set eos_token "
            "in tokenizer_config.json or eos_token_id in generation_config.json."
        )
    return tuple(dict.fromkeys(declared))


def _declared_eos(path: Path) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    if value is None:
        return ()
    ids = value if isinstance(value, list) else [value]
    if not all(type(token_id) is int and token_id >= 0 for token_id in ids):
        raise ValueError(
            f"eos_token_id in {str(path)!r} is {value!r}. "
            "Make it a token id or a list of token ids."
        )
    return tuple(ids)


def encode_prompt(
    tokenizer: "PreTrainedTokenizerFast",
    problem: Problem,
    *,
    system: str,
    enable_thinking: bool,
    variant: str = "",
) -> Prompt:
    """Returns the prompt of a problem, rendered by the tokenizer's chat template.

    The rendered text ends where the completion begins. It is never truncated, whatever
    length the tokenizer's files ask for.

    Args:
      tokenizer: Has a chat template.
      problem: Its `prompt` becomes the user's message.
      system: The system message; empty for none.
      enable_thinking: Passed to the template. Qwen3's writes an empty think block into
        the prompt when it is false; templates that do not know it ignore it.
      variant: Empty for the plain prompt, `hint-K` to append the problem's K-th hint
        (from 1) after a blank line.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            "the tokenizer has no chat template. "
            "Add chat_template.jinja to its folder, or chat_template to "
            "tokenizer_config.json."
        )
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": _user_message(problem, variant)})
    text = tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=enable_thinking,
    )
    assert isinstance(text, str)
    # The template wrote the special tokens; the tokenizer must not add its own.
    token_ids = tokenizer(
        text, add_special_tokens=False, truncation=False, verbose=False
    )["input_ids"]
    return Prompt(
        problem_id=problem.id,
        variant=variant,
        text=text,
        token_ids=np.asarray(token_ids, dtype=np.int32),
    )


def _user_message(problem: Problem, variant: str) -> str:
    if not variant:
        return problem.prompt
    number = variant.removeprefix(_HINT)
    has_hint = variant.startswith(_HINT) and number.isascii() and number.isdigit()
    if not has_hint or not 1 <= int(number) <= len(problem.hints):
        raise ValueError(
            f"prompt variant {variant!r} does not exist for problem {problem.id!r}, "
            f"which has {len(problem.hints)} hints. Use '' or 'hint-K' with K from 1."
        )
    return f"{problem.prompt}\n\n{problem.hints[int(number) - 1]}"


def split_by_length(
    prompts: Sequence[Prompt], max_tokens: int
) -> tuple[list[Prompt], list[Prompt]]:
    """Returns the prompts that fit, in order, and those that do not, in order.

    Nothing is shortened. The caller reports how many it drops: the length of the
    second list.

    Args:
      prompts: Any number of prompts.
      max_tokens: Largest number of tokens that fits.
    """
    fitting = [prompt for prompt in prompts if len(prompt.token_ids) <= max_tokens]
    too_long = [prompt for prompt in prompts if len(prompt.token_ids) > max_tokens]
    return fitting, too_long


def decode_completion(
    tokenizer: "PreTrainedTokenizerFast", token_ids: Sequence[int] | np.ndarray
) -> tuple[str, np.ndarray]:
    """Returns a completion's text and the characters that each token wrote.

    The text is that of `tokenizer.decode` without special tokens. Bytes that are not
    valid UTF-8 (a character cut off by the token budget, or one that a small model got
    wrong) read as U+FFFD. Tokens may hold parts of a character: each of them gets the
    span of the whole character, so neighbouring spans may overlap but never leave a
    gap. Special tokens, which write nothing, get an empty span where they stand.

    Args:
      tokenizer: Byte-level, as those of Qwen, Llama 3 and GPT-2 are.
      token_ids: Ids of the completion, in order.

    Returns:
      text: What the completion reads as.
      token_offsets_T2: int32, each token's [start, end) in characters of `text`.
    """
    table = _token_bytes(tokenizer, len(tokenizer))
    ids_T = np.asarray(token_ids, dtype=np.int64)
    _check_ids(ids_T, table)
    data = b"".join([table.pieces[token_id] for token_id in ids_T.tolist()])
    text, char_of_byte = _decoded(data)
    end_byte_T = np.cumsum(table.num_bytes_V[ids_T])
    start_byte_T = end_byte_T - table.num_bytes_V[ids_T]
    start_T = char_of_byte[start_byte_T]
    # A token ends with the character that holds its last byte.
    end_T = char_of_byte[np.maximum(end_byte_T - 1, 0)] + 1
    end_T = np.where(end_byte_T > start_byte_T, end_T, start_T)
    return text, np.stack([start_T, end_T], axis=1).astype(np.int32)


def _decoded(data: bytes) -> tuple[str, np.ndarray]:
    """Returns the text of bytes, and for each byte the index of its character.

    The array has one more entry, for the end. Invalid sequences are replaced as
    Unicode recommends (one U+FFFD for each maximal part of a character), which is what
    both Python's and the tokenizer's own decoder do.
    """
    array = np.frombuffer(data, dtype=np.uint8)
    is_first_byte = (array & 0xC0) != 0x80
    parts: list[str] = []
    position = 0
    while position < len(data):
        try:
            parts.append(data[position:].decode("utf-8"))
            break
        except UnicodeDecodeError as error:
            start, end = position + error.start, position + error.end
            parts.append(data[position:start].decode("utf-8") + "\ufffd")
            is_first_byte[start:end] = False
            is_first_byte[start] = True
            position = end
    text = "".join(parts)
    char_of_byte = np.cumsum(is_first_byte) - 1
    return text, np.append(char_of_byte, len(text))


def token_bytes(tokenizer: "PreTrainedTokenizerFast") -> tuple[bytes, ...]:
    """Returns what each token id writes; special tokens and unused ids write nothing.

    Args:
      tokenizer: Byte-level, as those of Qwen, Llama 3 and GPT-2 are.
    """
    return tuple(_token_bytes(tokenizer, len(tokenizer)).pieces)


class _TokenBytes(NamedTuple):
    """What every token of a vocabulary writes; special tokens write nothing."""

    pieces: list[bytes]
    num_bytes_V: np.ndarray
    is_token_V: np.ndarray
    """False where no token has the id."""


@functools.lru_cache(maxsize=4)
def _token_bytes(tokenizer: "PreTrainedTokenizerFast", size: int) -> _TokenBytes:
    # `size` is part of the cache's key: a tokenizer grows when tokens are added to it.
    from tokenizers.decoders import ByteLevel

    decoder = tokenizer.backend_tokenizer.decoder
    if not isinstance(decoder, ByteLevel):
        raise ValueError(
            f"the tokenizer's decoder is {type(decoder).__name__}, not ByteLevel. "
            "Use a model of the Qwen, Llama 3 or GPT-2 family."
        )
    added = tokenizer.added_tokens_decoder
    special = {token_id for token_id, token in added.items() if token.special}
    # Ids may have holes, so that the largest is not the number of tokens.
    tokens = tokenizer.convert_ids_to_tokens(list(range(max(size, *added, 0) + 1)))
    pieces = [
        b"" if token is None or token_id in special else _written_bytes(token)
        for token_id, token in enumerate(tokens)
    ]
    return _TokenBytes(
        pieces=pieces,
        num_bytes_V=np.array([len(piece) for piece in pieces], dtype=np.int64),
        is_token_V=np.array([token is not None for token in tokens]),
    )


def _check_ids(ids_T: np.ndarray, table: _TokenBytes) -> None:
    is_in_range_T = (ids_T >= 0) & (ids_T < len(table.pieces))
    is_token_T = is_in_range_T & table.is_token_V[np.where(is_in_range_T, ids_T, 0)]
    if not is_token_T.all():
        raise ValueError(
            f"token id {ids_T[~is_token_T][0]} is none of the tokenizer's "
            f"{table.is_token_V.sum()} tokens. Mask such ids in the sampler: a padded "
            "embedding has rows that no token owns."
        )


def _written_bytes(token: str) -> bytes:
    alphabet = _byte_alphabet()
    if all(character in alphabet for character in token):
        return bytes([alphabet[character] for character in token])
    # Tokens added to the vocabulary may be spelled as plain text.
    return token.encode("utf-8")


@functools.cache
def _byte_alphabet() -> dict[str, int]:
    """Returns the byte that each character of a byte-level vocabulary stands for.

    Printable characters of Latin-1 stand for their own code; the other bytes, in order,
    are written as the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + rank): byte for rank, byte in enumerate(others)}


def stable_hash(problem_id: str) -> tuple[int, int]:
    """Returns two 32-bit numbers that name a problem in random keys.

    The same on every machine, process and Python version (unlike `hash`).

    Example:
      >>> stable_hash("train-17")
      (815446964, 1872510412)
    """
    digest = hashlib.blake2b(
        problem_id.encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    first, second = struct.unpack("<II", digest)
    return first, second
