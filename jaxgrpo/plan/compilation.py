"""Compiling a program ahead of time, and what the result says of itself."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import jax

from jaxgrpo.plan.arrays import device_bytes
from jaxgrpo.plan.costs import Costs, program_costs
from jaxgrpo.plan.hlo import CALLS, Computation, Instruction, Module, parse_module
from jaxgrpo.plan.programs import Program

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_REFUSED = re.compile(r"(?:temporaries \(|Used )([\d.]+)([KMGT]?)")

_NO_BUFFER = frozenset(
    "parameter get-tuple-element tuple bitcast while conditional constant "
    "after-all copy-done call-start call-done async-start async-done "
    "opt-barrier".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """An array that a program computes and keeps in main memory for a while."""

    shape: str
    num_bytes: int
    source: str
    """The operation of the traced function that it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """What a program takes on one device. All bytes but those stated otherwise."""

    name: str
    phase: str
    compile_s: float
    arguments: int
    outputs: int
    aliased: int
    """Of the outputs that take the place of arguments."""
    temporaries: int
    code: int
    resident: int
    """What lies on the device besides its arguments."""
    has_weights: bool
    has_cache: bool
    calls: float
    """How often a step runs it."""
    costs: Costs
    """Of one run."""
    largest: tuple[Buffer, ...]
    """Its largest buffers, one of each shape, largest first."""
    largest_logits: Buffer | None
    """The largest with a vocabulary dim that is no weight."""

    @property
    def total(self) -> int:
        """Bytes on the device while it runs."""
        own = self.arguments + self.outputs - self.aliased + self.temporaries
        return own + self.code + self.resident


class OutOfMemoryError(Exception):
    """A compiler's refusal, with what would be needed on a device in all."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"needs {needed} bytes")
        self.needed = needed


def compile_program(
    program: Program, *, vocab_dims: set[int], width: int
) -> CompiledProgram:
    """Compiles a program and reads what it takes.

    Args:
      program: As from `run_programs`.
      vocab_dims: V, and V as one device holds it: sizes that nothing else has.
      width: D: what a vocabulary dim of a weight is joined with.

    Raises:
      OutOfMemoryError: If the compiler finds that it cannot fit.
    """
    lowered = program.lower(*program.arguments)
    begun = time.monotonic()
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        refused = _needed(str(error))
        if refused is None:
            raise
        # The compiler gives up on the temporaries; the rest is there besides.
        others = device_bytes((program.arguments, program.resident))
        raise OutOfMemoryError(refused + others) from None
    compile_s = time.monotonic() - begun
    memory = compiled.memory_analysis()
    assert memory is not None, "every backend of jax states it"
    module = parse_module(compiled.as_text() or "")
    buffers = largest_buffers(module)
    logits = (b for b in buffers if _is_of_logits(b.shape, vocab_dims, width))
    return CompiledProgram(
        name=program.name,
        phase=program.phase,
        compile_s=compile_s,
        arguments=memory.argument_size_in_bytes,
        outputs=memory.output_size_in_bytes,
        aliased=memory.alias_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        code=memory.generated_code_size_in_bytes,
        resident=device_bytes(program.resident),
        has_weights=program.has_weights,
        has_cache=program.has_cache,
        calls=program.calls,
        costs=program_costs(module, program.turns),
        largest=tuple(buffers),
        largest_logits=next(logits, None),
    )


def _needed(message: str) -> int | None:
    """Bytes of temporaries, from a compiler's refusal; None if it says another thing.

    Example:
      >>> text = "memory required for HLO temporaries (18.35G) exceeds available HBM"
      >>> f"{_needed(f'RESOURCE_EXHAUSTED: {text} (15.75G).') / 2**30:.2f}"
      '18.35'
    """
    found = _REFUSED.search(message) if "RESOURCE_EXHAUSTED" in message else None
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else None


def largest_buffers(module: Module) -> list[Buffer]:
    """Results that are kept in main memory, one of each shape, largest first.

    Arguments, and results that take their place, are none. Not all exist at once.

    Args:
      module: As from `parse_module`.
    """
    found: dict[str, Buffer] = {}
    for _, instruction in _executed(module, module.entry):
        for shape in instruction.shapes:
            text = str(shape)
            is_known = text in found and (found[text].source or not instruction.source)
            if shape.is_in_main_memory and not is_known:
                found[text] = Buffer(
                    shape=text, num_bytes=shape.num_bytes, source=instruction.source
                )
    return sorted(found.values(), key=lambda b: (-b.num_bytes, b.shape))


def _executed(
    module: Module, computation: Computation
) -> Iterator[tuple[Computation, Instruction]]:
    """Instructions that have a buffer of their own: those outside fusions."""
    for instruction in computation.instructions:
        if instruction.opcode == "while" or instruction.opcode in CALLS:
            for name in instruction.called:
                yield from _executed(module, module.computations[name])
        if instruction.opcode not in _NO_BUFFER:
            yield computation, instruction


def _is_of_logits(shape: str, vocab_dims: set[int], width: int) -> bool:
    """Whether the vocabulary comes last, which it does in no weight as it is stored."""
    dims = [int(size) for size in re.findall(r"\d+", shape.partition("[")[2])]
    *others, last = dims or [0]
    return last in vocab_dims and bool(others) and others != [width]
