"""A plan: what each phase of a step takes on each device, and whether that fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jax.sharding import AbstractMesh, AxisType, Mesh

from jaxgrpo.assembly import build_optimizer, check_batch_fits
from jaxgrpo.config import Config
from jaxgrpo.device.mesh import make_mesh, mesh_sizes
from jaxgrpo.device.placement import AXES
from jaxgrpo.device.records import TrainState
from jaxgrpo.plan import estimate
from jaxgrpo.plan.arrays import abstract_state, device_bytes, evaluation_cache_bytes
from jaxgrpo.plan.compilation import (
    CompiledProgram,
    OutOfMemoryError,
    compile_program,
)
from jaxgrpo.plan.costs import Costs
from jaxgrpo.plan.devices import compile_devices, present_topology
from jaxgrpo.plan.estimate import Layout, Workload
from jaxgrpo.plan.hardware import HERE, Topology, parse_topology
from jaxgrpo.plan.programs import (
    DECODE,
    PREFILL,
    UPDATE,
    Program,
    Step,
    step_programs,
)
from jaxgrpo.plan.roofline import Times, times
from jaxgrpo.policy import Policy, check_lengths, load_policy

EVALUATION = "evaluation"
"""A phase besides those of a step: it takes memory, and its work is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMemory:
    """Bytes on each device during a phase."""

    phase: str
    parts: dict[str, int]
    """By what they are for, in the order of a table."""
    total: int
    is_refused: bool = False
    """The compiler gave up; the total is its own figure and has no parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWork:
    """Work of a phase of one step on each device."""

    phase: str
    """PREFILL, DECODE or UPDATE."""
    costs: Costs
    times: Times | None
    """None where the device's rates are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run needs on given devices."""

    model: str
    topology: Topology
    layout: Layout
    workload: Workload
    num_parameters: int
    num_trained: int
    state: dict[str, int]
    """Bytes of the training state on each device, by what they are for."""
    memory: tuple[PhaseMemory, ...]
    work: tuple[PhaseWork, ...]
    programs: tuple[CompiledProgram, ...]
    """Empty if the plan was made by arithmetic."""

    @property
    def fits(self) -> bool:
        """Whether every phase fits in a device's memory."""
        return not self.missing

    @property
    def missing(self) -> dict[str, int]:
        """By phase, the bytes by which it exceeds a device's memory."""
        available = self.topology.chip.memory_bytes
        return {
            m.phase: m.total - available for m in self.memory if m.total > available
        }


@dataclass(frozen=True, kw_only=True)
class Target:
    """The devices that a plan is for, and the model as they compute it."""

    topology: Topology
    devices: Sequence[Any] | None
    """None where programs cannot be compiled for them."""
    policy: Policy

    def mesh(self, layout: Layout) -> Mesh | AbstractMesh:
        """The devices, arranged."""
        sizes = layout.data, layout.fsdp, layout.tensor
        if self.devices is None:
            return AbstractMesh(sizes, AXES, axis_types=(AxisType.Auto,) * len(AXES))
        return make_mesh(*sizes, devices=self.devices)


def find_target(config: Config, topology_name: str) -> Target:
    """The devices of a name, and the model of a configuration on them.

    Args:
      config: Of a `grpo` run.
      topology_name: As for `parse_topology`, or `here`.

    Raises:
      ValueError: If the name is unknown or the model cannot run there.
    """
    if config.run.mode != "grpo":
        raise ValueError(
            f"run.mode is {config.run.mode!r}; a plan is made of 'grpo' runs. Give the "
            "configuration of one."
        )
    is_here = topology_name == HERE
    topology = present_topology() if is_here else parse_topology(topology_name)
    policy = load_policy(config.model, config.prompt, platform=topology.chip.platform)
    check_lengths(config, policy)
    return Target(topology=topology, devices=compile_devices(topology), policy=policy)


def layout_of(config: Config, topology: Topology) -> Layout:
    """The layout that a configuration asks for.

    Args:
      config: Of the run.
      topology: Its devices.

    Raises:
      ValueError: If the mesh does not fit the devices, or the batch the mesh.
    """
    m = config.mesh
    sizes = mesh_sizes(topology.num_devices, m.data, m.fsdp, m.tensor)
    layout = Layout(*sizes, config.objective.microbatches, config.model.remat)
    check_batch_fits(config, layout.num_shards)
    return layout


