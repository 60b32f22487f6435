"""The tables that the device reads: classes of tokens, and what each does when."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxgrpo.host.constraints.byte_automaton import (
    DEAD,
    MOST_STATES,
    ByteAutomaton,
    check_size,
)
from jaxgrpo.host.constraints.closing import NEVER, ClosingCosts, closing_costs
from jaxgrpo.host.constraints.stack_moves import BOTTOM, NUM_SYMBOLS
from jaxgrpo.host.constraints.token_walk import (
    NOWHERE,
    UNTOUCHED,
    Course,
    Walker,
)
from jaxgrpo.host.constraints.trie import Trie
from jaxgrpo.host.constraints.vocabulary import Vocabulary

ENDED = 0
"""The state after the end-of-sequence token: nothing but that token is allowed."""

MOST_ENTRIES = 1 << 27
"""Of the table by state and class: half a gigabyte on the device at most."""


class TokenTables(NamedTuple):
    """Constraints as arrays: A states, C classes of tokens, E effects, X outcomes.

    In a state, a token has the effect of its class. An effect closes brackets, each of
    which must be one of a set, and then has an outcome that depends on the symbol which
    is on top then: a new state, and symbols in place of that one. Effect 0 and outcome
    0 are not allowed.
    """

    start_J: np.ndarray
    """State in which each constraint begins; constraint 0 allows everything."""
    class_V: np.ndarray
    """Class of each token; class 0 is never allowed."""
    effect_AC: np.ndarray
    num_pops_E: np.ndarray
    """Brackets that an effect closes, whatever is below them."""
    pops_EU: np.ndarray
    """Symbols that each may be, from the top, as the bits of a number; all bits where
    the effect closes no more."""
    outcome_EZ: np.ndarray
    """By the symbol that is then on top."""
    state_X: np.ndarray
    size_X: np.ndarray
    """Symbols that take the place of the one on top, 0 (the empty stack) included."""
    symbols_XY: np.ndarray
    """They, from the top."""
    depth_X: np.ndarray
    """How many of them are open brackets."""
    finish_X: np.ndarray
    """Tokens that then end the completion, if each writes one byte, without what the
    brackets below need."""
    closing_Z: np.ndarray
    """Tokens that a bracket needs to be closed, by its symbol."""


def token_tables(
    automaton: ByteAutomaton, vocabulary: Vocabulary, num_logits: int
) -> TokenTables:
    """Returns the tables of an automaton whose state 0 is `ENDED`.

    Tokens that do the same in every state are one class. They are found by hashes: two
    of 64 bits, so that a false match is beyond what memory errors make likely.

    Args:
      automaton: Over bytes; one start for each constraint.
      vocabulary: What the tokens write.
      num_logits: V; ids beyond the vocabulary are never allowed.

    Raises:
      ValueError: The vocabulary does not fit in V, or the table is too large.
    """
    _check_ids(vocabulary, num_logits)
    check_size(len(automaton.next_A256), MOST_STATES, "states")
    walker = Walker(automaton)
    class_V, members = _classes(automaton, vocabulary, walker, num_logits)
    num_states, num_classes = len(automaton.next_A256), 1 + len(members)
    check_size(num_states * num_classes, MOST_ENTRIES, "entries by state and class")
    course_AC = np.full((num_states, num_classes), NOWHERE, np.int32)
    tokens = _tokens(vocabulary, members)
    for state in range(num_states):
        for indices, courses in _courses(state, automaton, tokens, walker):
            course_AC[state, 1 + indices] = courses
    used, effect_AC = np.unique(course_AC, return_inverse=True)
    assert used[0] == NOWHERE, "class 0 is nowhere allowed"
    costs = closing_costs(automaton, vocabulary.single_bytes())
    costs.own_AZ[ENDED] = 0
    return TokenTables(
        start_J=np.array(automaton.starts[1:], np.int32),
        class_V=_narrow(class_V),
        effect_AC=_narrow(effect_AC.reshape(course_AC.shape)),
        **_effects([walker.courses[number] for number in used], automaton, costs),
    )


def _check_ids(vocabulary: Vocabulary, num_logits: int) -> None:
    num_tokens = len(vocabulary.pieces)
    if num_tokens > num_logits:
        raise ValueError(
            f"the tokenizer has {num_tokens:,} token ids, the model's output "
            f"{num_logits:,}. Use the tokenizer that the model was made with."
        )
    wrong = [token for token in vocabulary.eos_ids if not 0 <= token < num_tokens]
    if wrong or not vocabulary.eos_ids:
        raise ValueError(
            f"end-of-sequence ids {list(vocabulary.eos_ids)} are not all among the "
            f"tokenizer's {num_tokens:,} ids, or are none. Set eos_token_id."
        )


class _Tokens(NamedTuple):
    """Tokens by the way they act. Each is known by its index among those asked for."""

    texts: Trie
    text_indices: np.ndarray
    ends: np.ndarray
    """End-of-sequence tokens, whatever they might write."""
    special: np.ndarray
    """Other special tokens: they write nothing."""
    index_of: dict[int, int]
    """By token id."""


def _tokens(vocabulary: Vocabulary, token_ids: Sequence[int]) -> _Tokens:
    index_of = {token: index for index, token in enumerate(token_ids)}
    ends = set(vocabulary.eos_ids)
    special = set(vocabulary.special_ids.values()) - ends
    written = [t for t in index_of if t not in ends and vocabulary.pieces[t]]

    def indices(tokens: Iterable[int]) -> np.ndarray:
        found = [index_of[token] for token in tokens if token in index_of]
        return np.array(sorted(found), np.int64)

    return _Tokens(
        texts=Trie([vocabulary.pieces[token] for token in written]),
        text_indices=indices(written),
        ends=indices(ends),
        special=indices(special),
        index_of=index_of,
    )


def _courses(
    state: int, automaton: ByteAutomaton, tokens: _Tokens, walker: Walker
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields indices of tokens that a state allows on some stack, and their courses."""
    courses = walker.courses_of(state, tokens.texts)
    is_allowed = courses != NOWHERE
    yield tokens.text_indices[is_allowed], courses[is_allowed]
    if automaton.is_accepting_A[state]:
        # A text ends only where no bracket is open.
        tops = ((BOTTOM,), *[None] * (NUM_SYMBOLS - 1))
        yield _all(tokens.ends, walker.number(Course(ENDED, (), tops)))
    if automaton.is_free_A[state]:
        targets = {
            tokens.index_of[token]: target
            for source, token, target in automaton.jumps
            if source == state and token in tokens.index_of
        }
        still = np.setdiff1d(tokens.special, list(targets))
        yield _all(still, walker.number(Course(state, (), UNTOUCHED)))
        for index, target in targets.items():
            course = walker.number(Course(target, (), UNTOUCHED))
            yield _all(np.array([index]), course)


