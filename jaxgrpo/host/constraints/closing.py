"""The cheapest ends: how many single bytes complete a text from each state."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxgrpo.host.constraints.byte_automaton import DEAD, ByteAutomaton
from jaxgrpo.host.constraints.stack_moves import BOTTOM, KEEP, NUM_SYMBOLS, Move

NEVER = 1 << 28
"""More tokens than any budget; sums of some of them still fit in 32 bits."""


class ClosingCosts(NamedTuple):
    """Numbers of tokens, if each writes one byte."""

    own_AZ: np.ndarray
    """From a state with a symbol on top: until the symbol is closed; with an empty
    stack, until the text has ended, the end-of-sequence token included. 0 in free text,
    which promises nothing. NEVER where there is no way."""
    below_Z: np.ndarray
    """For a symbol under the top: until it is closed, once all above it is."""

    def after(self, state: int, symbols: tuple[int, ...], closed_A: np.ndarray) -> int:
        """Returns the tokens to the end, with these symbols the lowest on the stack.

        Args:
          state: Where the text is.
          symbols: From the lowest to the top; at least one.
          closed_A: The automaton's.
        """
        cost = int(self.own_AZ[state, symbols[-1]])
        cost += sum(int(self.below_Z[symbol]) for symbol in symbols[:-1])
        if symbols[-1] != BOTTOM:
            cost += int(self.own_AZ[closed_A[state], BOTTOM])
        return min(cost, NEVER)


def closing_costs(automaton: ByteAutomaton, is_single_256: np.ndarray) -> ClosingCosts:
    """Returns the costs of the shortest ends that open no bracket.

    Args:
      automaton: Over bytes.
      is_single_256: True for bytes that a token of their own writes.
    """
    num_states = len(automaton.next_A256)
    sources, targets = _steps(automaton, is_single_256)
    done = num_states * NUM_SYMBOLS
    costs = np.full(done + 1, NEVER, np.int64)
    # A search backwards from what is done, one step further each time.
    order = np.argsort(targets, kind="stable")
    sources, targets = sources[order], targets[order]
    free = np.flatnonzero(np.repeat(automaton.is_free_A, NUM_SYMBOLS))
    reached, cost = np.append(free, done), 0
    while len(reached):
        costs[reached] = cost
        firsts = np.searchsorted(targets, reached, "left")
        lasts = np.searchsorted(targets, reached, "right")
        before = sources[_ranges(firsts, lasts - firsts)]
        reached, cost = np.unique(before[costs[before] == NEVER]), cost + 1
    own_AZ = costs[:done].reshape(num_states, NUM_SYMBOLS)
    is_closed_A = np.zeros(num_states, bool)
    is_closed_A[automaton.closed_A] = True
    is_closed_A &= ~automaton.is_free_A
    below_Z = own_AZ[is_closed_A].min(axis=0, initial=NEVER)
    below_Z[below_Z == NEVER] = 0  # symbols that no grammar uses
    below_Z[BOTTOM] = 0
    return ClosingCosts(own_AZ, below_Z)


def _steps(
    automaton: ByteAutomaton, is_single_256: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns what one token can do, from node to node.

    A node is a state and the symbol on top, as state * 16 + symbol; the last one stands
    for a bracket that is closed, or a text that has ended.
    """
    is_edge_A256 = (automaton.next_A256 != DEAD) & is_single_256
    states, bytes_read = np.nonzero(is_edge_A256)
    nexts = automaton.next_A256[states, bytes_read]
    numbers = automaton.move_A256[states, bytes_read]
    done = len(automaton.next_A256) * NUM_SYMBOLS
    ends = np.flatnonzero(automaton.is_accepting_A) * NUM_SYMBOLS + BOTTOM
    sources, targets = [ends], [np.full(len(ends), done)]
    for number, symbol in itertools.product(
        range(len(automaton.moves)), _used_symbols(automaton.moves)
    ):
        top = automaton.moves[number][symbol]
        if top is None or len(top) > 1:
            continue
        mine = numbers == number
        sources.append(states[mine] * NUM_SYMBOLS + symbol)
        there = nexts[mine] * NUM_SYMBOLS + top[0] if top else np.full(mine.sum(), done)
        targets.append(there)
    pairs = np.stack([np.concatenate(sources), np.concatenate(targets)])
    return tuple(np.unique(pairs, axis=1))


def _used_symbols(moves: Sequence[Move]) -> list[int]:
    """Returns the symbols that some move tells from others, and the empty stack."""
    changing = [move for move in moves if move != KEEP]
    pairs = itertools.product(changing, range(NUM_SYMBOLS))
    return sorted({BOTTOM, *(s for move, s in pairs if move[s] is not None)})


def _ranges(firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns first, first + 1 ... of each range, one range after another."""
    skipped = firsts - (np.cumsum(counts) - counts)
    return np.repeat(skipped, counts) + np.arange(counts.sum())
