from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from jaxgrpo.device.sampling.constraint import (
    ConstraintState,
    ConstraintTables,
    advance,
    allowed_tokens,
    initial_state,
    replayed_states,
)
from jaxgrpo.host.constraints import (
    TokenTables,
    Vocabulary,
    compile_constraints,
    parse_constraint,
)
from tests.reference.constraints import UNLIMITED, Position, TokenReader

PIECES = (b"]]", b"[[", b'"]], [["', b"{(", b"),):", b", ", b"'", b"[(", b"})", b"ab")
TEXTS = ("python_literal", "json", "choice:ab|[1]|abab")
B, T, V = 40, 24, 300
"""More rows than a word has bits; more logits than tokens."""


class Case(NamedTuple):
    vocabulary: Vocabulary
    host: TokenTables
    tables: ConstraintTables
    constraints_B: np.ndarray
    budgets_B: np.ndarray
    tokens_BT: np.ndarray
    """Random walks; what follows an end is any token."""
    readers_BT: list[list[TokenReader]]
    """Before each token."""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    pieces = (*(bytes([byte]) for byte in range(256)), *PIECES, b"")
    end = len(pieces) - 1
    vocabulary = Vocabulary(pieces, {"<end>": end}, (end,))
    host = compile_constraints(
        [parse_constraint(text) for text in TEXTS],
        vocabulary,
        num_logits=V,
        cache_folder=tmp_path_factory.mktemp("constraints"),
    )
    random = Random(0)
    constraints_B = np.array([row % 4 for row in range(B)])
    budgets_B = np.array([random.choice([1, 5, 12, 24, UNLIMITED]) for _ in range(B)])
    rows = [
        _walk(host, end, TokenReader.at_start(host, constraint, budget), random)
        for constraint, budget in zip(
            constraints_B.tolist(), budgets_B.tolist(), strict=True
        )
    ]
    return Case(
        vocabulary=vocabulary,
        host=host,
        tables=ConstraintTables(*map(jnp.asarray, host)),
        constraints_B=constraints_B,
        budgets_B=budgets_B,
        tokens_BT=np.array([tokens for tokens, _ in rows]),
        readers_BT=[readers for _, readers in rows],
    )


def _walk(host: TokenTables, end: int, reader: TokenReader, random: Random):
    tokens: list[int] = []
    readers: list[TokenReader] = []
    while len(tokens) < T:
        readers.append(reader)
        if end in tokens:
            tokens.append(random.randrange(V))
            reader = replace(reader, budget=reader.budget - 1)
            continue
        is_allowed_V = np.isin(host.class_V, reader.allowed_classes())
        tokens.append(random.choice(np.flatnonzero(is_allowed_V).tolist()))
        reader = reader.after(tokens[-1])
    return tokens, readers


def state_of(readers: list[TokenReader]) -> ConstraintState:
    """The registers that stand for some readers."""
    stacks = [reader.position.stack[::-1] for reader in readers]
    words = [
        [sum(s << 4 * i for i, s in enumerate(stack[at : at + 8])) for at in (0, 8)]
        for stack in stacks
    ]
    return ConstraintState(
        state=jnp.array([reader.position.state for reader in readers]),
        stack=jnp.array(words, jnp.uint32),
        budget=jnp.array([reader.budget for reader in readers]),
    )


def allowed_by(readers: list[TokenReader]) -> np.ndarray:
    class_V = readers[0].tables.class_V
    return np.stack([np.isin(class_V, one.allowed_classes()) for one in readers])


ALLOWED = jax.jit(allowed_tokens)
ADVANCE = jax.jit(advance)


def test_fields_are_those_of_the_host():
    assert ConstraintTables._fields == TokenTables._fields


