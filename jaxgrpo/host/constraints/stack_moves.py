"""What a byte may do to the stack of open brackets.

A symbol says which bracket is open and how far it has come. Symbols of all grammars are
different numbers, so that grammars can share one table; 0 is the empty stack. A move
gives, for the symbol on top, the symbols that take its place, the new top last; None
where the move is not allowed.
"""

from collections.abc import Iterable, Mapping

NUM_SYMBOLS = 16
"""Four bits a level; 0 is below the first bracket."""
BOTTOM = 0

Move = tuple[tuple[int, ...] | None, ...]
"""One entry for each symbol that may be on top."""

KEEP: Move = tuple((symbol,) for symbol in range(NUM_SYMBOLS))


def move(changes: Mapping[int, tuple[int, ...]]) -> Move:
    """Returns the move that makes these changes and is not allowed elsewhere.

    Args:
      changes: What takes the place of each symbol that the move is allowed on.
    """
    return tuple(changes.get(symbol) for symbol in range(NUM_SYMBOLS))


def kept(symbols: Iterable[int]) -> Move:
    """Returns the move that only asks for one of these symbols on top."""
    return move({symbol: (symbol,) for symbol in symbols})


def popped(symbols: Iterable[int]) -> Move:
    """Returns the move that closes any of these brackets."""
    return move({symbol: () for symbol in symbols})


def pushed(symbol: int, above: Iterable[int]) -> Move:
    """Returns the move that opens a bracket above any of these symbols."""
    return move({below: (below, symbol) for below in above})


def either(*moves: Move) -> Move:
    """Returns the move that does what the one of these does that is allowed."""
    joined: dict[int, tuple[int, ...]] = {}
    for one in moves:
        for symbol, change in enumerate(one):
            if change is not None:
                assert symbol not in joined, f"two changes of symbol {symbol}"
                joined[symbol] = change
    return move(joined)