def make_plan(
    config: Config,
    target: Target,
    report: Callable[[str], None],
    *,
    stops_early: bool = False,
) -> Plan:
    """Plans a run as it is configured.

    Args:
      config: Of a `grpo` run.
      target: As from `find_target`.
      report: Called with a line before and after each program is compiled.
      stops_early: Compile nothing more once a program does not fit.

    Raises:
      ValueError: If the run could not start: its message says what to change.
    """
    layout = layout_of(config, target.topology)
    policy = replace(
        target.policy, forward=target.policy.forward._replace(remat=layout.remat)
    )
    mesh, chip = target.mesh(layout), target.topology.chip
    step = step_programs(config, policy, mesh, chip.platform)
    w = estimate.workload(config, policy.architecture, policy.forward)
    trees = _Trees.of(step)
    if target.devices is None:
        compiled: list[CompiledProgram] = []
        memory = _estimated_memory(trees, w, layout)
    else:
        compiled, refused = _compile_all(
            step.programs, target, w, layout, report, stops_early=stops_early
        )
        memory = _compiled_memory(compiled, refused, trees, w, layout)
    cache_bytes = evaluation_cache_bytes(
        config, policy, step.weights, mesh, chip.platform
    )
    memory += _evaluation_memory(memory, cache_bytes)
    return Plan(
        model=config.model.checkpoint or config.model.preset,
        topology=target.topology,
        layout=layout,
        workload=w,
        num_parameters=_num_parameters(step.state.base_params or step.state.params),
        num_trained=_num_parameters(step.state.params),
        state=trees.state,
        memory=tuple(memory),
        work=_work(compiled, w, layout, trees, target.topology),
        programs=tuple(compiled),
    )


def _compile_all(
    programs: Sequence[Program],
    target: Target,
    w: Workload,
    layout: Layout,
    report: Callable[[str], None],
    *,
    stops_early: bool,
) -> tuple[list[CompiledProgram], dict[str, int]]:
    """The programs that could be compiled; by phase, the needs of one that could not.

    The last is compiled first: the update needs most memory.
    """
    compiled: list[CompiledProgram] = []
    refused: dict[str, int] = {}
    for program in reversed(programs):
        report(f"compiling {program.name} for {target.topology.name} ...")
        try:
            made = compile_program(
                program,
                vocab_dims=_vocab_dims(w, layout),
                width=w.architecture.width,
            )
        except OutOfMemoryError as error:
            report(f"{program.name} does not fit.")
            refused[program.phase] = error.needed
            is_too_large = True
        else:
            report(f"{program.name} compiled in {made.compile_s:.0f} s.")
            compiled.append(made)
            is_too_large = made.total > target.topology.chip.memory_bytes
        if is_too_large and stops_early:
            break
    return compiled[::-1], refused


class _Trees(NamedTuple):
    """Bytes on one device of the large arrays that programs share."""

    state: dict[str, int]
    weights: int
    """Of the sampler's own copy."""
    cache: int

    @classmethod
    def of(cls, step: Step) -> "_Trees":
        return cls(
            state=state_parts(step.state),
            weights=device_bytes(step.weights) if step.are_weights_copied else 0,
            cache=device_bytes(step.decoding.cache),
        )

    def parts(self, *, has_weights: bool, has_cache: bool) -> dict[str, int]:
        """What of them lies on a device, by what it is for."""
        parts = self.state | {
            "weights for sampling": self.weights * has_weights,
            "cache": self.cache * has_cache,
        }
        return {name: size for name, size in parts.items() if size}


def state_parts(state: TrainState) -> dict[str, int]:
    """Bytes of a state on one device, by what they are for; none that are 0."""
    parts = {
        "parameters": device_bytes(state.params),
        "frozen base": device_bytes(state.base_params),
        "reference": device_bytes(state.ref_params),
        "optimiser": device_bytes(state.opt_state),
    }
    return {name: size for name, size in parts.items() if size}


