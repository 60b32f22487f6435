"""The text of a compiled program, read as computations of instructions.

Only what a plan needs is read: shapes and where they are kept, operands, called
computations, and how often a loop turns. The grammar is that of XLA's `HloModule`
text, https://openxla.org/xla/operation_semantics; compilers add attributes of their
own, which are left as text.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_BYTES_OF_TYPE = {
    "pred": 1, "s4": 0.5, "u4": 0.5, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2,
    "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8,
    "c128": 16, "f8e4m3fn": 1, "f8e5m2": 1, "f8e4m3": 1, "f8e4m3b11fnuz": 1,
}  # fmt: skip
"""Bytes of an element; tokens and opaque values have none."""

CALLS = ("call", "conditional", "async-start", "call-start")
"""Operations that run other computations, once and not as a fusion."""

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9,]*)\](\{[^{}]*\})?")
_NAME = re.compile(r"%([\w.\-]+)")
_HEAD = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$")
_END = re.compile(r"\}(?:,|$)")  # what follows names the cores that run it
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|branch_computations)=")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


@dataclass(frozen=True, slots=True)
class Shape:
    """One array of an instruction's result."""

    dtype: str
    dims: tuple[int, ...]
    is_in_main_memory: bool
    """False for what the compiler keeps in a scratch memory beside the cores."""

    @property
    def num_bytes(self) -> int:
        """Bytes of its elements, without the padding of a tiled layout."""
        return math.ceil(_BYTES_OF_TYPE.get(self.dtype, 0) * math.prod(self.dims))

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    """Of the result; several for a tuple, flattened."""
    operands: tuple[str, ...]
    attributes: str
    """What follows the operands, as text."""
    is_root: bool

    @cached_property
    def called(self) -> tuple[str, ...]:
        """Computations that its attributes name."""
        found: list[str] = []
        for match in _CALLED.finditer(self.attributes):
            rest = self.attributes[match.end() :]
            end = rest.find("}") if rest.startswith("{") else rest.find(",")
            found += _NAME.findall(rest if end < 0 else rest[:end])
        return tuple(found)

    @property
    def num_bytes(self) -> int:
        """Bytes of its result."""
        return sum(shape.num_bytes for shape in self.shapes)

    def attribute(self, name: str) -> str:
        """The text of one attribute, up to the comma or brace that ends it; or ''."""
        found = re.search(rf"\b{name}=(\{{[^}}]*\}}|[^,\s]+)", self.attributes)
        return found.group(1) if found else ""

    @property
    def source(self) -> str:
        """The operation of the traced function that it stands for, or ''."""
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found.group(1) if found else ""


@dataclass(frozen=True)
class Computation:
    """Instructions in the order of the text."""

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """Its instructions by name."""
        return {i.name: i for i in self.instructions}

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose result is that of the computation."""
        return next(i for i in self.instructions if i.is_root)

    @cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """Its arguments, by position."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return tuple(sorted(found, key=lambda i: int(i.attributes)))


@dataclass(frozen=True)
class Module:
    """A compiled program."""

    computations: dict[str, Computation]
    entry: Computation

    def bound(self, loop: Instruction) -> int | None:
        """How often a `while` turns at most; None if its text does not say.

        Args:
          loop: The instruction.
        """
        stated = _TRIPS.search(loop.attributes)
        if stated:
            return int(stated.group(1))
        condition = self.computations[loop.attribute("condition").lstrip("%")]
        return min(self._bounds(condition), default=None)

    def _bounds(
        self, condition: Computation, given: dict[int, int] | None = None
    ) -> Iterator[int]:
        """Constants above 0 that a carried number has to be less than.

        Args:
          condition: Of a loop, or what is fused in it.
          given: Constants that are handed in, by position of the argument.
        """
        for instruction in condition.instructions:
            if instruction.opcode == "fusion":
                constants = {
                    position: int(operand.attributes)
                    for position, name in enumerate(instruction.operands)
                    if _is_integer(operand := condition.by_name[name])
                }
                for name in instruction.called:
                    yield from self._bounds(self.computations[name], constants)
            elif instruction.attribute("direction") == "LT":
                number, limit = (condition.by_name[n] for n in instruction.operands)
                if number.opcode not in ("get-tuple-element", "parameter"):
                    continue
                if _is_integer(limit):
                    yield from _positive(int(limit.attributes))
                elif limit.opcode == "parameter" and given:
                    yield from _positive(given.get(int(limit.attributes), 0))


def _positive(number: int) -> Iterator[int]:
    if number > 0:
        yield number


def _is_integer(instruction: Instruction) -> bool:
    """Whether it is a constant whole number."""
    return instruction.opcode == "constant" and bool(
        re.fullmatch(r"-?\d+", instruction.attributes)
    )


def parse_module(text: str) -> Module:
    """Reads the text of a compiled module.

    Args:
      text: As from `compiled.as_text()`.

    Raises:
      ValueError: If it has no entry computation.

    Example:
      >>> module = parse_module('''HloModule m
      ... ENTRY %main (x: f32[2]) -> f32[2] {
      ...   %x = f32[2]{0} parameter(0)
      ...   ROOT %y = f32[2]{0} add(%x, %x)
      ... }''')
      >>> module.entry.root.opcode, module.entry.root.num_bytes
      ('add', 8)
    """
    computations: dict[str, Computation] = {}
    entry, name, lines = "", "", []
    for line in text.splitlines():
        opened = None if name else _COMPUTATION.match(line)
        if opened:
            name, lines = opened.group(2), []
            entry = name if opened.group(1) else entry
        elif name and _END.match(line):
            instructions = tuple(filter(None, map(_instruction, lines)))
            computations[name] = Computation(name, instructions)
            name = ""
        elif name and _HEAD.match(line):
            lines.append(line)
        elif name and lines:  # a kernel's own notes may hold line breaks
            lines[-1] += line
    if entry not in computations:
        raise ValueError(
            "the text of the compiled program has no entry computation. Report the "
            "version of jaxlib."
        )
    return Module(computations, computations[entry])


def _instruction(line: str) -> Instruction | None:
    head = _HEAD.match(line)
    if head is None:
        return None
    rest = line[head.end() :]
    end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
    result, rest = rest[:end], rest[end:].lstrip()
    opcode, _, rest = rest.partition("(")
    end = _closing("(" + rest, 0) - 1
    operands, attributes = rest[:end], rest[end + 1 :].lstrip(", ")
    names = tuple(_NAME.findall(operands))
    if not names and opcode in ("constant", "parameter"):
        attributes = operands  # the value, or the position
    return Instruction(
        name=head.group(2),
        opcode=opcode.strip(),
        shapes=tuple(_shape(match) for match in _ARRAY.finditer(result)),
        operands=names,
        attributes=attributes,
        is_root=bool(head.group(1)),
    )


def _closing(text: str, start: int) -> int:
    """Position of the parenthesis that closes the one at `start`."""
    depth = 0
    for match in re.finditer(r"[()]", text[start:]):
        depth += 1 if match.group() == "(" else -1
        if not depth:
            return start + match.start()
    raise ValueError(f"unbalanced line in a compiled program: {text[:80]!r}.")


def _shape(match: re.Match[str]) -> Shape:
    dtype, dims, layout = match.groups()
    sizes = tuple(int(size) for size in dims.split(",") if size)
    # Space 0, the default, is the large memory of the device.
    space = re.search(r"S\((\d+)\)", layout or "")
    return Shape(dtype, sizes, space is None or space.group(1) == "0")
