"""Token constraints: which tokens a completion may have next, and where they lead.

A constraint is an automaton with a stack of open brackets. Both are registers of each
row: a state and 64 bits, four for each bracket; tokens that act alike are one class.
The tables are compiled on the host, which documents how; dimensions of theirs are

    J  constraints, 0 being none     A  states of the automata
    C  classes of tokens             E  effects of tokens
    U  brackets closed by one token  X  outcomes              Y  symbols written by one
    Z  symbols of open brackets, 16

Sampler and trainer call the same functions, so that the log-probs of both are those of
one policy: the softmax over the allowed tokens. It has three parts:

- a token is allowed if it continues a text of the constraint's form; while no value has
  begun (a marker is waited for) every token is, except to end;
- the end-of-sequence token is allowed where the text is complete, and after itself;
- tokens after which the budget might not suffice to complete the text, if each further
  token wrote one byte, are not allowed, unless no token is better. So a completion ends
  within its budget and is complete, if the budget sufficed when the value began.

At least one token is always allowed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Integer, UInt8, UInt32

_DEPTH = 16
"""Brackets in the register."""
_WORD = 32
"""Bits of a word: rows whose masks are looked up together."""


class ConstraintTables(NamedTuple):
    """What all rows share. Fields as the host's tables, in the same order."""

    start_J: Int[Array, " J"]
    class_V: Integer[Array, " V"]
    effect_AC: Integer[Array, "A C"]
    num_pops_E: Int[Array, " E"]
    pops_EU: Int[Array, "E U"]
    outcome_EZ: Int[Array, "E Z"]
    state_X: Int[Array, " X"]
    size_X: Int[Array, " X"]
    symbols_XY: UInt8[Array, "X Y"]
    depth_X: Int[Array, " X"]
    finish_X: Int[Array, " X"]
    closing_Z: Int[Array, " Z"]


class ConstraintState(NamedTuple):
    """Registers before a token: of rows [B], or of all their tokens [B, T]."""

    state: Int[Array, "*rows"]
    """In [0, A)."""
    stack: UInt32[Array, "*rows 2"]
    """Symbols of open brackets, the last one lowest in the first word; 0 is none."""
    budget: Int[Array, "*rows"]
    """Tokens that may still be written, this one included."""


def initial_state(
    tables: ConstraintTables,
    constraint_id_B: Int[Array, " B"],
    budget_B: Int[Array, " B"],
) -> ConstraintState:
    """Returns the registers before the first token.

    Args:
      tables: Of all constraints.
      constraint_id_B: Index of each row's constraint; 0 is none.
      budget_B: Most tokens of each completion, the end-of-sequence token included.
    """
    # Made of an argument, so that `shard_map` sees it vary over the same axes.
    empty_B = (constraint_id_B * 0).astype(jnp.uint32)
    return ConstraintState(
        state=tables.start_J[constraint_id_B],
        stack=jnp.stack([empty_B, empty_B], axis=-1),
        budget=budget_B.astype(jnp.int32),
    )


def allowed_tokens(
    tables: ConstraintTables, state: ConstraintState
) -> Bool[Array, "*rows V"]:
    """Returns which tokens each row may have next; at least one is true.

    Args:
      tables: Of all constraints.
      state: Registers before the token.
    """
    rows = state.state.shape
    rows_N: ConstraintState = jax.tree.map(
        lambda leaf: leaf.reshape(-1, *leaf.shape[len(rows) :]), state
    )
    tried = _tried(tables, rows_N, jnp.arange(tables.num_pops_E.shape[0])[None])
    effect_NC = tables.effect_AC[rows_N.state]
    is_possible_NC = jnp.take_along_axis(tried.outcome_NM > 0, effect_NC, axis=1)
    is_wise_NC = jnp.take_along_axis(tried.leaves_enough_NM, effect_NC, axis=1)
    has_wise_N1 = is_wise_NC.any(axis=1, keepdims=True)
    allowed_NC = jnp.where(has_wise_N1, is_wise_NC, is_possible_NC)
    return _of_tokens(allowed_NC, tables.class_V).reshape(*rows, -1)


def advance(
    tables: ConstraintTables, state: ConstraintState, token_B: Int[Array, " B"]
) -> ConstraintState:
    """Returns the registers after a token.

    A token that the constraint's form does not allow ends the completion, so that
    undefined tokens after an end do no harm.

    Args:
      tables: Of all constraints.
      state: Registers of the rows before the token.
      token_B: The token of each row.
    """
    effect_B1 = tables.effect_AC[state.state, tables.class_V[token_B]][:, None]
    tried = _tried(tables, state, effect_B1.astype(jnp.int32))
    outcome_B = tried.outcome_NM[:, 0]
    # What the token writes comes first; then what was below the symbol it replaces.
    size_B1 = tables.size_X[outcome_B][:, None]
    level_116 = jnp.arange(_DEPTH)[None]
    written_B16 = jnp.take_along_axis(
        tables.symbols_XY[outcome_B].astype(jnp.int32),
        jnp.minimum(level_116, tables.symbols_XY.shape[1] - 1),
        axis=1,
    )
    from_B16 = level_116 - size_B1 + tried.num_pops_RM + 1
    kept_B16 = jnp.take_along_axis(
        _symbols(state.stack), jnp.clip(from_B16, 0, _DEPTH), axis=1
    )
    symbols_B16 = jnp.where(level_116 < size_B1, written_B16, kept_B16)
    symbols_B16 = jnp.where(outcome_B[:, None] > 0, symbols_B16, 0)
    return ConstraintState(
        state=tables.state_X[outcome_B],
        stack=_packed(symbols_B16),
        budget=state.budget - 1,
    )


