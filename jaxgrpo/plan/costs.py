"""The work of a compiled program on one device, read from its text.

Loops are counted as often as they can turn (XLA's own analysis counts a body once).
Three things are counted:

    FLOPs of matrix products, 2 for a multiplication and an addition; what else is
        computed is cheap beside them. Kernels count what they state (`kernels.py`).
    bytes between main memory and the cores: what each instruction outside a fusion
        reads and writes there. A fusion that reads a slice of an array, or writes one
        in place, counts the slice; what stays in scratch memory counts nothing.
    bytes that collectives receive (`collectives.py`).
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from jaxgrpo.plan.collectives import Collective, collective_of
from jaxgrpo.plan.hlo import CALLS, Computation, Instruction, Module, Shape
from jaxgrpo.plan.kernels import kernel_flops

# They move nothing: names for parts of other values, or values of no size.
_FREE = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all partition-id "
    "replica-id while conditional call call-start call-done async-start async-update "
    "async-done copy-done slice-done dynamic-slice-done opt-barrier add-dependency "
    "iota".split()
)
_SLICES = ("dynamic-slice", "slice", "gather")
_SAME_BYTES = ("bitcast", "reshape", "copy")
_Channel = tuple[str, str, str]
"""Kind, channel and shape of a collective: what tells it from others."""

_NO_WORK_TARGETS = ("AllocateBuffer", "Sharding", "SPMDFullToShardShape")


@dataclass(slots=True)
class Costs:
    """What a program does on one device."""

    flops: float = 0.0
    """Of matrix products."""
    memory_bytes: float = 0.0
    """Read from and written to main memory."""
    collectives: dict[Collective, float] = field(default_factory=dict)
    """How often each is made."""

    @property
    def received_bytes(self) -> float:
        """What the device receives from others."""
        return sum(c.received_bytes * times for c, times in self.collectives.items())

    @property
    def hops(self) -> float:
        """How often something goes from one device to the next."""
        return sum(c.hops * times for c, times in self.collectives.items())

    def add(self, other: "Costs", times: float = 1.0) -> None:
        """Counts another program's work too, so many times."""
        self.flops += other.flops * times
        self.memory_bytes += other.memory_bytes * times
        for collective, count in other.collectives.items():
            before = self.collectives.get(collective, 0.0)
            self.collectives[collective] = before + count * times


def program_costs(
    module: Module, turns: Mapping[tuple[int, ...], float] | None = None
) -> Costs:
    """The work of a whole program.

    Args:
      module: As from `parse_module`.
      turns: How often loops turn whose text has no bound, by the dims of an array that
        such a loop carries; others are counted once.
    """
    return _Walk(module, turns or {}).costs(module.entry)


@dataclass(frozen=True)
class _Walk:
    """What does not change on the way through a program."""

    module: Module
    turns: Mapping[tuple[int, ...], float]

    def costs(
        self, computation: Computation, outer: frozenset[_Channel] = frozenset()
    ) -> Costs:
        """The work of one run of a computation that is no fusion.

        Args:
          computation: Of the module.
          outer: Collectives of the computations around it.
        """
        costs = Costs()
        # A transfer that goes on during several fusions is named in each of them, also
        # in those of loops inside: it is one.
        found = dict(self._collectives(computation))
        for channel, collective in found.items():
            if channel not in outer:
                before = costs.collectives.get(collective, 0.0)
                costs.collectives[collective] = before + 1.0
        inside = outer | found.keys()
        for instruction in computation.instructions:
            if instruction.opcode == "while":
                body = self.module.computations[
                    instruction.attribute("body").lstrip("%")
                ]
                costs.add(self.costs(body, inside), self.turns_of(instruction))
            elif instruction.opcode in CALLS:
                for name in instruction.called:
                    costs.add(self.costs(self.module.computations[name], inside))
            else:
                part = (self.module, computation, instruction)
                costs.flops += _flops(*part)
                costs.memory_bytes += _memory_bytes(*part)
        return costs

    def _collectives(
        self, computation: Computation
    ) -> Iterator[tuple[_Channel, Collective]]:
        for instruction in computation.instructions:
            for inner, part in _with_fused(self.module, computation, instruction):
                collective = collective_of(inner, part)
                if collective is not None:
                    name = part.attribute("channel_id") or part.name
                    yield (collective.kind, name, collective.shape), collective

    def turns_of(self, loop: Instruction) -> float:
        """How often a loop turns."""
        bound = self.module.bound(loop)
        if bound is not None:
            return bound
        carried = {shape.dims for shape in loop.shapes}
        return next((n for dims, n in self.turns.items() if dims in carried), 1.0)


