"""The planned programs are those of a run: same functions, settings and arguments."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import jaxgrpo.device.sampling.weights as weights_module
import jaxgrpo.engine as engine_module
import jaxgrpo.learning as learning_module
import jaxgrpo.train as train_module
from jaxgrpo.assembly import build_optimizer, initial_state, run_mesh
from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config
from jaxgrpo.device.mesh import make_mesh
from jaxgrpo.device.placement import AXES
from jaxgrpo.plan.arrays import abstract_state, device_bytes
from jaxgrpo.plan.programs import Program, step_programs
from jaxgrpo.policy import initial_weights, load_policy

RUN = """
[run]
num_steps = 1
[model]
preset = "qwen3-tiny"
tokenizer = "builtin:output_prediction_tokenizer"
[data]
cache_dir = "{cache}"
num_train = 8
num_validation = 4
num_test = 4
build_workers = 1
[prompt]
max_prompt_tokens = 60
[sampling]
problems_per_step = 4
group_size = 4
max_new_tokens = 8
[scorer]
num_workers = 1
[rewards.exact]
[rewards.similarity]
weight = 0.5
[mesh]
fsdp = 2
tensor = 2
[evaluation]
samples_per_problem = 4
pass_at = [1]
batch_problems = 4
[log]
wandb = "disabled"
console = "quiet"
"""

RECORDED = {
    "cast_weights": weights_module,
    "prefill": engine_module,
    "insert": engine_module,
    "decode_segment": engine_module,
    "update": learning_module,
}
"""Programs of a step, and where a run looks them up."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, session_cache: Path) -> Config:
    path = tmp_path_factory.mktemp("planned") / "run.toml"
    path.write_text(RUN.format(cache=session_cache))
    return load_config(path)


@pytest.fixture(scope="module")
def calls(
    config: Config, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[Any, dict[str, Any]]]]:
    """What a real run calls its programs with: abstract arguments, and settings."""
    found: dict[str, list[Any]] = {name: [] for name in RECORDED}

    def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            shapes = jax.tree.map(abstract, arguments)
            found[name].append((shapes, settings))
            return function(*arguments, **settings)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name, module in RECORDED.items():
            patch.setattr(module, name, recorded(name, getattr(module, name)))
        train_module.train(config, tmp_path_factory.mktemp("run") / "run")
    return found


@pytest.fixture(scope="module")
def programs(config: Config) -> dict[str, Program]:
    policy = load_policy(config.model, config.prompt)
    step = step_programs(config, policy, run_mesh(config), "cpu")
    return {program.name: program for program in step.programs}


def abstract(x: Any) -> Any:
    sharding = x.sharding if isinstance(x, jax.Array) else None
    return jax.ShapeDtypeStruct(jnp.shape(x), x.dtype, sharding=sharding)


def lies_alike(planned: jax.ShapeDtypeStruct, actual: jax.ShapeDtypeStruct) -> bool:
    if planned.sharding is None:  # a number of the host
        return planned.ndim == 0 or actual.sharding is None
    return actual.sharding.is_equivalent_to(planned.sharding, planned.ndim)


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_calls_the_planned_program(name, calls, programs):
    planned = programs[name]
    settings = dict(planned.lower.keywords)  # type: ignore[attr-defined]
    optimizer = settings.pop("optimizer", None)
    assert calls[name], "the run never called it"
    # Evaluations have a sampler of other sizes.
    matching = [
        arguments
        for arguments, given in calls[name]
        if {**given, "optimizer": optimizer} == {**settings, "optimizer": optimizer}
        and jax.tree.map(lambda x: x.shape, arguments)
        == jax.tree.map(lambda x: x.shape, planned.arguments)
    ]
    assert matching, (settings, [given for _, given in calls[name]])
    for arguments in matching:
        for p, a in zip(
            jax.tree.leaves(planned.arguments), jax.tree.leaves(arguments), strict=True
        ):
            assert p.dtype == a.dtype
            assert lies_alike(p, a), (p, a)


def test_the_programs_stand_in_the_order_of_a_step(programs):
    assert list(programs) == list(RECORDED)


@pytest.mark.parametrize(
    "overrides",
    [[], ["objective.kl_coef=0.1"], ["lora.rank=2"], ["optimizer.name=muon"]],
    ids=["plain", "reference", "adapters", "muon"],
)
def test_the_abstract_state_is_that_of_a_run(config, tmp_path, overrides):
    path = tmp_path / "run.toml"
    path.write_text(RUN.format(cache=config.data.cache_dir))
    config = load_config(path, overrides)
    policy = load_policy(config.model, config.prompt)
    optimizer = build_optimizer(config.optimizer, num_updates=1)
    mesh = run_mesh(config)
    weights = initial_weights(policy, config, mesh)
    actual = initial_state(weights, optimizer, policy, config)
    planned = abstract_state(config, policy, optimizer, mesh)
    assert jax.tree.structure(planned) == jax.tree.structure(actual)
    for p, a in zip(jax.tree.leaves(planned), jax.tree.leaves(actual), strict=True):
        assert (p.shape, p.dtype) == (a.shape, a.dtype)
        assert a.sharding.is_equivalent_to(p.sharding, p.ndim)
    shards = sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(actual))
    assert device_bytes(planned) == shards


def test_bytes_of_a_device_are_those_of_its_shards():
    mesh = AbstractMesh((2, 2, 2), AXES, axis_types=(AxisType.Auto,) * 3)
    halves = NamedSharding(mesh, PartitionSpec(None, "fsdp"))
    key = jax.eval_shape(lambda: jax.random.key(0))
    tree = {
        "split": jax.ShapeDtypeStruct((6, 8), jnp.bfloat16, sharding=halves),
        "whole": jax.ShapeDtypeStruct((5,), jnp.float32),
        "key": key,
    }
    assert device_bytes(tree) == 6 * 4 * 2 + 5 * 4 + 2 * 4


def test_without_a_copy_the_sampler_reads_the_state(config):
    one = config.model_copy(
        update={"mesh": config.mesh.model_copy(update={"fsdp": 1, "tensor": 1})}
    )
    policy = load_policy(one.model, one.prompt)
    mesh = make_mesh(devices=jax.devices()[:1])
    step = step_programs(one, policy, mesh, "cpu")
    assert not step.are_weights_copied
    decode = next(p for p in step.programs if p.name == "decode_segment")
    assert decode.resident.params is None
    assert [p.name for p in step.programs][0] == "prefill"
