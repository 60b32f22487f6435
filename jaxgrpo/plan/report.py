"""A plan as text for people, and as plain data for programs."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxgrpo.plan.advice import advice_lines
from jaxgrpo.plan.compilation import Buffer, CompiledProgram
from jaxgrpo.plan.costs import Costs
from jaxgrpo.plan.hardware import GIB
from jaxgrpo.plan.planning import Plan

NUM_COLLECTIVES = 6
"""Largest collectives that are listed for a phase."""

_LAST_PARTS = ("other temporaries", "program")

NUM_BUFFERS = 3
"""Largest buffers that are listed for a program."""


def plan_lines(plan: Plan) -> list[str]:
    """The plan as lines of text.

    Args:
      plan: As from `make_plan`.
    """
    lines = [*_headings(plan), "", *_memory_table(plan), "", *_work_table(plan)]
    for program in plan.programs:
        lines += ["", *_program_lines(program)]
    return [*lines, "", *_verdict(plan)]


def _headings(plan: Plan) -> Iterator[str]:
    w, layout, a = plan.workload, plan.layout, plan.workload.architecture
    yield (
        f"{plan.model}: {_count(plan.num_parameters)} parameters, "
        f"{_count(plan.num_trained)} trained; {a.num_layers} layers of width "
        f"{a.width:,}"
    )
    yield (
        f"{plan.topology.name}: {plan.topology.num_devices} x {plan.topology.chip.name}"
        f"; mesh data {layout.data}, fsdp {layout.fsdp}, tensor {layout.tensor}"
    )
    yield (
        f"a step: {w.num_prompts} prompts of {w.prompt_tokens:,} tokens, "
        f"{w.group_size} completions of {w.completion_tokens:,} each; "
        f"{w.forward.dtype}, attention {w.forward.attention}"
    )
    rows = w.num_rows // w.minibatches // layout.microbatches
    yield (
        f"an update: {layout.microbatches} x {rows} completions, remat {layout.remat}, "
        f"logits of {w.logprob_chunk:,} tokens at a time"
    )
    if not plan.programs:
        yield "By arithmetic: no program was compiled."


def _memory_table(plan: Plan) -> list[str]:
    available = plan.topology.chip.memory_bytes
    unit = _Unit.of(m.total for m in plan.memory)
    names = dict.fromkeys(
        name for m in plan.memory for name in m.parts if name not in _LAST_PARTS
    )
    rows = [
        [name, *(unit.text(m.parts.get(name)) for m in plan.memory)]
        for name in (*names, *_LAST_PARTS)
        if any(name in m.parts for m in plan.memory)
    ]
    rows.append(["total", *(unit.text(m.total) for m in plan.memory)])
    rows.append(["of", *(unit.text(available) for _ in plan.memory)])
    return _table(
        [f"{unit.name} on each device", *(m.phase for m in plan.memory)], rows
    )


def _work_table(plan: Plan) -> list[str]:
    work = plan.work
    tera = max(p.costs.flops for p in work) >= 1e12
    scale, power = (1e12, 12) if tera else (1e9, 9)
    rows = [
        [f"FLOPs, 10^{power}", *(_number(p.costs.flops / scale) for p in work)],
        ["moved, GB", *(_number(p.costs.memory_bytes / 1e9) for p in work)],
        ["received, GB", *(_number(p.costs.received_bytes / 1e9) for p in work)],
    ]
    if all(p.times is not None for p in work):
        times = [p.times for p in work if p.times is not None]
        rows.append(["seconds at best", *(_number(t.at_best_s) for t in times)])
        rows.append(["bound by", *(t.bound for t in times)])
    return _table(["a step, on each device", *(p.phase for p in work)], rows)


def _program_lines(program: CompiledProgram) -> Iterator[str]:
    calls = "once" if program.calls == 1 else f"{_times(program.calls)} times"
    yield f"{program.name}: {calls} a step, {program.compile_s:.0f} s to compile"
    costs = Costs()
    costs.add(program.costs, program.calls)
    rows = list(_collective_rows(costs))
    if rows:
        yield from _table(["  collective", "times", "MiB", "among", "of"], rows)
    else:
        yield "  no collectives"
    buffers = ", ".join(map(_buffer_text, program.largest[:NUM_BUFFERS]))
    yield f"  largest buffers: {buffers}"
    if program.largest_logits is not None:
        yield f"  largest logits: {_buffer_text(program.largest_logits)}"


def _collective_rows(costs: Costs) -> Iterator[list[str]]:
    ordered = sorted(
        costs.collectives.items(),
        key=lambda item: -item[0].received_bytes * item[1],
    )
    for collective, times in ordered[:NUM_COLLECTIVES]:
        yield [
            f"  {collective.kind}",
            _times(times),
            f"{collective.num_bytes / 2**20:,.1f}",
            str(collective.group_size),
            collective.shape,
        ]


def _buffer_text(buffer: Buffer) -> str:
    return f"{buffer.shape} {_size(buffer.num_bytes)}"


def _verdict(plan: Plan) -> Iterator[str]:
    available = plan.topology.chip.memory_bytes
    if plan.fits:
        left = available - max(m.total for m in plan.memory)
        yield f"It fits: {_size(left)} are left on each device."
        return
    for phase, missing in plan.missing.items():
        yield f"It does not fit: {phase} needs {_size(missing)} more on each device."
    yield from advice_lines(plan)


class _Unit(NamedTuple):
    """What sizes are written in."""

    name: str
    num_bytes: int
    decimals: int

    @classmethod
    def of(cls, sizes: Iterable[int]) -> "_Unit":
        """GiB, or MiB where all sizes are small."""
        is_large = max(sizes) >= 4 * GIB
        return cls("GiB", GIB, 2) if is_large else cls("MiB", 2**20, 1)

    def text(self, size: int | None) -> str:
        return "-" if size is None else f"{size / self.num_bytes:,.{self.decimals}f}"


def _size(num_bytes: int) -> str:
    unit = _Unit.of([num_bytes])
    return f"{unit.text(num_bytes)} {unit.name}"


def _count(number: int) -> str:
    """A large number in words.

    Example:
      >>> _count(4_022_468_096), _count(1_664_448)
      ('4.02 billion', '1.66 million')
    """
    scale, name = (1e9, "billion") if number >= 1e9 else (1e6, "million")
    return f"{number / scale:,.2f} {name}"


def _times(number: float) -> str:
    """How often: whole numbers whole.

    Example:
      >>> _times(1280.0), _times(0.25)
      ('1,280', '0.250')
    """
    return f"{number:,.0f}" if number == int(number) else _number(number)


def _number(value: float) -> str:
    """Three digits, more where there are more before the point.

    Example:
      >>> [_number(x) for x in (0.0, 0.01234, 3.14159, 1234.5)]
      ['0', '0.0123', '3.14', '1,234']
    """
    if value == 0.0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:,.{digits}f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of text: the first and what is no number to the left."""
    widths = [
        max(len(row[column]) for row in (header, *rows))
        for column in range(len(header))
    ]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON can hold it: sizes in bytes, times in seconds.

    Args:
      plan: As from `make_plan`.
    """
    return {
        "model": plan.model,
        "num_parameters": plan.num_parameters,
        "num_trained": plan.num_trained,
        "topology": dataclasses.asdict(plan.topology),
        "layout": plan.layout._asdict(),
        "fits": plan.fits,
        "memory": [dataclasses.asdict(m) for m in plan.memory],
        "work": [
            {
                "phase": p.phase,
                **_costs_data(p.costs),
                "times": None
                if p.times is None
                else dataclasses.asdict(p.times)
                | {"at_best_s": p.times.at_best_s, "bound": p.times.bound},
            }
            for p in plan.work
        ],
        "programs": [
            {
                "name": p.name,
                "compile_s": round(p.compile_s, 1),
                "arguments": p.arguments,
                "outputs": p.outputs,
                "aliased": p.aliased,
                "temporaries": p.temporaries,
                "code": p.code,
                "calls": p.calls,
                "total": p.total,
                "largest": [dataclasses.asdict(b) for b in p.largest[:20]],
                "largest_logits": None
                if p.largest_logits is None
                else dataclasses.asdict(p.largest_logits),
            }
            for p in plan.programs
        ],
        "advice": [] if plan.fits else advice_lines(plan),
    }


def _costs_data(costs: Costs) -> dict[str, Any]:
    return {
        "flops": costs.flops,
        "memory_bytes": costs.memory_bytes,
        "received_bytes": costs.received_bytes,
        "collectives": [
            collective._asdict() | {"times": times}
            for collective, times in costs.collectives.items()
        ],
    }
