"""Automata over bytes with a stack of open brackets, and a builder for small ones."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxgrpo.host.constraints.stack_moves import KEEP, Move

DEAD = -1
"""No byte leads on from here."""


MOST_STATES = 1 << 14
"""With 151,936 tokens, a thousand take about three seconds to compile."""


class ByteAutomaton(NamedTuple):
    """What may be written, byte by byte.

    The next state never depends on the stack: the stack only says whether the byte is
    allowed, and changes. A text is complete in an accepting state with an empty stack.
    """

    next_A256: np.ndarray
    """int32: the state after each byte; DEAD where it is not allowed."""
    move_A256: np.ndarray
    """int32: what the byte does to the stack, an index into `moves`."""
    moves: tuple[Move, ...]
    is_accepting_A: np.ndarray
    is_free_A: np.ndarray
    """True where anything goes: no value has begun, and special tokens may stand."""
    closed_A: np.ndarray
    """int32: the state in which the grammar of a state is after any bracket closes."""
    starts: tuple[int, ...]
    """Where a text begins; one for each automaton that was joined."""
    jumps: tuple[tuple[int, int, int], ...] = ()
    """(state, special token, next state), for tokens that write nothing and matter."""


class Sketch:
    """Collects states by name and edges between them; `automaton` returns the result.

    States are made when they are first named.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._edges: list[dict[int, tuple[int, int]]] = []
        self._moves: dict[Move, int] = {KEEP: 0}
        self._accepting: set[int] = set()

    def edge(
        self,
        source: str,
        characters: bytes | Iterable[int],
        target: str,
        move: Move = KEEP,
    ) -> None:
        """Adds an edge for each of the bytes; there must be none for them yet."""
        edges, end = self._edges[self._state(source)], self._state(target)
        number = self._moves.setdefault(move, len(self._moves))
        for byte in characters:
            assert byte not in edges, f"two edges from {source!r} at byte {byte}"
            edges[byte] = (end, number)

    def word(
        self, source: str, spelling: bytes, target: str, move: Move = KEEP
    ) -> None:
        """Adds a chain of edges; the move is made at the first byte."""
        assert spelling
        for index in range(len(spelling)):
            is_last = index == len(spelling) - 1
            end = target if is_last else f"{spelling[: index + 1]!r} to {target}"
            self.edge(source, spelling[index : index + 1], end, move)
            source, move = end, KEEP

    def also(self, source: str, other: str) -> None:
        """Gives a state the edges of another one, where it has none of its own."""
        edges = self._edges[self._state(source)]
        self._edges[self._state(source)] = self._edges[self._state(other)] | edges

    def accept(self, state: str) -> None:
        """Lets a text end in a state, if no bracket is open."""
        self._accepting.add(self._state(state))

    def has_edge(self, source: str, byte: int) -> bool:
        """Whether a byte is allowed in a state, whatever the stack."""
        return byte in self._edges[self._state(source)]

    def automaton(self, *, start: str, closed: str) -> ByteAutomaton:
        """Returns what was collected, as arrays.

        Args:
          start: Where a text begins.
          closed: Where every closing bracket leads.
        """
        shape = (len(self._edges), 256)
        next_A256 = np.full(shape, DEAD, np.int32)
        move_A256 = np.zeros(shape, np.int32)
        for source, edges in enumerate(self._edges):
            for byte, (target, number) in edges.items():
                next_A256[source, byte] = target
                move_A256[source, byte] = number
        states = np.arange(len(self._edges))
        return ByteAutomaton(
            next_A256=next_A256,
            move_A256=move_A256,
            moves=tuple(self._moves),
            is_accepting_A=np.isin(states, list(self._accepting)),
            is_free_A=np.zeros(len(states), bool),
            closed_A=np.full(len(states), self._ids[closed], np.int32),
            starts=(self._ids[start],),
        )

    def _state(self, name: str) -> int:
        if name not in self._ids:
            self._ids[name] = len(self._edges)
            self._edges.append({})
        return self._ids[name]


def joined(automata: Sequence[ByteAutomaton]) -> ByteAutomaton:
    """Returns one automaton that holds several side by side.

    Its state numbers are those of the parts, each raised by the sizes of those before;
    `starts` holds all of theirs, in order.
    """
    offsets = np.cumsum([0, *(len(one.next_A256) for one in automata)]).tolist()
    moves = tuple(dict.fromkeys([KEEP, *(m for one in automata for m in one.moves)]))
    nexts, numbers, closed, starts, jumps = [], [], [], [], []
    for one, offset in zip(automata, offsets, strict=False):
        is_dead_A256 = one.next_A256 == DEAD
        nexts.append(np.where(is_dead_A256, DEAD, one.next_A256 + offset))
        renumbered = np.array([moves.index(m) for m in one.moves], np.int32)
        numbers.append(renumbered[one.move_A256])
        closed.append(one.closed_A + offset)
        starts += [start + offset for start in one.starts]
        jumps += [(a + offset, token, b + offset) for a, token, b in one.jumps]
    return ByteAutomaton(
        next_A256=np.concatenate(nexts),
        move_A256=np.concatenate(numbers),
        moves=moves,
        is_accepting_A=np.concatenate([one.is_accepting_A for one in automata]),
        is_free_A=np.concatenate([one.is_free_A for one in automata]),
        closed_A=np.concatenate(closed),
        starts=tuple(starts),
        jumps=tuple(jumps),
    )


def check_size(size: int, largest: int, things: str) -> None:
    """Refuses constraints that would need too large a table.

    Raises:
      ValueError: They would.
    """
    if size > largest:
        raise ValueError(
            f"the constraints need a table of {size:,} {things}, more than "
            f"{largest:,}. Write a simpler pattern: repetitions with large counts take "
            "many states."
        )
