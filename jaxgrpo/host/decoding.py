"""Token ids to text, and between the tokens of a completion and its characters."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


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


def tokens_of_span(
    token_offsets_T2: np.ndarray, start: int, end: int
) -> tuple[int, int]:
    """Returns the tokens that wrote some characters, as a range.

    They are all that wrote a part of any of them, whole tokens: `offsets[first][0]` may
    be less than `start`, and the last one's end more than `end`. Tokens that write
    nothing belong to the range if they stand between others of it.

    Args:
      token_offsets_T2: Each token's [start, end) characters, of `decode_completion`.
      start: First character.
      end: Character after the last; `start` for none, which no token wrote.

    Returns:
      The first token, and the one after the last: `slice(first, end)` takes them. They
      are equal where no token wrote any of the characters.

    Example:
      >>> offsets_T2 = np.array([[0, 2], [2, 2], [2, 3], [2, 3], [3, 5]])
      >>> tokens_of_span(offsets_T2, 1, 3), tokens_of_span(offsets_T2, 3, 3)
      ((0, 4), (4, 4))
    """
    start_T, end_T = token_offsets_T2[:, 0], token_offsets_T2[:, 1]
    (tokens,) = np.nonzero((start_T < end) & (end_T > start) & (start_T < end_T))
    if end <= start or not len(tokens):
        place = int(np.count_nonzero(end_T <= start))
        return place, place
    return int(tokens[0]), int(tokens[-1]) + 1


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
