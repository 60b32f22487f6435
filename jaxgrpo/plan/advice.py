"""What to change in a run that does not fit."""

from collections.abc import Iterator

from jaxgrpo.plan import estimate
from jaxgrpo.plan.estimate import Layout, Workload
from jaxgrpo.plan.hardware import GIB
from jaxgrpo.plan.layouts import changes, legal_layouts
from jaxgrpo.plan.planning import EVALUATION, Plan
from jaxgrpo.plan.programs import UPDATE

_NUM_SHOWN = 3


def advice_lines(plan: Plan) -> list[str]:
    """What would make a phase smaller, most effective first, by arithmetic.

    Args:
      plan: One that does not fit.
    """
    lines = []
    w, layout = plan.workload, plan.layout
    for phase, missing in plan.missing.items():
        now = _phase_bytes(plan, layout, phase)
        found = sorted(
            (
                (now - _phase_bytes(plan, other, phase), other)
                for other in _neighbours(w, layout)
            ),
            key=lambda item: -item[0],
        )
        for saved, other in found[:_NUM_SHOWN]:
            if saved > missing // 10:
                lines.append(
                    f"  {' '.join(changes(layout, other))} takes about "
                    f"{saved / GIB:,.1f} GiB less in {phase}."
                )
        if phase == EVALUATION:
            lines.append(
                "  evaluation.batch_problems and evaluation.samples_per_problem scale "
                "its cache."
            )
        elif phase != UPDATE:
            lines.append(
                "  sampling.slots, sampling.rows_per_problem and "
                "sampling.max_new_tokens scale the cache; sampling.cache_dtype=int8 "
                "halves it."
            )
    return [*lines, "  --fit searches for the fastest layout that fits."]


def _neighbours(w: Workload, layout: Layout) -> Iterator[Layout]:
    """Layouts that differ in one respect: microbatches, remat, or the mesh."""
    for other in legal_layouts(w, layout.num_devices):
        is_same_mesh = other[:3] == layout[:3]
        differs = (
            not is_same_mesh,
            other.microbatches != layout.microbatches,
            other.remat != layout.remat,
        )
        is_step = other.microbatches in (layout.microbatches * 2, layout.microbatches)
        if sum(differs) == 1 and is_step:
            yield other


def _phase_bytes(plan: Plan, layout: Layout, phase: str) -> int:
    """What a phase takes with another layout, by arithmetic."""
    split = plan.layout.fsdp * plan.layout.tensor / (layout.fsdp * layout.tensor)
    w = estimate.with_layout(plan.workload, layout)
    if phase == UPDATE:
        trained = int(plan.state["parameters"] * split)
        own = estimate.update_estimate(w, layout, trained).memory
    else:
        own = estimate.decode_estimate(w, layout).memory
    return int(sum(plan.state.values()) * split) + sum(own.values())
