"""Text around a value: free text up to a marker before it, a marker after it."""

import numpy as np

from jaxgrpo.host.constraints.byte_automaton import DEAD, ByteAutomaton, joined
from jaxgrpo.host.constraints.stack_moves import BOTTOM, kept

MOST_LINE_BREAKS = 2
"""Between a marker and the value."""


def followed_by(automaton: ByteAutomaton, marker: bytes) -> ByteAutomaton:
    """Returns the automaton of the same values, each with the marker at once after it.

    Args:
      automaton: Of values that begin at its only start.
      marker: At least one byte, the first of which cannot continue a value.

    Raises:
      ValueError: It could.
    """
    ends = np.flatnonzero(automaton.is_accepting_A)
    if (automaton.next_A256[ends, marker[0]] != DEAD).any():
        raise ValueError(
            f"the closing marker {marker.decode()!r} begins with a character that "
            "might also continue the value. Let it begin with another one, such as a "
            "line break or '<'."
        )
    size, length = len(automaton.next_A256), len(marker)
    # State size + i has read i + 1 bytes of the marker.
    next_A256 = _extended(automaton.next_A256, length, DEAD)
    move_A256 = _extended(automaton.move_A256, length, 0)
    next_A256[ends, marker[0]] = size
    move_A256[ends, marker[0]] = len(automaton.moves)
    for index in range(1, length):
        next_A256[size + index - 1, marker[index]] = size + index
    return automaton._replace(
        next_A256=next_A256,
        move_A256=move_A256,
        moves=(*automaton.moves, kept([BOTTOM])),
        is_accepting_A=np.arange(size + length) == size + length - 1,
        is_free_A=_extended(automaton.is_free_A, length, False),
        closed_A=_extended(automaton.closed_A, length, automaton.closed_A[0]),
    )


def after_whitespace(automaton: ByteAutomaton) -> ByteAutomaton:
    """Returns the automaton of the same texts with up to two line breaks and a blank.

    What may be whitespace of the value itself belongs to the value.

    Args:
      automaton: Of values that begin at its only start.
    """
    (start,) = automaton.starts
    size, count = len(automaton.next_A256), MOST_LINE_BREAKS + 1
    # State size + i may still read i line breaks.
    next_A256 = _extended(automaton.next_A256, count, DEAD)
    move_A256 = _extended(automaton.move_A256, count, 0)
    next_A256[size:] = automaton.next_A256[start]
    move_A256[size:] = automaton.move_A256[start]
    if automaton.next_A256[start, ord(" ")] == DEAD:
        next_A256[size:, ord(" ")] = start
    if automaton.next_A256[start, ord("\n")] == DEAD:
        next_A256[size + 1 :, ord("\n")] = np.arange(size, size + count - 1)
    return automaton._replace(
        next_A256=next_A256,
        move_A256=move_A256,
        is_accepting_A=_extended(
            automaton.is_accepting_A, count, automaton.is_accepting_A[start]
        ),
        is_free_A=_extended(automaton.is_free_A, count, False),
        closed_A=_extended(automaton.closed_A, count, automaton.closed_A[0]),
        starts=(size + count - 1,),
    )


def after_text(automaton: ByteAutomaton, marker: bytes) -> ByteAutomaton:
    """Returns the automaton of any text, the marker's first occurrence, and a value.

    Args:
      automaton: Of values that begin at its only start.
      marker: At least one byte.
    """
    length = len(marker)
    next_A256 = _occurrences(marker)
    both = joined([_free(next_A256), automaton])
    (_, start) = both.starts
    # The last byte of the marker enters the value.
    both.next_A256[:length][next_A256 == length] = start
    return both._replace(starts=(0,))


def after_special_token(automaton: ByteAutomaton, token_id: int) -> ByteAutomaton:
    """Returns the automaton of any text, a special token, and a value."""
    both = joined([anything(), automaton])
    (free, start) = both.starts
    return both._replace(
        is_accepting_A=both.is_accepting_A & ~both.is_free_A,
        starts=(free,),
        jumps=(*both.jumps, (free, token_id, start)),
    )


def anything() -> ByteAutomaton:
    """Returns the automaton of all texts, special tokens among them."""
    return _free(np.zeros((1, 256), np.int32))._replace(is_accepting_A=np.array([True]))


def nothing() -> ByteAutomaton:
    """Returns the automaton of the empty text."""
    free = _free(np.full((1, 256), DEAD, np.int32))
    return free._replace(is_accepting_A=np.array([True]), is_free_A=np.array([False]))


def _free(next_A256: np.ndarray) -> ByteAutomaton:
    size = len(next_A256)
    return ByteAutomaton(
        next_A256=next_A256,
        move_A256=np.zeros_like(next_A256),
        moves=(kept(range(16)),),
        is_accepting_A=np.zeros(size, bool),
        is_free_A=np.ones(size, bool),
        closed_A=np.zeros(size, np.int32),
        starts=(0,),
    )


def _occurrences(marker: bytes) -> np.ndarray:
    """Returns int32 [len(marker), 256]: how much of the marker the text then ends with.

    Row i stands for a text that ends with the marker's first i bytes and no more.

    Reference:
      Knuth, Morris, Pratt, Fast pattern matching in strings, 1977.
    """
    next_A256 = np.zeros((len(marker), 256), np.int32)
    border = 0  # the longest proper prefix that the text read so far ends with
    for index, byte in enumerate(marker):
        next_A256[index] = next_A256[border]
        next_A256[index, byte] = index + 1
        if index:
            border = int(next_A256[border, byte])
    return next_A256


def _extended(values: np.ndarray, count: int, fill: int | np.generic) -> np.ndarray:
    rows = np.full((count, *values.shape[1:]), fill, values.dtype)
    return np.concatenate([values, rows])
