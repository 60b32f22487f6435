"""Plain data as tagged JSON: how arguments and values cross the sandbox's border.

    None, bool, str, list, int and finite float    as JSON has them
    other int {"i": hex}    nan, inf {"f": text}    complex {"c": [re, im]}
    bytes {"b": hex}        tuple {"t": [...]}      set {"s": [...]}
    frozenset {"z": [...]}  dict {"d": [[k, v], ...]}

Both sides use this file (the zygote too: standard library only). Decoding builds
nothing but these types, whatever the bytes are, so a value that a program returns
cannot bring code or an `__eq__` of its own along.
"""

import collections
import json
import math
from collections.abc import Iterable
from typing import Any

MAX_DEPTH = 100
MAX_JSON_INT = 2**63
MAX_INT_BITS = 1 << 20
MAX_EQUAL_HASHES = 32
"""Elements of one set or dict that may share a hash: more would stall whoever
builds it, each being compared with all the others."""

DICT_TYPES = (
    dict,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
)
ENCODER = json.JSONEncoder(check_circular=False)
SEQUENCE_TAGS = {tuple: "t", set: "s", frozenset: "z"}


class NotPlainDataError(ValueError):
    """A value that cannot cross the border, or bytes that encode none."""


class TooMuchDataError(NotPlainDataError):
    """Plain data, but more of it than the border lets through."""


def to_bytes(value: object, max_bytes: int) -> bytes:
    """The encoding of a value.

    Types are matched exactly, an instance of a subclass is refused, with three
    exceptions: the dictionaries of `collections` cross as plain ones, named tuples
    as tuples, and NumPy's scalars as the Python number they hold.

    Args:
      value: What to encode.
      max_bytes: Largest encoding.

    Raises:
      TooMuchDataError: The encoding would be larger.
      NotPlainDataError: The value holds another type or is nested too deeply.

    Example:
      >>> to_bytes((1, 2.0, {"a"}), 100)
      b'{"t": [1, 2.0, {"s": ["a"]}]}'
    """
    encoded = ENCODER.encode(Tagger(max_bytes).tagged(value)).encode("ascii")
    if len(encoded) > max_bytes:
        raise TooMuchDataError(f"a value of more than {max_bytes} bytes")
    return encoded


def from_bytes(encoded: bytes) -> object:
    """The value of an encoding; the bytes may be anything.

    Raises:
      NotPlainDataError: The bytes are not the encoding of a value.

    Example:
      >>> from_bytes(b'{"d": [["a", {"i": "0xff"}]]}')
      {'a': 255}
    """
    try:
        return untagged(json.loads(encoded))
    except NotPlainDataError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotPlainDataError(
            f"not an encoded value: {type(error).__name__}"
        ) from None


class Tagger:
    """Turns one value into what JSON can hold, and stops when it grows too large.

    Without the count, a few lists that refer to each other would unfold to billions.
    """

    def __init__(self, max_items: int) -> None:
        self.max_items = max_items
        self.num_items = 0

    def count(self, num_items: int) -> None:
        """Notes characters or items, each of which takes a byte at least."""
        self.num_items += num_items
        if self.num_items > self.max_items:
            raise TooMuchDataError(f"a value of more than {self.max_items} bytes")

    def tagged(self, value: Any, depth: int = 0) -> object:
        """The value in terms of what JSON can hold."""
        kind = type(value)
        if kind is str or kind is bytes:
            self.count(len(value))
            return value if kind is str else {"b": value.hex()}
        self.count(1)
        if value is None or kind is bool:
            return value
        if kind in NUMBER_TAGGERS:
            return NUMBER_TAGGERS[kind](value)
        if depth >= MAX_DEPTH:
            raise NotPlainDataError(f"a value nested deeper than {MAX_DEPTH}")
        if kind is list:
            return self.items(value, depth)
        if kind in SEQUENCE_TAGS:
            return {SEQUENCE_TAGS[kind]: self.items(value, depth)}
        if kind in DICT_TYPES:
            return {"d": [self.items(pair, depth) for pair in value.items()]}
        if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
            return {"t": self.items(tuple.__iter__(value), depth)}
        if kind.__module__ == "numpy" and hasattr(kind, "item"):
            return self.tagged(value.item(), depth + 1)
        raise NotPlainDataError(f"a value of type {kind.__name__} is not plain data")

    def items(self, values: Iterable, depth: int) -> list:
        """The items of a container, one level deeper."""
        return [self.tagged(item, depth + 1) for item in values]