def _all(indices: np.ndarray, course: int) -> tuple[np.ndarray, np.ndarray]:
    return indices, np.full(len(indices), course, np.int32)


def _classes(
    automaton: ByteAutomaton, vocabulary: Vocabulary, walker: Walker, num_logits: int
) -> tuple[np.ndarray, list[int]]:
    """Returns the class of each id, and one token of each class from class 1 on."""
    tokens = _tokens(vocabulary, range(len(vocabulary.pieces)))
    # The last row is of no token: what nothing allows is class 0, if only this one.
    hashes_V2 = np.zeros((num_logits + 1, 2), np.uint64)
    for state in range(len(automaton.next_A256)):
        for indices, courses in _courses(state, automaton, tokens, walker):
            keys = (np.uint64(state) << np.uint64(32)) | courses.astype(np.uint64)
            hashes_V2[indices, 0] += _mixed(keys)
            hashes_V2[indices, 1] += _mixed(~keys)
    distinct_C2, first_C, class_V = np.unique(
        hashes_V2, axis=0, return_index=True, return_inverse=True
    )
    assert not distinct_C2[0].any()
    return class_V[:-1], first_C[1:].tolist()


def _mixed(keys: np.ndarray) -> np.ndarray:
    """Returns 64 well-mixed bits of each key.

    Reference:
      Steele, Lea, Flood, Fast splittable pseudorandom number generators, 2014.
    """
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def _effects(
    courses: Sequence[Course], automaton: ByteAutomaton, costs: ClosingCosts
) -> dict[str, np.ndarray]:
    """Returns the fields of `TokenTables` that say what the effects do."""
    num_pops_E = np.array([len(course.popped) for course in courses], np.int32)
    pops_EU = np.full(
        (len(courses), num_pops_E.max()), (1 << NUM_SYMBOLS) - 1, np.int32
    )
    outcome_EZ = np.zeros((len(courses), NUM_SYMBOLS), np.int32)
    # What cannot be brought to an end is not allowed either: outcome 0.
    outcomes = [(DEAD, (BOTTOM,))]
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    for effect, course in enumerate(courses):
        pops_EU[effect, : len(course.popped)] = course.popped
        for symbol, top in enumerate(course.tops):
            if top is None:
                continue
            outcome = (course.state, top)
            if outcome not in numbers:
                is_hopeless = costs.after(*outcome, automaton.closed_A) >= NEVER
                numbers[outcome] = 0 if is_hopeless else len(outcomes)
                outcomes += [] if is_hopeless else [outcome]
            outcome_EZ[effect, symbol] = numbers[outcome]
    width = max(len(top) for _, top in outcomes)
    symbols_XY = np.array(
        [top[::-1] + (BOTTOM,) * (width - len(top)) for _, top in outcomes], np.uint8
    )
    finish_X = [costs.after(*outcome, automaton.closed_A) for outcome in outcomes[1:]]
    return {
        "num_pops_E": num_pops_E,
        "pops_EU": pops_EU,
        "outcome_EZ": outcome_EZ,
        "state_X": np.array([max(state, ENDED) for state, _ in outcomes], np.int32),
        "size_X": np.array([len(top) for _, top in outcomes], np.int32),
        "symbols_XY": symbols_XY,
        "depth_X": (symbols_XY != BOTTOM).sum(axis=1).astype(np.int32),
        "finish_X": np.array([NEVER, *finish_X], np.int32),
        "closing_Z": costs.below_Z.astype(np.int32),
    }


def _narrow(values: np.ndarray) -> np.ndarray:
    """Returns the same numbers in 16 bits where they fit, as they are read often."""
    return values.astype(np.uint16 if values.max() < 1 << 16 else np.int32)
