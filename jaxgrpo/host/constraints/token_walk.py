"""From bytes to tokens: where each token leads, from each state, on an unknown stack.

A token may hold several words and brackets. What it does is found by following its
bytes with the stack left open: the brackets that it closes are noted as sets of symbols
that they may be, and what it does to the next symbol as one case for each symbol.
"""

from typing import NamedTuple

import numpy as np

from jaxgrpo.host.constraints.byte_automaton import DEAD, ByteAutomaton
from jaxgrpo.host.constraints.stack_moves import KEEP, NUM_SYMBOLS, Move
from jaxgrpo.host.constraints.trie import Trie

MAX_DEPTH = 16
"""Brackets that may be open at once: 64 bits hold the symbols."""

NOWHERE = 0
"""The number of the course that is not allowed."""

_UNKNOWN = -1


class Course(NamedTuple):
    """What some bytes do, begun in some state on an unknown stack."""

    state: int
    """Where they end."""
    popped: tuple[int, ...]
    """The symbols they close, from the top; each a set as the bits of a number."""
    tops: tuple[tuple[int, ...] | None, ...]
    """What takes the place of the next symbol, for each symbol that it may be."""


UNTOUCHED = tuple((symbol,) for symbol in range(NUM_SYMBOLS))
"""`tops` of a course that leaves the stack as it is."""

_NOWHERE = Course(DEAD, (), (None,) * NUM_SYMBOLS)


class Walker:
    """Follows many tokens at once; equal courses have equal numbers.

    Args:
      automaton: Over bytes.
    """

    def __init__(self, automaton: ByteAutomaton):
        self.courses: list[Course] = [_NOWHERE]
        self._automaton = automaton
        self._numbers = {_NOWHERE: NOWHERE}
        num_states = len(automaton.next_A256)
        # Where each byte leads from each course, filled as it is asked for; at once for
        # the courses that have not touched the stack, of which patterns have thousands.
        self._steps = np.full((num_states + 1024, 256), _UNKNOWN, np.int32)
        self._steps[NOWHERE] = NOWHERE
        for state in range(num_states):
            self.number(Course(state, (), UNTOUCHED))
        keeps = np.array([move == KEEP for move in automaton.moves])
        is_known_A256 = keeps[automaton.move_A256] | (automaton.next_A256 == DEAD)
        # The course untouched in state a has number a + 1, and no state is DEAD = -1.
        numbers_A256 = automaton.next_A256 + 1
        self._steps[1 : num_states + 1][is_known_A256] = numbers_A256[is_known_A256]

    def number(self, course: Course) -> int:
        """Returns the number of a course, a new one if it is new."""
        number = self._numbers.setdefault(course, len(self.courses))
        if number == len(self.courses):
            self.courses.append(course)
            if number == len(self._steps):
                more = np.full_like(self._steps, _UNKNOWN)
                self._steps = np.concatenate([self._steps, more])
        return number

    def courses_of(self, state: int, trie: Trie) -> np.ndarray:
        """Returns the number of each text's course; NOWHERE where it is not allowed.

        Args:
          state: Where the texts begin.
          trie: The texts.
        """
        first = self.number(Course(state, (), UNTOUCHED))
        course_of_node = np.full(len(trie.byte_of_node), NOWHERE, np.int32)
        nodes = np.array([Trie.ROOT])
        numbers = np.array([first], np.int32)
        while len(nodes):
            course_of_node[nodes] = numbers
            numbers = np.repeat(numbers, trie.num_children_of_node[nodes])
            nodes = trie.children(nodes)
            numbers = self._after(numbers, trie.byte_of_node[nodes])
            is_alive = numbers != NOWHERE
            nodes, numbers = nodes[is_alive], numbers[is_alive]
        return course_of_node[trie.node_of_text]

    def _after(self, numbers: np.ndarray, bytes_here: np.ndarray) -> np.ndarray:
        ends = self._steps[numbers, bytes_here]
        is_unknown = ends == _UNKNOWN
        if not is_unknown.any():
            return ends
        pairs = numbers[is_unknown].astype(np.int64) * 256 + bytes_here[is_unknown]
        for pair in np.unique(pairs).tolist():
            number, byte = divmod(pair, 256)
            end = self.number(_continued(self._automaton, self.courses[number], byte))
            self._steps[number, byte] = end
        return self._steps[numbers, bytes_here]


def _continued(automaton: ByteAutomaton, course: Course, byte: int) -> Course:
    """Returns the course that goes on by a byte; one that is nowhere, if it cannot."""
    state = int(automaton.next_A256[course.state, byte])
    if state == DEAD:
        return _NOWHERE
    change = automaton.moves[automaton.move_A256[course.state, byte]]
    tops = tuple(_changed(top, change) for top in course.tops)
    left = {len(top) == 0 for top in tops if top is not None}
    if not left:
        return _NOWHERE
    if left == {False}:
        return Course(state, course.popped, tops)
    # The byte closed what was open at first: in no case may it have left it open.
    assert left == {True}
    symbols = sum(1 << symbol for symbol, top in enumerate(tops) if top is not None)
    if len(course.popped) == MAX_DEPTH:
        return _NOWHERE
    return Course(state, (*course.popped, symbols), UNTOUCHED)


def _changed(top: tuple[int, ...] | None, change: Move) -> tuple[int, ...] | None:
    changed = None if top is None else change[top[-1]]
    if top is None or changed is None:
        return None
    longer = top[:-1] + changed
    # One more than the depth: the lowest symbol may be the empty stack.
    return longer if len(longer) <= MAX_DEPTH + 1 else None
