"""Search for the fastest layout of a run that fits its devices.

All legal layouts are ordered by arithmetic: those that should fit, fastest first. Then
they are compiled in that order until one does. What the compiler needs beyond the
arithmetic is learnt on the way, so that few are compiled in vain.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from jaxgrpo.config import Config
from jaxgrpo.plan import estimate
from jaxgrpo.plan.costs import Costs
from jaxgrpo.plan.estimate import Layout, Workload
from jaxgrpo.plan.hardware import GIB, Chip
from jaxgrpo.plan.layouts import legal_layouts, with_layout
from jaxgrpo.plan.planning import (
    Plan,
    Target,
    layout_of,
    make_plan,
    run_state,
    state_parts,
)
from jaxgrpo.plan.programs import DECODE, UPDATE
from jaxgrpo.plan.roofline import times

_SAFETY = 1.1
"""What arithmetic is multiplied with where no compiler can correct it."""


class Candidate(NamedTuple):
    """A layout, and what arithmetic says of it."""

    layout: Layout
    state_bytes: int
    own_bytes: dict[str, int]
    """By phase, what a device holds besides the state."""
    step_s: float
    """Of prefill, decode and update without overlap; 0 if rates are unknown."""


def fit(
    config: Config,
    target: Target,
    report: Callable[[str], None],
    *,
    max_compiled: int,
) -> Plan | None:
    """The plan of the first layout that fits, fastest first; None if none was found.

    Args:
      config: Of a `grpo` run; its layout is only where the search begins.
      target: As from `find_target`.
      report: Called with lines of progress.
      max_compiled: Layouts to compile at most.

    Raises:
      ValueError: If no layout is legal at all.
    """
    found = candidates(config, target)
    available = target.topology.chip.memory_bytes
    safety = 1.0 if target.devices else _SAFETY
    scale: dict[str, float] = {DECODE: safety, UPDATE: safety}
    report(f"{len(found)} layouts; the fastest that should fit first.")
    tried = 0
    for candidate in found:
        if not _should_fit(candidate, scale, available):
            continue
        if tried == max_compiled:
            report(f"stopped after {tried} layouts. Raise --max-compiled to go on.")
            return None
        tried += 1
        report(_candidate_text(tried, candidate, scale))
        plan = make_plan(
            with_layout(config, candidate.layout), target, report, stops_early=True
        )
        if plan.fits:
            return plan
        _learn(scale, candidate, plan)
    report("no layout fits.")
    return None


def candidates(config: Config, target: Target) -> list[Candidate]:
    """All legal layouts, fastest first; of equally fast ones, the smallest first.

    Args:
      config: Of the run.
      target: Its devices and model.

    Raises:
      ValueError: If there is none.
    """
    architecture, forward = target.policy.architecture, target.policy.forward
    w = estimate.workload(config, architecture, forward)
    num_devices = target.topology.num_devices
    layouts = [
        layout
        for layout in legal_layouts(w, num_devices)
        if not config.evaluation.batch_problems % layout.num_shards
    ]
    if not layouts:
        layout_of(config, target.topology)  # says what does not divide
        raise ValueError(
            f"no mesh of {num_devices} devices divides "
            f"sampling.problems_per_step {w.num_prompts} and the model's dims. Change "
            "sampling.problems_per_step or --topology."
        )
    states: dict[tuple[int, int], dict[str, int]] = {}
    found = []
    for layout in layouts:
        split = (layout.fsdp, layout.tensor)
        if split not in states:
            states[split] = state_parts(run_state(config, target, layout))
        found.append(_candidate(w, layout, states[split], target.topology.chip))
    return sorted(found, key=lambda c: (c.step_s, sum(c.own_bytes.values())))


def _candidate(
    w: Workload, layout: Layout, state: dict[str, int], chip: Chip
) -> Candidate:
    w = replace(w, forward=w.forward._replace(remat=layout.remat))
    parts = {
        "prefill": estimate.prefill_estimate(w, layout),
        "decode": estimate.decode_estimate(w, layout),
        "update": estimate.update_estimate(w, layout, state["parameters"]),
    }
    return Candidate(
        layout=layout,
        state_bytes=sum(state.values()),
        own_bytes={
            DECODE: sum(parts["decode"].memory.values()),
            UPDATE: sum(parts["update"].memory.values()),
        },
        step_s=sum(_seconds(part.costs, chip) for part in parts.values()),
    )


def _seconds(costs: Costs, chip: Chip) -> float:
    found = times(costs, chip)
    return 0.0 if found is None else found.in_turn_s


def _should_fit(candidate: Candidate, scale: dict[str, float], available: int) -> bool:
    return all(
        candidate.state_bytes + scale[phase] * own <= available
        for phase, own in candidate.own_bytes.items()
    )


def _learn(scale: dict[str, float], candidate: Candidate, plan: Plan) -> None:
    """Corrects the arithmetic of later candidates by what a compiler needed."""
    for memory in plan.memory:
        if memory.phase not in scale:
            continue
        own = memory.total - candidate.state_bytes
        needed = own / candidate.own_bytes[memory.phase]
        # Compilers also save memory where they have to: never trust one fit too much.
        scale[memory.phase] = max(scale[memory.phase], needed)


def _candidate_text(number: int, candidate: Candidate, scale: dict[str, float]) -> str:
    layout = candidate.layout
    total = candidate.state_bytes + max(
        scale[phase] * own for phase, own in candidate.own_bytes.items()
    )
    text = (
        f"[{number}] data {layout.data}, fsdp {layout.fsdp}, tensor {layout.tensor}, "
        f"{layout.microbatches} microbatches, remat {layout.remat}: about "
        f"{total / GIB:,.1f} GiB"
    )
    return f"{text}, {candidate.step_s:,.1f} s a step" if candidate.step_s else text
