"""Regular expressions and choices, as automata over bytes."""

import re
from collections.abc import Sequence

import numpy as np

from jaxgrpo.host.constraints.byte_automaton import (
    DEAD,
    MOST_STATES,
    ByteAutomaton,
    check_size,
)
from jaxgrpo.host.constraints.stack_moves import KEEP

_END = 256
"""The end-of-sequence token of the vocabulary of bytes."""
_NULL = 0
"""U+0000 stands before and after the pattern, and is never part of a text."""

_PIECE = re.compile(r"\\[pP](?:\{[^}]*\}|.)|\\.|.", re.DOTALL)
_FLAGS = re.compile(r"\(\?[a-zA-Z-]*[suxR][a-zA-Z-]*[:)]")


def regular(pattern: str) -> ByteAutomaton:
    r"""Returns the automaton of the texts that a regular expression matches whole.

    outlines-core compiles the expression over a vocabulary of the 256 bytes, which
    takes milliseconds whatever the real vocabulary is. It searches for matches, the
    first alternative first, and does not go on from every one: as of version 0.2.14
    `a|ab` is `a`, and after the `1` of `[0-9]+(\.[0-9]+)?` a point is refused. So it is
    given the expression between two U+0000, which nothing in it may match: then a match
    begins and ends in one place only. A pattern whose automaton is exponential, such
    as `.*a.{30}`, takes exponential time: `regular_process` bounds it.

    Args:
      pattern: In the syntax of outlines-core, which is that of Rust's `regex`, without
        the flags s, u, x and R.

    Raises:
      ValueError: It cannot be compiled, or needs too many states.

    Reference:
      https://github.com/dottxt-ai/outlines-core.
    """
    index = _compiled(pattern)
    transitions, finals = index.get_transitions(), index.get_final_states()
    start = transitions[index.get_initial_state()][_NULL]
    numbers, waiting = {start: 0}, [start]
    edges: list[tuple[int, int, int]] = []
    accepting: list[int] = []
    while waiting:
        state = waiting.pop()
        for byte, end in transitions.get(state, {}).items():
            if byte == _NULL and end in finals:
                accepting.append(numbers[state])
            if byte in (_NULL, _END):
                continue
            if end not in numbers:
                numbers[end] = len(numbers)
                waiting.append(end)
            edges.append((numbers[state], byte, numbers[end]))
    return _automaton(len(numbers), edges, accepting)


def _automaton(
    size: int, edges: Sequence[tuple[int, int, int]], accepting: Sequence[int]
) -> ByteAutomaton:
    check_size(size, MOST_STATES, "states")
    next_A256 = np.full((size, 256), DEAD, np.int32)
    if edges:
        sources, bytes_read, targets = np.array(edges).T
        next_A256[sources, bytes_read] = targets
    return ByteAutomaton(
        next_A256=next_A256,
        move_A256=np.zeros_like(next_A256),
        moves=(KEEP,),
        is_accepting_A=np.isin(np.arange(size), accepting),
        is_free_A=np.zeros(size, bool),
        closed_A=np.zeros(size, np.int32),
        starts=(0,),
    )


def any_of(choices: Sequence[str]) -> str:
    r"""Returns the regular expression of a choice of texts.

    Example:
      >>> any_of(["yes", "a|b"])
      'yes|a\\x{7c}b'
    """
    return "|".join(literal(choice) for choice in choices)


def literal(text: str) -> str:
    """Returns the regular expression that matches a text and nothing else."""
    return "".join(
        character if character.isalnum() and character.isascii()
        else f"\\x{{{ord(character):x}}}"
        for character in text
    )  # fmt: skip


def _compiled(pattern: str):
    # Imported late: only these constraints need it.
    try:
        from outlines_core import Index, Vocabulary
    except ImportError as error:
        raise ValueError(
            "constraints by regex or choice need outlines-core, which is not "
            "installed. Run pip install outlines-core."
        ) from error
    single_bytes = {bytes([byte]): [byte] for byte in range(256)}
    null = literal(chr(_NULL))
    try:
        whole = f"{null}(?:{_without_null(pattern)}){null}"
        return Index(whole, Vocabulary(_END, single_bytes))
    except ValueError as error:
        raise ValueError(
            f"the pattern {pattern!r} cannot be compiled: {error}. It is matched "
            "against the whole value; write it without anchors, look-around and "
            "back-references."
        ) from error


def _without_null(pattern: str) -> str:
    r"""Returns the pattern with U+0000 taken out of all classes of characters.

    Example:
      >>> _without_null(r"a.[^b]\W\.")
      'a[^\\n\\x00][[^b]--[\\x00]][\\W--[\\x00]]\\.'
    """
    if flags := _FLAGS.search(pattern):
        raise ValueError(
            f"its flags {flags.group()!r} are not supported; for any character, write "
            r"[\s\S]"
        )
    pieces = _PIECE.findall(pattern)
    parts = []
    while pieces:
        piece = pieces.pop(0)
        if piece == "[":
            piece += _rest_of_class(pieces)
        if piece == ".":
            piece = r"[^\n\x00]"
        elif piece[0] == "[" or piece[:2] in (r"\D", r"\W", r"\S", r"\p", r"\P"):
            piece = rf"[{piece}--[\x00]]"
        parts.append(piece)
    return "".join(parts)


def _rest_of_class(pieces: list[str]) -> str:
    """Takes the pieces of a class after its opening bracket; classes may nest."""
    taken = ""
    if pieces[:1] == ["^"]:
        taken += pieces.pop(0)
    if pieces[:1] == ["]"]:  # at the beginning it stands for itself
        taken += pieces.pop(0)
    while pieces:
        piece = pieces.pop(0)
        taken += piece
        if piece == "[":
            taken += _rest_of_class(pieces)
        elif piece == "]":
            break
    return taken