def test_every_step_is_that_of_the_slow_reader(case: Case):
    state = initial_state(
        case.tables, jnp.array(case.constraints_B), jnp.array(case.budgets_B)
    )
    for column in range(T):
        readers = [row[column] for row in case.readers_BT]
        assert_equal(state, state_of(readers))
        np.testing.assert_array_equal(
            ALLOWED(case.tables, state), allowed_by(readers), err_msg=str(column)
        )
        state = ADVANCE(case.tables, state, jnp.array(case.tokens_BT[:, column]))


def assert_equal(one: ConstraintState, other: ConstraintState) -> None:
    for name, array in one._asdict().items():
        np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)


def test_a_replay_passes_through_the_same_states(case: Case):
    states = jax.jit(replayed_states)(
        case.tables,
        jnp.array(case.constraints_B),
        jnp.array(case.budgets_B),
        jnp.array(case.tokens_BT),
    )
    columns = [
        state_of([row[column] for row in case.readers_BT]) for column in range(T)
    ]
    stacked: Any = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *columns)
    assert_equal(states, stacked)


def test_positions_may_have_a_dimension_of_their_own(case: Case):
    columns = [2, 5, 7]
    states = [
        state_of([row[column] for row in case.readers_BT[:8]]) for column in columns
    ]
    stacked: Any = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *states)
    allowed_BTV = ALLOWED(case.tables, stacked)
    assert allowed_BTV.shape == (8, len(columns), V)
    for column, state in enumerate(states):
        np.testing.assert_array_equal(
            allowed_BTV[:, column], ALLOWED(case.tables, state)
        )


def test_some_token_is_always_allowed(case: Case):
    readers = [row[column] for row in case.readers_BT for column in range(T)]
    assert ALLOWED(case.tables, state_of(readers)).any(axis=-1).all()


@pytest.mark.parametrize("budget", [1, 40, UNLIMITED])
def test_no_bracket_opens_above_the_sixteenth(case: Case, budget: int):
    inside = TokenReader.at_start(case.host).after(ord("["))
    readers = [
        TokenReader(
            case.host,
            Position(inside.position.state, inside.position.stack * n),
            budget,
        )
        for n in range(1, 17)
    ]
    allowed_BV = np.asarray(ALLOWED(case.tables, state_of(readers)))
    np.testing.assert_array_equal(allowed_BV, allowed_by(readers))
    if budget == UNLIMITED:
        pair = PIECES.index(b"[[") + 256
        assert allowed_BV[:, ord("[")].tolist() == [True] * 15 + [False]
        assert allowed_BV[:, pair].tolist() == [True] * 14 + [False] * 2
        assert allowed_BV[:, ord("]")].all()


def test_a_replay_may_be_split_over_devices(case: Case):
    mesh = Mesh(np.array(jax.devices()[:8]), ("data",))
    rows, whole = PartitionSpec("data"), PartitionSpec()
    arguments = (
        case.tables,
        jnp.array(case.constraints_B),
        jnp.array(case.budgets_B),
        jnp.array(case.tokens_BT),
    )
    split = jax.shard_map(
        replayed_states, mesh=mesh, in_specs=(whole, rows, rows, rows), out_specs=rows
    )
    assert_equal(jax.jit(split)(*arguments), jax.jit(replayed_states)(*arguments))


def test_tables_without_brackets_work(case: Case, tmp_path: Any):
    host = compile_constraints(
        [parse_constraint("choice:[1]")],
        case.vocabulary,
        num_logits=V,
        cache_folder=tmp_path,
    )
    assert host.pops_EU.shape[1] == 0
    tables = ConstraintTables(*map(jnp.asarray, host))
    state = initial_state(tables, jnp.array([1, 0]), jnp.array([9, 9]))
    state = ADVANCE(tables, state, jnp.array([ord("["), ord("[")]))
    allowed_BV = ALLOWED(tables, state)
    assert jnp.flatnonzero(allowed_BV[0]).tolist() == [ord("1")]
    assert int(allowed_BV[1].sum()) == len(case.vocabulary.pieces)
