"""The collectives of a compiled program: kind, size, and how many devices take part."""

import math
import re
from typing import NamedTuple

from jaxgrpo.plan.hlo import Computation, Instruction

KINDS = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "ragged-all-to-all",
)
"""Operations by which devices exchange arrays."""


class Collective(NamedTuple):
    """One exchange among a group of devices."""

    kind: str
    """A name of `KINDS`."""
    shape: str
    """Of the whole array: what is gathered, reduced, scattered or exchanged."""
    num_bytes: int
    """Of that array."""
    group_size: int
    """Devices that take part."""

    @property
    def received_bytes(self) -> float:
        """What each device receives, where the transfer goes round a ring.

        With M bytes and n devices: M (n - 1) / n for a gather, a scatter or an
        exchange; twice that for a reduction to all; M for a permutation.

        Example:
          >>> Collective("all-reduce", "f32[256]", 1024, 4).received_bytes
          1536.0
        """
        if self.kind == "collective-permute":
            return float(self.num_bytes)
        n = self.group_size
        return self._passes * self.num_bytes * (n - 1) / n

    @property
    def hops(self) -> int:
        """How often data goes from one device to the next, one after the other."""
        if self.kind == "collective-permute":
            return 1
        return self._passes * (self.group_size - 1)

    @property
    def _passes(self) -> int:
        return 2 if self.kind == "all-reduce" else 1


def collective_of(
    computation: Computation, instruction: Instruction
) -> Collective | None:
    """The collective that an instruction starts, or None.

    A reduction of which a fusion keeps each device's own slice is a scatter, whatever
    its opcode: a TPU compiler writes `reduce-scatter` so.

    Args:
      computation: Where the instruction stands.
      instruction: Any.
    """
    kind = instruction.opcode.removesuffix("-start")
    if kind not in KINDS:
        return None
    operands = [computation.by_name[name] for name in instruction.operands]
    shapes = instruction.shapes
    if kind == "reduce-scatter" or instruction.opcode.endswith("-start"):
        shapes = tuple(shape for operand in operands for shape in operand.shapes)
    num_bytes = sum(shape.num_bytes for shape in shapes)
    group_size = _group_size(instruction.attributes)
    if instruction.opcode == "all-gather-start":
        num_bytes *= group_size
    if kind == "all-reduce" and computation.name.startswith("all-reduce-scatter"):
        kind = "reduce-scatter"
    text = str(shapes[0]) + (f" and {len(shapes) - 1} more" if shapes[1:] else "")
    return Collective(kind, text, num_bytes, group_size)


def _group_size(attributes: str) -> int:
    """Devices of a group, from any of the notations of `replica_groups`.

    Example:
      >>> _group_size("replica_groups={{0,1},{2,3}}, dimensions={0}")
      2
      >>> _group_size("replica_groups=[2,4]<=[8]")
      4
      >>> _group_size("replica_groups=mesh['a'=2,'b'=4] {'b'}, channel_id=1")
      4
    """
    named = re.search(r"replica_groups=mesh\[([^\]]*)\][^{]*\{([^}]*)\}", attributes)
    if named:
        sizes = dict(re.findall(r"'([^']+)'=(\d+)", named.group(1)))
        axes = re.findall(r"'([^']+)'", named.group(2))
        return math.prod(int(sizes[axis]) for axis in axes)
    iota = re.search(r"replica_groups=\[\d+,(\d+)\]<=", attributes)
    if iota:
        return int(iota.group(1))
    listed = re.search(r"replica_groups=\{\{([^}]*)\}", attributes)
    return len(listed.group(1).split(",")) if listed else 1
