"""The update with splash attention, compiled for TPUs on a machine that has none.

Needs the TPU compiler (`libtpu`, of the extra `tpu`), and no TPU.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from jaxgrpo.device.mesh import batch_sharding, make_mesh, replicated
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.objective.presets import resolve_objective
from jaxgrpo.device.optimizer import adamw
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import Prompts, Rollouts, Scored, TrainState
from jaxgrpo.device.update import UpdateSettings, update

P, S, B, T = 4, 100, 8, 300
OPTIMIZER = adamw(
    optax.constant_schedule(1e-6), beta1=0.9, beta2=0.99, weight_decay=0.0,
    clip_norm=1.0,
)  # fmt: skip


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Four chips of TPU v5e, to compile for."""
    pytest.importorskip("libtpu")
    for name, value in {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }.items():
        monkeypatch.setenv(name, value)
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices


@pytest.mark.slow
def test_the_update_with_splash_attention_compiles_for_a_tpu(
    devices: Any, tiny: Any
) -> None:
    architecture = tiny._replace(head_width=128)
    mesh = make_mesh(1, 2, 2, devices)

    def placed(tree: Any, shardings: Any) -> Any:
        return jax.tree.map(
            lambda x, sharding: jax.ShapeDtypeStruct(
                x.shape, x.dtype, sharding=sharding
            ),
            tree, shardings,
        )  # fmt: skip

    def rows(*shape: int, dtype: Any = jnp.int32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=batch_sharding(mesh))

    params = jax.eval_shape(lambda: initial_params(architecture, jax.random.key(0)))
    state = jax.eval_shape(
        lambda: TrainState(jnp.int32(0), params, OPTIMIZER.init(params), None)
    )
    program = update.lower(
        placed(state, state_shardings(state, mesh)),
        Prompts(rows(P, S), rows(P)),
        Rollouts(
            completion_BT=rows(B, T), lengths_B=rows(B), budget_B=rows(B),
            finish_reason_B=rows(B),
            sampler_logprobs_BT=rows(B, T, dtype=jnp.float32), prompt_index_B=rows(B),
            group_id_B=rows(B), row_key_B=rows(B, dtype=jax.random.key(0).dtype),
            policy_step_B=rows(B), constraint_id_B=rows(B),
            is_real_B=rows(B, dtype=bool),
        ),
        Scored(rows(B, 1, dtype=jnp.float32), None),
        jax.ShapeDtypeStruct((), jnp.float32, sharding=replicated(mesh)),
        architecture=architecture,
        optimizer=OPTIMIZER,
        settings=UpdateSettings(
            objective=resolve_objective("grpo"), num_tokens=440,
            forward=ForwardSettings("bfloat16", "splash", remat="attention"),
        ),
    ).compile()  # fmt: skip
    text = program.as_text()
    assert text is not None
    kernels = re.findall(r"%splash_mqa_(\w+?)_(?:no_)?residuals\S* =", text)
    # Of prompts and of completions, in a loop over layers; forward once.
    parts = ["fwd", "dq", "dkv"]
    assert sorted(kernels) == sorted([*parts, *(f"{part}_segmented" for part in parts)])
