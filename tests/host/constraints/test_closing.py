from collections import deque

import numpy as np
import pytest

from jaxgrpo.host.constraints.byte_automaton import ByteAutomaton
from jaxgrpo.host.constraints.closing import NEVER, closing_costs
from jaxgrpo.host.constraints.json_value import json_value
from jaxgrpo.host.constraints.markers import after_text, after_whitespace, followed_by
from jaxgrpo.host.constraints.python_literal import python_literal
from jaxgrpo.host.constraints.regular import regular
from tests.reference.constraints import BOTTOM, Position, after_bytes, is_whole

ALL_BYTES = np.ones(256, bool)
MOST_OPEN = 2


def different_bytes(automaton: ByteAutomaton, state: int) -> list[bytes]:
    """One byte of each kind that a state tells apart."""
    kinds = np.stack([automaton.next_A256[state], automaton.move_A256[state]])
    return [bytes([byte]) for byte in np.unique(kinds, axis=1, return_index=True)[1]]


def distances(automaton: ByteAutomaton) -> dict[Position, float]:
    """Tokens to the end from each position, by search over all texts of low depth."""
    start = Position(automaton.starts[0])
    before: dict[Position, list[Position]] = {start: []}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for byte in different_bytes(automaton, here.state):
            there = after_bytes(automaton, here, byte)
            if there is None or len(there.stack) > MOST_OPEN:
                continue
            if there not in before:
                before[there] = []
                waiting.append(there)
            before[there].append(here)
    found = {here: 1.0 for here in before if is_whole(automaton, here)}
    waiting = deque(found)
    while waiting:
        there = waiting.popleft()
        for here in before[there]:
            if here not in found:
                found[here] = found[there] + 1
                waiting.append(here)
    return {here: found.get(here, float("inf")) for here in before}


@pytest.mark.parametrize(
    "automaton",
    [
        python_literal(),
        json_value(),
        followed_by(json_value(), b"[/A]"),
        after_whitespace(python_literal()),
        regular(r"-?[0-9]{2,4}(\.[0-9]+)?|(ab)+"),
    ],
    ids=["python_literal", "json", "followed", "after", "regex"],
)
def test_costs_are_the_shortest_ways_to_an_end(automaton: ByteAutomaton):
    costs = closing_costs(automaton, ALL_BYTES)
    expected = distances(automaton)
    assert len(expected) >= 10
    for here, distance in expected.items():
        cost = costs.after(here.state, (BOTTOM, *here.stack), automaton.closed_A)
        assert cost == distance, here


def test_free_text_promises_nothing():
    automaton = after_text(json_value(), b"ab")
    costs = closing_costs(automaton, ALL_BYTES)
    assert costs.own_AZ[automaton.is_free_A].max() == 0
    assert costs.own_AZ[~automaton.is_free_A, BOTTOM].min() == 1


def test_there_is_no_way_where_a_byte_has_no_token():
    is_single_256 = ALL_BYTES.copy()
    is_single_256[list(b"]")] = False
    automaton = json_value()
    costs = closing_costs(automaton, is_single_256)
    inside = after_bytes(automaton, Position(automaton.starts[0]), b"[")
    outside = after_bytes(automaton, Position(automaton.starts[0]), b"{")
    assert inside is not None and outside is not None
    assert costs.own_AZ[inside.state, inside.stack[-1]] == NEVER
    assert costs.own_AZ[outside.state, outside.stack[-1]] == 1