def _num_parameters(tree: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def _vocab_dims(w: Workload, layout: Layout) -> set[int]:
    """V, whole and as a device holds it, where no other dim has that size."""
    a, t = w.architecture, layout.tensor
    others = {a.width, a.width // layout.fsdp, a.mlp_width, a.mlp_width // t}
    return {a.vocab_size, a.vocab_size // t} - others


def _compiled_memory(
    compiled: Sequence[CompiledProgram],
    refused: dict[str, int],
    trees: _Trees,
    w: Workload,
    layout: Layout,
) -> list[PhaseMemory]:
    """By phase, the program that needs most."""
    memory = []
    for phase in (PREFILL, DECODE, UPDATE):
        if phase in refused:
            found = PhaseMemory(
                phase=phase, parts={}, total=refused[phase], is_refused=True
            )
            memory.append(found)
            continue
        programs = [program for program in compiled if program.phase == phase]
        if not programs:  # never compiled: another did not fit before it
            continue
        largest = max(programs, key=lambda program: program.total)
        parts = trees.parts(
            has_weights=largest.has_weights, has_cache=largest.has_cache
        )
        rest = largest.total - sum(parts.values()) - largest.code
        if phase == UPDATE:
            # By arithmetic: the compiler may share their place with other arrays.
            parts["activations"] = min(estimate.kept_bytes(w, layout), rest)
            rest -= parts["activations"]
        parts |= {"other temporaries": rest, "program": largest.code}
        memory.append(PhaseMemory(phase=phase, parts=parts, total=largest.total))
    return memory


def _estimated_memory(trees: _Trees, w: Workload, layout: Layout) -> list[PhaseMemory]:
    own = {
        PREFILL: estimate.prefill_estimate(w, layout).memory,
        DECODE: estimate.decode_estimate(w, layout).memory,
        UPDATE: estimate.update_estimate(w, layout, trees.state["parameters"]).memory,
    }
    memory = []
    for phase, found in own.items():
        is_sampling = phase != UPDATE
        parts = trees.parts(has_weights=is_sampling, has_cache=is_sampling)
        if phase == UPDATE:
            parts["activations"] = found.pop("activations")
        parts["other temporaries"] = sum(found.values())
        memory.append(PhaseMemory(phase=phase, parts=parts, total=sum(parts.values())))
    return memory


def _evaluation_memory(
    memory: Sequence[PhaseMemory], cache_bytes: int
) -> list[PhaseMemory]:
    """As decoding in training, with the cache of an evaluation."""
    decode = next((m for m in memory if m.phase == DECODE and m.parts), None)
    if decode is None:
        return []
    parts = decode.parts | {"cache": cache_bytes}
    return [PhaseMemory(phase=EVALUATION, parts=parts, total=sum(parts.values()))]


def _work(
    compiled: Sequence[CompiledProgram],
    w: Workload,
    layout: Layout,
    trees: _Trees,
    topology: Topology,
) -> tuple[PhaseWork, ...]:
    """Work by phase: as compiled where its programs were, otherwise by arithmetic.

    Also by arithmetic on GPUs: there products are calls of libraries, whose work the
    program's text does not state.
    """
    estimates = {
        PREFILL: estimate.prefill_estimate(w, layout),
        DECODE: estimate.decode_estimate(w, layout),
        UPDATE: estimate.update_estimate(w, layout, trees.state["parameters"]),
    }
    work = []
    for phase, estimated in estimates.items():
        programs = [program for program in compiled if program.phase == phase]
        programs = [] if topology.chip.platform == "gpu" else programs
        costs = Costs()
        for program in programs:
            costs.add(program.costs, program.calls)
        costs = costs if programs else estimated.costs
        work.append(
            PhaseWork(phase=phase, costs=costs, times=times(costs, topology.chip))
        )
    return tuple(work)


def run_state(config: Config, target: Target, layout: Layout) -> TrainState:
    """The abstract state of a run with a layout."""
    optimizer = build_optimizer(config.optimizer, num_updates=config.num_updates)
    return abstract_state(config, target.policy, optimizer, target.mesh(layout))
