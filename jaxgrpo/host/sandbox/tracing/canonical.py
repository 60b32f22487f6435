"""Values as short texts that are equal where the values are, whoever made them.

No method of the program's classes is called, no address of an object is shown, and the
work for one value is bounded whatever its size. What is left out of a text is counted;
a checksum of it tells most large values apart that differ only there, whatever is
nested in them. Numbers that are equal count as equal in a checksum, of any type.
"""

import array
import collections
import datetime
import decimal
import fractions
import types
import zlib
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Any

MAX_CHARACTERS = 160
"""Of a single string, number or bytes."""
MAX_ITEMS = 48
"""Of one container; of a larger one, only these and a checksum are shown."""
MAX_NODES = 256
"""Containers in all that one text describes; of the others there is a checksum."""
MAX_CHECKED_NODES = 1024
"""Containers in all that count in a text or its checksums."""
MAX_DEPTH = 8
CHECKED_BYTES = 1 << 14
"""Of a long text, at either end, that its checksum is made of."""
CHECKED_ITEMS = 256
"""Of a large container, at either end, that its checksum is made of."""
CHECKED_NUMBERS = 4096
"""Likewise where all are numbers."""
MAX_CHECKED_NUMBERS = 1 << 16
"""Of all containers in one text; of those after it, CHECKED_ITEMS at either end."""
MAX_UNORDERED = 4096
"""Items of the largest set or dictionary that has a checksum."""

ATOMS = (type(None), bool, int, float, complex, str, bytes)
"""Immutable: the same object is the same value."""
NUMBERS = frozenset((bool, int, float))
ATOM_BASES: tuple[Any, ...] = (int, float, complex, str, bytes)
REPR_TYPES = (
    type(Ellipsis),
    type(NotImplemented),
    range,
    slice,
    decimal.Decimal,
    fractions.Fraction,
    datetime.date,
    datetime.time,
    datetime.datetime,
    datetime.timedelta,
)
"""Types whose own `repr` runs no code of the program and shows no address."""
OPAQUE: dict[type, str] = {
    types.FunctionType: "<function>",
    types.BuiltinFunctionType: "<function>",
    types.MethodType: "<function>",
    types.GeneratorType: "<generator>",
    types.CoroutineType: "<coroutine>",
    types.ModuleType: "<module>",
    type: "<class>",
}
SEQUENCES: dict[type, str] = {
    list: "[{}]",
    tuple: "({})",
    collections.deque: "deque({})",
    bytearray: "bytearray({})",
    array.array: "array({})",
}
SETS: dict[type, str] = {set: "{{{}}}", frozenset: "frozen{{{}}}"}


def canonical(value: object) -> str:
    """The text of a value.

    Sets are sorted, and dictionaries by their keys: as for `==`, order does not count.
    Instances of the program's classes are shown by their attributes, without the name
    of the class; those of other classes by that name alone.

    Example:
      >>> canonical({"b": {3, 1}, "a": (1.0, None)})
      "{'a': (1.0, None), 'b': {1, 3}}"
      >>> canonical([print, canonical])
      '[<function>, <function>]'
    """
    return _Writer().text(value, ())