def _tagged_int(value: int) -> object:
    if -MAX_JSON_INT < value < MAX_JSON_INT:
        return value
    if value.bit_length() > MAX_INT_BITS:
        raise TooMuchDataError(f"an integer of more than {MAX_INT_BITS} bits")
    return {"i": hex(value)}


def _tagged_float(value: float) -> object:
    return value if math.isfinite(value) else {"f": repr(value)}


def _tagged_complex(value: complex) -> object:
    return {"c": [_tagged_float(value.real), _tagged_float(value.imag)]}


def untagged(found: object, depth: int = 0) -> object:
    """The value that this stands for, rebuilt from exact types."""
    if found is None or isinstance(found, (bool, str, int)):
        return found
    if isinstance(found, float):
        if not math.isfinite(found):
            raise NotPlainDataError("not an encoded value: a bare nan or inf")
        return found
    if depth >= MAX_DEPTH:
        raise NotPlainDataError(f"a value nested deeper than {MAX_DEPTH}")
    if isinstance(found, list):
        return [untagged(item, depth + 1) for item in found]
    assert isinstance(found, dict), "JSON holds no other type"
    ((tag, content),) = found.items()
    return BUILDERS[tag](content, depth + 1)


def _int_from_hex(content: str, depth: int) -> int:
    if len(content) > MAX_INT_BITS // 4 + 3:
        raise NotPlainDataError(f"an integer of more than {MAX_INT_BITS} bits")
    return int(content, 16)


def _special_float(content: str, depth: int) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]


def _complex(content: list, depth: int) -> complex:
    real, imag = (untagged(part, depth) for part in content)
    if type(real) is not float or type(imag) is not float:
        raise NotPlainDataError("not an encoded value: a complex number of other parts")
    return complex(real, imag)


def _bytes(content: str, depth: int) -> bytes:
    return bytes.fromhex(content)


def _items(content: object, depth: int) -> list:
    if not isinstance(content, list):
        raise NotPlainDataError("not an encoded value: a container without items")
    return [untagged(item, depth) for item in content]


def _tuple(content: list, depth: int) -> tuple:
    return tuple(_items(content, depth))


def _set(content: list, depth: int) -> set:
    items = _items(content, depth)
    refuse_equal_hashes(items)
    return set(items)


def _frozenset(content: list, depth: int) -> frozenset:
    return frozenset(_set(content, depth))


def _dict(content: list, depth: int) -> dict:
    pairs = [(untagged(key, depth), untagged(value, depth)) for key, value in content]
    refuse_equal_hashes([key for key, _ in pairs])
    return dict(pairs)


def refuse_equal_hashes(items: list) -> None:
    """Raises where so many items share a hash that a set of them is slow to build."""
    if len(items) <= MAX_EQUAL_HASHES:
        return
    counts = collections.Counter(hash(item) for item in items)
    if max(counts.values()) > MAX_EQUAL_HASHES:
        # Equal items are harmless, but no honest encoding repeats them.
        raise NotPlainDataError("a set or dict with too many elements of the same hash")


NUMBER_TAGGERS = {int: _tagged_int, float: _tagged_float, complex: _tagged_complex}
BUILDERS = {
    "i": _int_from_hex,
    "f": _special_float,
    "c": _complex,
    "b": _bytes,
    "t": _tuple,
    "s": _set,
    "z": _frozenset,
    "d": _dict,
}
