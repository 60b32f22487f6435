"""What the tokens of a vocabulary write, as far as constraints need to know."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxgrpo.host.decoding import token_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Vocabulary(NamedTuple):
    """Token ids and the bytes they write."""

    pieces: tuple[bytes, ...]
    """By token id; empty for special tokens and ids that no token has."""
    special_ids: Mapping[str, int]
    """Special tokens, by how they are spelled. They write nothing."""
    eos_ids: tuple[int, ...]
    """Every id that ends a completion."""

    def single_bytes(self) -> np.ndarray:
        """Returns bool [256]: whether a token of its own writes each byte."""
        pieces = {*self.pieces}
        return np.array([bytes([byte]) in pieces for byte in range(256)])

    def digest(self) -> bytes:
        """Returns a hash of all that it says."""
        hasher = hashlib.sha256()
        for piece in self.pieces:
            hasher.update(len(piece).to_bytes(4, "little") + piece)
        hasher.update(repr((sorted(self.special_ids.items()), self.eos_ids)).encode())
        return hasher.digest()


def vocabulary_of(
    tokenizer: "PreTrainedTokenizerFast", eos_ids: Sequence[int]
) -> Vocabulary:
    """Returns the vocabulary of a byte-level tokenizer.

    Args:
      tokenizer: Byte-level, as those of Qwen, Llama 3 and GPT-2 are.
      eos_ids: Every id that ends a completion.
    """
    special_ids = {
        token.content: token_id
        for token_id, token in tokenizer.added_tokens_decoder.items()
        if token.special
    }
    return Vocabulary(token_bytes(tokenizer), special_ids, tuple(eos_ids))