def replayed_states(
    tables: ConstraintTables,
    constraint_id_B: Int[Array, " B"],
    budget_B: Int[Array, " B"],
    completion_BT: Int[Array, "B T"],
) -> ConstraintState:
    """Returns the registers before each token of finished completions, [B, T].

    Args:
      tables: Of all constraints.
      constraint_id_B: As given to the sampler.
      budget_B: As given to the sampler.
      completion_BT: Token ids; what follows an end is undefined.
    """

    def step(state: ConstraintState, token_B: Array):
        return advance(tables, state, token_B), state

    first = initial_state(tables, constraint_id_B, budget_B)
    _, states = jax.lax.scan(step, first, completion_BT.T)
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), states)


class _Tried(NamedTuple):
    """What M effects would do to each of N rows."""

    outcome_NM: Int[Array, "N M"]
    """0 where the stack does not allow it."""
    num_pops_RM: Int[Array, "R M"]
    """Brackets that each closes."""
    leaves_enough_NM: Bool[Array, "N M"]
    """Whether it is allowed and the budget suffices for an end."""


def _tried(
    tables: ConstraintTables, rows: ConstraintState, effect_RM: Int[Array, "R M"]
) -> _Tried:
    """Tries M effects on N rows: of each row if R is N, the same ones if R is 1."""
    symbols_N17 = _symbols(rows.stack)
    num_pops_RM = tables.num_pops_E[effect_RM]
    top_NM = jnp.take_along_axis(symbols_N17, num_pops_RM, axis=1)
    outcome_NM = tables.outcome_EZ[effect_RM, top_NM]
    for level in range(tables.pops_EU.shape[1]):
        may_be_RM = tables.pops_EU[effect_RM, level]
        is_one_NM = (may_be_RM >> symbols_N17[:, level : level + 1]) & 1
        outcome_NM = jnp.where(is_one_NM == 1, outcome_NM, 0)
    depth_below_N17 = _sum_below((symbols_N17 > 0).astype(jnp.int32))
    depth_NM = jnp.take_along_axis(depth_below_N17, num_pops_RM, axis=1)
    fits_NM = depth_NM + tables.depth_X[outcome_NM] <= _DEPTH
    outcome_NM = jnp.where(fits_NM, outcome_NM, 0)
    closing_below_N17 = _sum_below(tables.closing_Z[symbols_N17])
    closing_NM = jnp.take_along_axis(closing_below_N17, num_pops_RM, axis=1)
    needed_NM = closing_NM + tables.finish_X[outcome_NM]
    leaves_enough_NM = (outcome_NM > 0) & (needed_NM < rows.budget[:, None])
    return _Tried(outcome_NM, num_pops_RM, leaves_enough_NM)


def _sum_below(values_N17: Int[Array, "N 17"]) -> Int[Array, "N 17"]:
    """Returns for each level the sum over the levels below it, which come later."""
    return values_N17.sum(axis=1, keepdims=True) - jnp.cumsum(values_N17, axis=1)


def _symbols(stack_N2: UInt32[Array, "N 2"]) -> Int[Array, "N 17"]:
    """Returns the symbols from the top, and the empty stack below the deepest."""
    shifts_8 = 4 * jnp.arange(8, dtype=jnp.uint32)
    symbols_N28 = (stack_N2[:, :, None] >> shifts_8[None, None]) & 15
    symbols_N16 = symbols_N28.reshape(-1, _DEPTH).astype(jnp.int32)
    return jnp.pad(symbols_N16, ((0, 0), (0, 1)))


def _packed(symbols_N16: Int[Array, "N 16"]) -> UInt32[Array, "N 2"]:
    """Returns the register that holds the symbols."""
    shifts_8 = 4 * jnp.arange(8, dtype=jnp.uint32)
    symbols_N28 = symbols_N16.astype(jnp.uint32).reshape(-1, 2, 8)
    return (symbols_N28 << shifts_8[None, None]).sum(axis=2, dtype=jnp.uint32)


def _of_tokens(
    allowed_NC: Bool[Array, "N C"], class_V: Integer[Array, " V"]
) -> Bool[Array, "N V"]:
    """Returns each class's value for all its tokens.

    The bits of 32 rows are packed into one word, so that one look-up a token serves
    all of them: look-ups in the order of the vocabulary are what costs time here.
    """
    num_rows, num_classes = allowed_NC.shape
    num_words = -(-num_rows // _WORD)
    padding = ((0, num_words * _WORD - num_rows), (0, 0))
    bits = jnp.pad(allowed_NC, padding).reshape(num_words, _WORD, num_classes)
    shifts = jnp.arange(_WORD, dtype=jnp.uint32)[None, :, None]
    words = (bits.astype(jnp.uint32) << shifts).sum(axis=1, dtype=jnp.uint32)
    words = jnp.take(words, class_V, axis=1)[:, None]
    is_allowed = ((words >> shifts) & 1).astype(bool)
    return is_allowed.reshape(num_words * _WORD, -1)[:num_rows]
