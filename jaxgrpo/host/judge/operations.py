"""Python's operators and functions, as far as asserts use them, within bounds.

They are Python's own, on Python's own types. A program chooses some of the values that
they get, so none may cost much more than the size of what it is given.
"""

import ast
import collections
import copy
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

from jaxgrpo.host.sandbox.plain_data import MAX_EQUAL_HASHES

MAX_ITEMS = 1_000_000
"""Longest sequence that is built by `*` or `range`."""
MAX_BITS = 1 << 21
"""Largest integer that is computed."""


class UnboundedError(ValueError):
    """Something too large would be computed."""


def _set(items: Iterable[Any] = ()) -> set:
    return set(_without_collisions(items))


def _frozenset(items: Iterable[Any] = ()) -> frozenset:
    return frozenset(_without_collisions(items))


def _counter(items: Iterable[Any] = ()) -> collections.Counter:
    if isinstance(items, dict):
        return collections.Counter(items)
    return collections.Counter(_without_collisions(items))


def _without_collisions(items: Iterable[Any]) -> list:
    """The items as a list, if a set of them is cheap to build."""
    listed = list(items)
    counts = collections.Counter(map(hash, listed))
    crowded = {number for number, n in counts.items() if n > MAX_EQUAL_HASHES}
    seen: dict[int, list] = {number: [] for number in crowded}
    for item in listed if crowded else ():
        others = seen.get(hash(item))
        if others is None or item in others:
            continue
        others.append(item)
        if len(others) > MAX_EQUAL_HASHES:
            raise UnboundedError("a set of too many elements of the same hash")
    return listed


def _sum(items: Iterable[Any], start: Any = 0) -> Any:
    if not isinstance(start, list | tuple):
        return sum(items, start)
    listed = list(items)
    if not all(isinstance(item, type(start)) for item in listed):
        raise TypeError("a sum of sequences and other things")
    # Not one by one, which would copy the first items over and over.
    return type(start)(itertools.chain(start, *listed))


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MAX_ITEMS:
        raise UnboundedError(f"a range of {len(found)} items")
    return found


DRAINING: dict[str, Callable[..., Any]] = {
    "list": list,
    "tuple": tuple,
    "set": _set,
    "frozenset": _frozenset,
    "sorted": sorted,
    "sum": _sum,
    "max": max,
    "min": min,
    "all": all,
    "any": any,
}
"""Functions that do the same to an iterator as to the list of its items."""
FUNCTIONS: dict[str, Callable[..., Any]] = DRAINING | {
    "abs": abs,
    "bool": bool,
    "complex": complex,
    "divmod": divmod,
    "float": float,
    "int": int,
    "isinstance": isinstance,
    "len": len,
    "range": _range,
    "repr": repr,
    "round": round,
    "str": str,
    "math.ceil": math.ceil,
    "math.fabs": math.fabs,
    "math.floor": math.floor,
    "math.gcd": math.gcd,
    "math.isclose": math.isclose,
    "math.isinf": math.isinf,
    "math.isnan": math.isnan,
    "math.sqrt": math.sqrt,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "collections.Counter": _counter,
}
"""By the name they have in Python. All are bounded by the size of what they get."""
CONSTANTS: dict[str, object] = {
    "math.e": math.e,
    "math.inf": math.inf,
    "math.nan": math.nan,
    "math.pi": math.pi,
}

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def _times(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        _bound_bits(x.bit_length() + y.bit_length())
    for sequence, count in ((x, y), (y, x)):
        if isinstance(sequence, str | bytes | list | tuple) and isinstance(count, int):
            if len(sequence) * count > MAX_ITEMS:
                raise UnboundedError(f"a sequence of {len(sequence) * count} items")
    return x * y


def _power(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        _bound_bits(x.bit_length() * max(y, 0))
    return x**y


def _left_shift(x: Any, y: Any) -> Any:
    if isinstance(x, int) and isinstance(y, int):
        _bound_bits(x.bit_length() + y)
    return x << y


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, str | bytes):  # a format may ask for any width
        raise UnboundedError("formatting with %")
    return x % y


def _bound_bits(num_bits: int) -> None:
    if num_bits > MAX_BITS:
        raise UnboundedError(f"an integer of {num_bits} bits")


BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _times,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _remainder,
    ast.Pow: _power,
    ast.LShift: _left_shift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
