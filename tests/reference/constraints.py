"""Slow readers of texts under a constraint: one by bytes, one by tokens, with lists."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

DEAD = -1
BOTTOM = 0
DEPTH = 16
UNLIMITED = (1 << 31) - 1


class Position(NamedTuple):
    """Where a reader is: a state and the open brackets, the last one at the end."""

    state: int
    stack: tuple[int, ...] = ()


def after_bytes(automaton: Any, position: Position, data: bytes) -> Position | None:
    """Where the bytes lead; None if they are not allowed or leave too much open."""
    state, stack = position.state, [BOTTOM, *position.stack]
    for byte in data:
        change = automaton.moves[automaton.move_A256[state, byte]][stack[-1]]
        state = int(automaton.next_A256[state, byte])
        if state == DEAD or change is None:
            return None
        stack[-1:] = change
    assert stack[0] == BOTTOM
    return None if len(stack) > DEPTH + 1 else Position(state, tuple(stack[1:]))


def is_whole(automaton: Any, position: Position) -> bool:
    return bool(automaton.is_accepting_A[position.state]) and not position.stack


def reads(automaton: Any, text: str) -> bool:
    """Whether an automaton allows a whole text."""
    data = text.encode("utf-8", "surrogatepass")
    position = after_bytes(automaton, Position(automaton.starts[0]), data)
    return position is not None and is_whole(automaton, position)


class Trial(NamedTuple):
    """What a token would do."""

    position: Position
    needed: int
    """Tokens that then end the text, if each writes one byte."""


@dataclass(frozen=True)
class TokenReader:
    """Reads tokens by the tables, one row, with the stack as a tuple."""

    tables: Any
    position: Position
    budget: int = UNLIMITED

    @staticmethod
    def at_start(tables: Any, constraint: int = 1, budget: int = UNLIMITED):
        return TokenReader(tables, Position(int(tables.start_J[constraint])), budget)

    def trial(self, token_class: int) -> Trial | None:
        """What the tokens of a class do; None if the form does not allow them."""
        tables = self.tables
        effect = int(tables.effect_AC[self.position.state, token_class])
        below = list(self.position.stack)
        for level in range(int(tables.num_pops_E[effect])):
            symbol = below.pop() if below else BOTTOM
            if not (int(tables.pops_EU[effect, level]) >> symbol) & 1:
                return None
        top = below.pop() if below else BOTTOM
        outcome = int(tables.outcome_EZ[effect, top])
        if outcome == 0:
            return None
        written = tables.symbols_XY[outcome, : tables.size_X[outcome]].tolist()[::-1]
        stack = [symbol for symbol in [*below, *written] if symbol != BOTTOM]
        if len(stack) > DEPTH:
            return None
        needed = int(tables.finish_X[outcome])
        needed += sum(int(tables.closing_Z[symbol]) for symbol in below)
        return Trial(Position(int(tables.state_X[outcome]), tuple(stack)), needed)

    def allowed_classes(self) -> list[int]:
        trials = {
            token_class: trial
            for token_class in range(self.tables.effect_AC.shape[1])
            if (trial := self.trial(token_class)) is not None
        }
        wise = [c for c, trial in trials.items() if trial.needed < self.budget]
        return wise or list(trials)

    def allows(self, token: int) -> bool:
        return int(self.tables.class_V[token]) in self.allowed_classes()

    def after(self, token: int) -> "TokenReader":
        trial = self.trial(int(self.tables.class_V[token]))
        assert trial is not None
        return replace(self, position=trial.position, budget=self.budget - 1)


def random_tokens(
    reader: TokenReader, members: dict[int, list[int]], ends: set[int], random: Random
) -> list[int]:
    """Tokens drawn class by class until an end or until the budget is spent.

    Classes are drawn evenly, so that brackets come as often as letters.
    """
    tokens: list[int] = []
    while reader.budget > 0 and not ends & {*tokens[-1:]}:
        allowed = reader.allowed_classes()
        assert allowed, "no token is allowed"
        tokens.append(random.choice(members[random.choice(allowed)]))
        reader = reader.after(tokens[-1])
    return tokens


def random_spelling(data: bytes, ids: dict[bytes, int], random: Random) -> list[int]:
    """One of the ways to write bytes in tokens, which hold every single byte."""
    longest = max(map(len, ids))
    tokens = []
    while data:
        lengths = [
            n for n in range(1, longest + 1) if data[:n] in ids and data[n - 1 :]
        ]
        length = random.choice(lengths)
        tokens.append(ids[data[:length]])
        data = data[length:]
    return tokens
