"""The search for a layout: order, learning, and where it ends."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jaxgrpo.plan.fit as fit_module
from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config
from jaxgrpo.plan.fit import candidates, fit
from jaxgrpo.plan.hardware import GIB
from jaxgrpo.plan.planning import PhaseMemory, Plan, Target, find_target, make_plan
from jaxgrpo.plan.programs import DECODE, UPDATE

RUN = """
[model]
preset = "qwen3-8b"
tokenizer = "builtin:output_prediction_tokenizer"
[prompt]
max_prompt_tokens = 1024
[sampling]
problems_per_step = 8
group_size = 16
max_new_tokens = 4096
[objective]
logprob_chunk = 4096
[rewards.exact]
[evaluation]
batch_problems = 8
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path = tmp_path_factory.mktemp("fit") / "run.toml"
    path.write_text(RUN)
    return load_config(path)


@pytest.fixture(scope="module")
def target(config: Config) -> Target:
    return find_target(config, "gpu:h200x8")


def silent(line: str) -> None:
    del line


def test_candidates_are_ordered_by_time(config, target):
    found = candidates(config, target)
    assert [c.step_s for c in found] == sorted(c.step_s for c in found)
    assert len({c.layout for c in found}) == len(found)
    assert all(
        config.evaluation.batch_problems % c.layout.num_shards == 0 for c in found
    )


def test_the_state_of_a_candidate_is_split(config, target):
    found = {c.layout[:3]: c.state_bytes for c in candidates(config, target)}
    whole, split = found[(8, 1, 1)], found[(1, 8, 1)]
    # All but the norms, which are whole everywhere.
    assert whole / 8 < split < 1.01 * whole / 8


def test_what_is_found_fits_and_is_the_fastest_that_should(config, target):
    lines: list[str] = []
    plan = fit(config, target, lines.append, max_compiled=4)
    assert plan is not None and plan.fits
    assert not make_plan(config, target, silent).fits  # as it was configured
    faster = [
        c
        for c in candidates(config, target)
        if c.state_bytes + 1.1 * max(c.own_bytes.values())
        <= target.topology.chip.memory_bytes
    ]
    assert plan.layout == faster[0].layout
    assert any("[1]" in line for line in lines)


def refused(plan: Plan, needed: int) -> Plan:
    memory = PhaseMemory(phase=UPDATE, parts={}, total=needed, is_refused=True)
    kept = tuple(m for m in plan.memory if m.phase not in (UPDATE,))
    return replace(plan, memory=(*kept, memory))


def compiles(monkeypatch: pytest.MonkeyPatch, factor: float) -> list[Any]:
    """Makes a compiler that needs `factor` times what arithmetic says of updates."""
    tried: list[Any] = []

    def fake(config: Config, target: Target, report: Any, **_: Any) -> Plan:
        plan = make_plan(config, target, report)
        tried.append(plan.layout)
        memory = {m.phase: m for m in plan.memory}
        state = sum(plan.state.values())
        needed = state + factor * (memory[UPDATE].total - state)
        return refused(plan, int(needed))

    monkeypatch.setattr(fit_module, "make_plan", fake)
    return tried


def test_a_compiler_that_needs_more_is_believed(config, target, monkeypatch):
    tried = compiles(monkeypatch, 1.6)
    plan = fit(config, target, silent, max_compiled=20)
    assert plan is not None and plan.fits
    assert plan.layout == tried[-1]
    # After the first refusals the candidates that must fail as well are passed over.
    skipped = [c.layout for c in candidates(config, target)].index(plan.layout)
    assert len(tried) < skipped / 2


def test_the_number_of_compilations_is_bounded(config, target, monkeypatch):
    tried = compiles(monkeypatch, 100.0)
    lines: list[str] = []
    assert fit(config, target, lines.append, max_compiled=1) is None
    assert len(tried) == 1


def test_nothing_fits_and_it_says_so(config, target):
    small = replace(
        target.topology, chip=replace(target.topology.chip, memory_bytes=GIB)
    )
    lines: list[str] = []
    found = fit(config, replace(target, topology=small), lines.append, max_compiled=4)
    assert found is None
    assert lines[-1] == "no layout fits."


def test_a_mesh_that_nothing_divides_is_refused(config):
    odd = config.model_copy(
        update={"sampling": config.sampling.model_copy(update={"problems_per_step": 3})}
    )
    with pytest.raises(ValueError, match=r"multiple of|Change"):
        fit(odd, find_target(odd, "gpu:h200x5"), silent, max_compiled=1)


def test_phases_of_a_candidate_are_those_of_a_plan(config, target):
    assert set(candidates(config, target)[0].own_bytes) == {DECODE, UPDATE}
    assert Path(fit_module.__file__).exists()