def _with_fused(
    module: Module, computation: Computation, instruction: Instruction
) -> Iterator[tuple[Computation, Instruction]]:
    """An instruction and, if it is a fusion, all that is fused in it."""
    yield computation, instruction
    if instruction.opcode == "fusion":
        for name in instruction.called:
            inner = module.computations[name]
            for part in inner.instructions:
                yield from _with_fused(module, inner, part)


# FLOPs


def _flops(module: Module, computation: Computation, instruction: Instruction) -> float:
    return sum(
        _own_flops(inner, part)
        for inner, part in _with_fused(module, computation, instruction)
    )


def _own_flops(computation: Computation, instruction: Instruction) -> float:
    if instruction.opcode == "dot":
        left = computation.by_name[instruction.operands[0]].shapes[0]
        contracted = _numbers(instruction.attribute("lhs_contracting_dims"))
        size = math.prod(left.dims[dim] for dim in contracted)
        return 2.0 * math.prod(instruction.shapes[0].dims) * size
    if instruction.opcode == "convolution":
        return _convolution_flops(computation, instruction)
    if instruction.opcode == "custom-call":
        operands = [computation.by_name[name] for name in instruction.operands]
        shapes = tuple(shape for operand in operands for shape in operand.shapes)
        stated = _stated_estimate(instruction, "flops")
        return stated or kernel_flops(instruction.name, shapes)
    return 0.0


def _stated_estimate(instruction: Instruction, name: str) -> float:
    """What a kernel's author stated of it, 0 where nothing is."""
    estimate = re.search(r'"cost_estimate":\{([^}]*)\}', instruction.attributes)
    number = re.search(rf'"{name}":"?(\d+)', estimate.group(1)) if estimate else None
    return float(number.group(1)) if number else 0.0


def _convolution_flops(computation: Computation, instruction: Instruction) -> float:
    """Of a convolution, which on a TPU every matrix product is.

    Positions where the window lies on padding, or between the elements of a dilated
    operand, are not computed: batch dims are written as such windows.
    """
    left, right = (computation.by_name[n].shapes[0] for n in instruction.operands[:2])
    left_labels, right_labels, out_labels = re.split(
        "_|->", instruction.attribute("dim_labels")
    )
    out = dict(zip(out_labels, instruction.shapes[0].dims, strict=True))
    kernel = dict(zip(right_labels, right.dims, strict=True))
    image = dict(zip(left_labels, left.dims, strict=True))
    spatial = sorted(label for label in out_labels if label.isdigit())
    window = _window(instruction.attribute("window"), len(spatial))
    positions = math.prod(
        _valid_positions(image[label], out[label], *window[int(label)])
        for label in spatial
    )
    groups = int(instruction.attribute("batch_group_count") or 1)
    return 2.0 * out["b"] * out["f"] * kernel["i"] * positions / groups


def _window(text: str, num_dims: int) -> list[tuple[int, int, int, int, int]]:
    """Size, stride, low padding, dilation of the image and of the window, per dim."""
    parts = dict(part.split("=") for part in text.strip("{}").split())
    if not num_dims:
        return []

    def numbers(name: str, default: str) -> list[int]:
        value = parts.get(name, "x".join([default] * num_dims))
        return [int(part.split("_")[0]) for part in value.split("x")]

    return list(
        zip(
            numbers("size", "1"),
            numbers("stride", "1"),
            numbers("pad", "0_0"),
            numbers("lhs_dilate", "1"),
            numbers("rhs_dilate", "1"),
            strict=True,
        )
    )


