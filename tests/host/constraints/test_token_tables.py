from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.constraints import (
    Constraint,
    Vocabulary,
    compile_constraints,
    parse_constraint,
)
from jaxgrpo.host.constraints.byte_automaton import joined
from jaxgrpo.host.constraints.compilation import text_automaton
from jaxgrpo.host.constraints.markers import anything, nothing
from jaxgrpo.host.constraints.token_tables import token_tables
from tests.host.constraints.conftest import Bench
from tests.reference.constraints import (
    Position,
    TokenReader,
    after_bytes,
    random_tokens,
)

RANDOM = st.randoms(use_true_random=False)
MakeVocabulary = Callable[..., Vocabulary]


def compiled(
    vocabulary: Vocabulary, *texts: str, num_logits: int = 300, **markers: str
):
    automata = [
        text_automaton(parse_constraint(text, **markers), vocabulary) for text in texts
    ]
    whole = joined([nothing(), anything(), *automata])
    return token_tables(whole, vocabulary, num_logits), whole


@pytest.mark.parametrize("text", ["python_literal", "json"])
@settings(max_examples=60, deadline=None)
@given(RANDOM, st.integers(0, 12))
def test_a_token_does_what_its_bytes_do(
    bench: Bench, text: str, random: Random, length: int
):
    tables, automaton = _whole(bench, text)
    reader = TokenReader.at_start(tables)
    for _ in range(length):
        members = bench.members(tables)
        tokens = random_tokens(
            TokenReader(tables, reader.position, budget=1), members, bench.ends, random
        )
        if bench.ends & {*tokens}:
            break
        reader = reader.after(tokens[0])
    for piece, token in bench.ids.items():
        trial = reader.trial(int(tables.class_V[token]))
        expected = after_bytes(automaton, reader.position, piece)
        assert (trial and trial.position) == expected, piece


def _whole(bench: Bench, text: str):
    constraint = parse_constraint(text)
    automaton = text_automaton(constraint, bench.vocabulary)
    return bench.tables(text), joined([nothing(), anything(), automaton])


def test_a_token_may_close_and_open_brackets(make_vocabulary: MakeVocabulary):
    pieces = (b'"]], [["', b"]],", b"),):{(", b"],[]")
    vocabulary = make_vocabulary(*pieces)
    tables, automaton = compiled(vocabulary, "python_literal")
    for before in ("[['x", "[[1", "{((1,", "([(", '[["x', "{1: [[1"):
        position = after_bytes(
            automaton, Position(int(tables.start_J[1])), before.encode()
        )
        assert position is not None
        reader = TokenReader(tables, position)
        for token, piece in enumerate(pieces, 256):
            trial = reader.trial(int(tables.class_V[token]))
            expected = after_bytes(automaton, position, piece)
            assert (trial and trial.position) == expected, (before, piece)


def test_tokens_that_act_alike_are_one_class(make_vocabulary: MakeVocabulary):
    tables, _ = compiled(make_vocabulary(b"moo", b"a", b"kiss"), "python_literal")
    moo, a_again, kiss = tables.class_V[256:259]
    assert moo == kiss == tables.class_V[ord("k")]
    assert a_again == tables.class_V[ord("a")] != moo  # a hex digit


def test_classes_are_few(bench: Bench):
    tables = bench.tables("python_literal")
    assert tables.effect_AC.shape[0] < 100
    assert tables.effect_AC.shape[1] < 100
    assert sum(array.nbytes for array in tables) < 100_000


def test_ids_that_no_token_has_are_never_allowed(bench: Bench):
    tables = bench.tables("json", after="x")
    owned = {*bench.ids.values(), *bench.vocabulary.special_ids.values()}
    unowned = sorted({*range(bench.num_logits)} - owned)
    assert len(unowned) > 100
    assert set(tables.class_V[unowned].tolist()) == {0}
    assert not tables.effect_AC[:, 0].any()


def test_constraint_0_allows_everything(bench: Bench):
    tables = bench.tables("json")
    reader = TokenReader.at_start(tables, constraint=0)
    owned = {*bench.ids.values(), *bench.vocabulary.special_ids.values()}
    assert {t for t in range(bench.num_logits) if reader.allows(t)} == owned
    assert reader.after(bench.ids[b"]]"]) == TokenReader(
        tables, reader.position, reader.budget - 1
    )


