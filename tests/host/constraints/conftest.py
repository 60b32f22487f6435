"""The shipped tokenizer's vocabulary and readers of constraints over it."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import jaxgrpo
from jaxgrpo.host.constraints import (
    TokenTables,
    Vocabulary,
    compile_constraints,
    parse_constraint,
    vocabulary_of,
)
from jaxgrpo.host.prompts import eos_token_ids, load_tokenizer
from tests.reference.constraints import UNLIMITED, TokenReader, random_tokens

TOKENIZER = Path(jaxgrpo.__file__).parent / "assets" / "output_prediction_tokenizer"


class Bench:
    """A vocabulary, and constraints compiled for it once."""

    def __init__(self, vocabulary: Vocabulary, num_logits: int, cache_folder: Path):
        self.vocabulary = vocabulary
        self.num_logits = num_logits
        self.ends = set(vocabulary.eos_ids)
        self.ids = {
            piece: token
            for token, piece in enumerate(vocabulary.pieces)
            if piece and token not in self.ends
        }
        self._cache_folder = cache_folder
        self._tables: dict[tuple[str, str, str], TokenTables] = {}

    def tables(self, text: str, after: str = "", until: str = "") -> TokenTables:
        key = (text, after, until)
        if key not in self._tables:
            self._tables[key] = compile_constraints(
                [parse_constraint(text, after=after, until=until)],
                self.vocabulary,
                num_logits=self.num_logits,
                cache_folder=self._cache_folder,
            )
        return self._tables[key]

    def members(self, tables: TokenTables) -> dict[int, list[int]]:
        """Tokens of each class."""
        members = defaultdict(list)
        for token in range(len(self.vocabulary.pieces)):
            members[int(tables.class_V[token])].append(token)
        return members

    def random_text(
        self, tables: TokenTables, random: Random, budget: int = UNLIMITED
    ) -> tuple[bytes, bool]:
        """A text that the tables allow, and whether it has ended."""
        reader = TokenReader.at_start(tables, budget=budget)
        tokens = random_tokens(reader, self.members(tables), self.ends, random)
        has_ended = tokens[-1] in self.ends
        text = b"".join(self.vocabulary.pieces[t] for t in tokens if t not in self.ends)
        return text, has_ended

    def accepts(self, tables: TokenTables, tokens: list[int]) -> bool:
        """Whether the tables allow the tokens one after another, and an end."""
        reader = TokenReader.at_start(tables)
        for token in tokens:
            if reader.trial(int(tables.class_V[token])) is None:
                return False
            reader = reader.after(token)
        return all(reader.allows(end) for end in self.ends)


@pytest.fixture(scope="session")
def bench(session_cache: Path) -> Bench:
    """The shipped tokenizer: 256 bytes and common pieces of Python, 407 ids."""
    tokenizer = load_tokenizer(TOKENIZER)
    vocabulary = vocabulary_of(tokenizer, eos_token_ids(TOKENIZER, tokenizer))
    return Bench(vocabulary, 512, session_cache / "constraints")


@pytest.fixture
def make_vocabulary() -> Callable[..., Vocabulary]:
    """A vocabulary of all single bytes, then the given pieces, then the end."""

    def make(*pieces: bytes, special: tuple[str, ...] = ()) -> Vocabulary:
        written = [*(bytes([byte]) for byte in range(256)), *pieces]
        names = ["<end>", *special]
        return Vocabulary(
            pieces=(*written, *[b""] * len(names)),
            special_ids={name: len(written) + i for i, name in enumerate(names)},
            eos_ids=(len(written),),
        )

    return make