def _valid_positions(
    image: int,
    out: int,
    size: int,
    stride: int,
    padding: int,
    image_dilation: int,
    window_dilation: int,
) -> int:
    """Pairs of an output position and a window position that meet an element."""
    if size == 1 and not padding and image_dilation == 1:
        return out
    starts = np.arange(out) * stride - padding
    last = (image - 1) * image_dilation
    count = 0
    for offset in range(0, size * window_dilation, window_dilation):
        at = starts + offset
        count += int(((at >= 0) & (at <= last) & (at % image_dilation == 0)).sum())
    return count


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


# Bytes


def _memory_bytes(
    module: Module, computation: Computation, instruction: Instruction
) -> float:
    opcode = instruction.opcode
    if opcode in _FREE or instruction.attribute("custom_call_target").strip('"') in (
        _NO_WORK_TARGETS
    ):
        return 0.0
    operands = [computation.by_name[name] for name in instruction.operands]
    if opcode == "fusion":
        inner = module.computations[instruction.called[0]]
        read = sum(
            _read_bytes(module, inner, parameter)
            for parameter, operand in zip(inner.parameters, operands, strict=True)
            if _main_bytes(operand.shapes)
        )
        return read + _written_bytes(module, inner, inner.root, instruction.shapes)
    if opcode.endswith("-start"):  # between memories, while other things are computed
        moved = min(s.num_bytes for s in instruction.shapes if s.dims)
        ends = (operands[0].shapes[0], instruction.shapes[0])
        return moved * sum(end.is_in_main_memory for end in ends)
    stated = _stated_estimate(instruction, "bytes_accessed")
    if stated:
        return stated
    if opcode in _SLICES:
        return 2.0 * _main_bytes(instruction.shapes)
    if opcode in ("dynamic-update-slice", "scatter"):
        return 2.0 * _main_bytes(operands[-1 if opcode == "scatter" else 1].shapes)
    read = sum(_main_bytes(operand.shapes) for operand in operands)
    return read + _main_bytes(instruction.shapes)


def _main_bytes(shapes: tuple[Shape, ...]) -> float:
    return float(sum(s.num_bytes for s in shapes if s.is_in_main_memory))


def _read_bytes(module: Module, inner: Computation, value: Instruction) -> float:
    """What a fusion reads of one of its values."""
    read = 0.0
    for user in inner.instructions:
        for position, name in enumerate(user.operands):
            if name == value.name:
                read += _read_by(module, inner, user, position, value)
    return min(read, float(value.num_bytes))


def _read_by(
    module: Module,
    inner: Computation,
    user: Instruction,
    position: int,
    value: Instruction,
) -> float:
    if position == 0 and user.opcode in _SLICES:
        return user.num_bytes
    if position == 0 and user.opcode in ("dynamic-update-slice", "scatter"):
        return 0.0
    if user.opcode in _SAME_BYTES and not user.is_root:
        return _read_bytes(module, inner, user)
    if user.opcode == "fusion":
        nested = module.computations[user.called[0]]
        return _read_bytes(module, nested, nested.parameters[position])
    return value.num_bytes


def _written_bytes(
    module: Module,
    inner: Computation,
    value: Instruction,
    shapes: tuple[Shape, ...],
) -> float:
    """What a fusion writes of its result, or of one part of it."""
    if value.opcode == "tuple":
        parts = [inner.by_name[name] for name in value.operands]
        if len(parts) != len(shapes):  # a tuple in a tuple
            return _main_bytes(shapes)
        return sum(
            _written_bytes(module, inner, part, (shape,))
            for part, shape in zip(parts, shapes, strict=True)
        )
    if not _main_bytes(shapes):
        return 0.0
    if value.opcode == "dynamic-update-slice":
        return inner.by_name[value.operands[1]].num_bytes
    if value.opcode == "scatter":
        return inner.by_name[value.operands[-1]].num_bytes
    if value.opcode == "bitcast":
        source = inner.by_name[value.operands[0]]
        return _written_bytes(module, inner, source, shapes)
    if value.opcode == "fusion":
        nested = module.computations[value.called[0]]
        return _written_bytes(module, nested, nested.root, shapes)
    return _main_bytes(shapes)