def test_after_the_end_only_the_end_is_allowed(bench: Bench):
    tables = bench.tables("choice:a")
    (end,) = bench.ends
    reader = TokenReader.at_start(tables, budget=2).after(bench.ids[b"a"])
    for _ in range(3):
        reader = reader.after(end)
        allowed = [t for t in range(bench.num_logits) if reader.allows(t)]
        assert allowed == [end]


def test_every_id_that_ends_is_allowed_where_one_is():
    vocabulary = Vocabulary((b"a", b"", b"b"), {"<end>": 1}, (1, 2))
    tables, _ = compiled(vocabulary, "choice:a", num_logits=3)
    reader = TokenReader.at_start(tables)
    assert [reader.allows(token) for token in range(3)] == [True, False, False]
    reader = reader.after(0)
    assert [reader.allows(token) for token in range(3)] == [False, True, True]


def test_constraints_in_one_table_act_as_if_alone(make_vocabulary: MakeVocabulary):
    texts = ["python_literal", "json", "regex:[a-c]+", "choice:[1]|ab"]
    vocabulary = make_vocabulary(b"]]", b'":', b"ab")
    together, _ = compiled(vocabulary, *texts)
    (end,) = vocabulary.eos_ids
    for number, text in enumerate(texts, 1):
        alone, _ = compiled(vocabulary, text)
        one = TokenReader.at_start(alone)
        other = TokenReader.at_start(together, number)
        random = Random(number)
        for _ in range(10):
            allowed = [t for t in range(300) if one.allows(t)]
            assert allowed == [t for t in range(300) if other.allows(t)]
            if end in allowed:
                break
            token = random.choice(allowed)
            one, other = one.after(token), other.after(token)


@pytest.mark.parametrize(
    ("before", "needed"),
    [
        ("", 2),  # 1, end
        ("1", 1),
        ("'a", 2),
        ("'\u00e9"[:2], 2),
        ("[", 2),
        ("[1, ", 3),
        ("{1: [(", 4),
        ("{1: 2, ", 5),  # 3 : 4 } end
        ("[{1: 2, 3", 5),  # : 4 } ] end
        ("{((1", 4),
        ("-", 2),
        ("b", 3),
    ],
)
def test_the_budget_that_suffices_is_known(
    make_vocabulary: MakeVocabulary, before: str, needed: int
):
    vocabulary = make_vocabulary(b"[[[")
    tables, automaton = compiled(vocabulary, "python_literal")
    position = after_bytes(automaton, Position(int(tables.start_J[1])), before.encode())
    assert position is not None
    for seed in range(5):
        reader = TokenReader(tables, position, budget=needed)
        members = {c: np.flatnonzero(tables.class_V == c).tolist() for c in range(500)}
        tokens = random_tokens(reader, members, {*vocabulary.eos_ids}, Random(seed))
        assert tokens[-1] in vocabulary.eos_ids
    short = TokenReader(tables, position, budget=needed - 1)
    enough = TokenReader(tables, position, budget=needed)
    trials = map(short.trial, short.allowed_classes())
    assert all(trial and trial.needed >= short.budget for trial in trials)
    trials = map(enough.trial, enough.allowed_classes())
    assert all(trial and trial.needed < enough.budget for trial in trials)


def test_a_vocabulary_without_the_bytes_of_a_value_is_refused(tmp_path: Path):
    vocabulary = Vocabulary((b"hello", b""), {"<end>": 1}, (1,))
    with pytest.raises(
        ValueError, match="no tokens of single bytes that write a value"
    ):
        compile_constraints(
            [Constraint(kind="json")], vocabulary, num_logits=2, cache_folder=tmp_path
        )


def test_a_vocabulary_larger_than_the_output_is_refused(
    make_vocabulary: MakeVocabulary,
):
    with pytest.raises(ValueError, match="has 257 token ids, the model's output 256"):
        compiled(make_vocabulary(), "json", num_logits=256)


@pytest.mark.parametrize("eos_ids", [(), (300,), (-1,)])
def test_ends_that_are_no_tokens_are_refused(
    make_vocabulary: MakeVocabulary, eos_ids: tuple[int, ...]
):
    vocabulary = make_vocabulary()._replace(eos_ids=eos_ids)
    with pytest.raises(ValueError, match="Set eos_token_id"):
        compiled(vocabulary, "json")