class _Writer:
    """Writes one value."""

    def __init__(self) -> None:
        self.num_nodes = 0
        self._num_checked = 0
        self._is_checking = False
        """Whether the text at hand is only wanted for its checksum."""

    def text(self, value: object, above: tuple[int, ...]) -> str:
        """The text of a value that lies inside others, named by their identity."""
        kind = type(value)
        if kind in ATOMS:
            return _atom(_common(value) if self._is_checking else value)
        if kind in OPAQUE:
            return OPAQUE[kind]
        if kind in REPR_TYPES:
            return _shortened(repr(value))
        self.num_nodes += 1
        if id(value) in above:
            return "<itself>"
        if len(above) >= MAX_DEPTH or self.num_nodes > MAX_CHECKED_NODES:
            return "<more>"
        if self.num_nodes > MAX_NODES and not self._is_checking:
            return f"<more, checksum {self._checksum([value], above):08x}>"
        return self._structured(value, kind, (*above, id(value)))

    def _structured(self, value: Any, kind: type, above: tuple[int, ...]) -> str:
        # Methods are those of the builtin base, not what a subclass made of them.
        for base, form in SEQUENCES.items():
            if issubclass(kind, base):
                text = self._sequence(value, base, above)
                is_single = base is tuple and tuple.__len__(value) == 1
                return form.format(f"{text}," if is_single else text)
        for base, form in SETS.items():
            if issubclass(kind, base):
                size, items = base.__len__(value), base.__iter__(value)
                text = self._unordered(items, size, self._writing_text(above))
                return form.format(text) if size else f"{base.__name__}()"
        if issubclass(kind, dict):
            items, size = dict.items(value), dict.__len__(value)
            return f"{{{self._unordered(items, size, self._writing_pair(above))}}}"
        for base in ATOM_BASES:
            if issubclass(kind, base):
                return _atom(base.__new__(base, value))
        if issubclass(kind, BaseException):
            found = BaseException.args.__get__(value)  # type: ignore[attr-defined]
            return f"{kind.__name__}({self._sequence(found, tuple, above)})"
        if issubclass(kind, type):
            return OPAQUE[type]
        if kind.__module__ == "numpy":
            return self._numpy(value, kind, above)
        return self._attributes(value, kind, above)

    def _writing_text(self, above: tuple[int, ...]) -> Callable[[object], str]:
        return lambda item: self.text(item, above)

    def _writing_pair(self, above: tuple[int, ...]) -> Callable[[tuple], str]:
        return lambda pair: f"{self.text(pair[0], above)}: {self.text(pair[1], above)}"

    def _sequence(self, value: Any, base: Any, above: tuple[int, ...]) -> str:
        size = base.__len__(value)
        num_shown = 0 if self._is_checking and size > MAX_ITEMS else MAX_ITEMS
        first = islice(base.__iter__(value), num_shown)
        shown = [self.text(item, above) for item in first]
        if size > num_shown:
            num_ends = self._num_ends()
            items = [*islice(base.__iter__(value), 2 * num_ends)]
            if size > 2 * num_ends:
                last = range(size - num_ends, size)
                items[num_ends:] = (base.__getitem__(value, index) for index in last)
            checksum = self._checksum(items, above)
            shown.append(f"<{size} in all, checksum {checksum:08x}>")
        return ", ".join(shown)

    def _num_ends(self) -> int:
        is_through = self._num_checked > MAX_CHECKED_NUMBERS
        return CHECKED_ITEMS if is_through else CHECKED_NUMBERS

    def _checksum(self, items: list, above: tuple[int, ...]) -> int:
        """A checksum of items; of many that are no numbers, of those at the ends."""
        self._num_checked += len(items)
        if len(items) > 1 and NUMBERS.issuperset(map(type, items)):
            return _checksum_of_numbers(items)
        was_checking, self._is_checking = self._is_checking, True
        total = 0
        for item in chain(
            items[:CHECKED_ITEMS], items[CHECKED_ITEMS:][-CHECKED_ITEMS:]
        ):
            total = zlib.crc32(self.text(item, above).encode("utf-8", "replace"), total)
        self._is_checking = was_checking
        return total

    def _unordered(self, items: Iterable, size: int, write: Callable) -> str:
        if size <= MAX_ITEMS:
            return ", ".join(sorted(map(write, items)))
        if size > MAX_UNORDERED:
            return f"<{size} in all>"
        was_checking, self._is_checking = self._is_checking, True
        texts = (write(item) for item in items)
        total = sum(zlib.crc32(text.encode("utf-8", "replace")) for text in texts)
        self._is_checking = was_checking
        if self.num_nodes > MAX_CHECKED_NODES:
            # Which of them were left out depends on their order.
            return f"<{size} in all>"
        return f"<{size} in all, checksum {total & 0xFFFFFFFF:08x}>"

    def _attributes(self, value: object, kind: type, above: tuple[int, ...]) -> str:
        if kind.__module__ != "__main__" and kind is not types.SimpleNamespace:
            return f"<{kind.__name__}>"
        found = _attributes_of(value, kind)
        texts = [
            f"{name}={self.text(found[name], above)}"
            for name in sorted(found)[:MAX_ITEMS]
        ]
        if len(found) > MAX_ITEMS:
            texts.append(f"<{len(found)} in all>")
        return f"object({', '.join(texts)})"

    def _numpy(self, value: Any, kind: type, above: tuple[int, ...]) -> str:
        shape = getattr(value, "shape", None)
        if not (isinstance(shape, tuple) and hasattr(value, "tolist")):
            return f"<{kind.__name__}>"
        if shape == ():
            return self.text(value.item(), above)
        if value.size <= MAX_ITEMS:
            return f"array({self.text(value.tolist(), above)})"
        flat, num_ends = value.reshape(-1), self._num_ends()
        items = flat[: 2 * num_ends].tolist()
        if value.size > 2 * num_ends:
            items[num_ends:] = flat[-num_ends:].tolist()
        checksum = self._checksum(items, above)
        return f"array(<shape {shape}, checksum {checksum:08x}>)"


def _attributes_of(value: object, kind: type) -> dict[str, object]:
    """Attributes of an instance, from its dictionary and its slots."""
    found: dict[str, object] = {}
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        own = None
    if type(own) is dict:
        found |= {name: content for name, content in own.items() if type(name) is str}
    for base in kind.__mro__:
        for name, member in type.__getattribute__(base, "__dict__").items():
            if not isinstance(member, types.MemberDescriptorType) or name == "__dict__":
                continue
            try:
                found[name] = member.__get__(value)
            except AttributeError:
                continue
    return found


def _checksum_of_numbers(items: list) -> int:
    common = [item if type(item) is int else _common(item) for item in items]
    try:
        return zlib.crc32(repr(common).encode())
    except ValueError:  # One has more digits than Python writes down.
        return zlib.crc32(", ".join(map(_atom, common)).encode())


def _common(value: Any) -> Any:
    """The whole number that a flag or a fraction equals, or the value itself."""
    if type(value) is bool or type(value) is float and value.is_integer():
        return int(value)
    return value


def _atom(value: Any) -> str:
    kind = type(value)
    if kind is int and value.bit_length() > 4 * MAX_CHARACTERS:
        # Writing it down in decimal would take time that grows with its square.
        low, high = value & ((1 << 512) - 1), value >> (value.bit_length() - 64)
        checksum = zlib.crc32(b"%x %x" % (low, high))
        return f"<int of {value.bit_length()} bits, checksum {checksum:08x}>"
    if kind in (str, bytes) and len(value) > MAX_CHARACTERS:
        return _long(value)
    return repr(value)


def _long(value: Any) -> str:
    ends = repr((value[:CHECKED_BYTES], value[-CHECKED_BYTES:]))
    checksum = zlib.crc32(ends.encode("utf-8", "replace"))
    shown = repr(value[: MAX_CHARACTERS // 2])
    return f"<{shown} ... {len(value)} in all, checksum {checksum:08x}>"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else _long(text)
