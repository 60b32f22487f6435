"""Compiles the stored programs anew: python make_programs.py, with jax[tpu] installed.

Two small programs as libtpu 0.0.42.1 compiles them for v5e:2x2, without notes of the
compiler: a training step whose weights are gathered a layer at a time, and a loop that
may end early. Sizes are such that tests can work out every figure by hand.
"""

import os
import re
from pathlib import Path

os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

DEVICES = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices
MESH = Mesh(np.array(DEVICES), ("fsdp",))
L, B, D = 6, 256, 1024


def sharding(*axes):
    return NamedSharding(MESH, PartitionSpec(*axes))


def update(w_LDD, x_BD, y_BD):
    @jax.checkpoint
    def layer(h_BD, w_DD):
        whole_DD = w_DD.astype(jnp.bfloat16)
        whole_DD = jax.lax.with_sharding_constraint(whole_DD, sharding())
        return jax.nn.relu(h_BD @ whole_DD), None

    def loss(w_LDD):
        h_BD, _ = jax.lax.scan(layer, x_BD, w_LDD)
        return ((h_BD - y_BD).astype(jnp.float32) ** 2).sum()

    return w_LDD - 1e-3 * jax.grad(loss)(w_LDD)


def decode(w_LDD, x_BD):
    def step(carry):
        column, h_BD = carry
        h_BD, _ = jax.lax.scan(
            lambda h_BD, w_DD: (jnp.tanh(h_BD @ w_DD), None), h_BD, w_LDD
        )
        return column + 1, h_BD

    def goes_on(carry):
        return (carry[0] < 64) & jnp.any(carry[1] > 0)

    return jax.lax.while_loop(goes_on, step, (0, x_BD))[1]


def stored(name, compiled):
    text = compiled.as_text()
    text = re.sub(r", (metadata|frontend_attributes)=\{[^}]*\}", "", text)
    text = re.sub(r", backend_config=\{.*\}$", "", text, flags=re.M)
    text = f"HloModule jit_{name}, is_scheduled=true\n" + text[text.index("\n\n%") :]
    Path(__file__).with_name(f"{name}_v5e_2x2.hlo").write_text(text)


def array(shape, dtype, *axes):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding(*axes))


if __name__ == "__main__":
    weights = array((L, D, D), jnp.float32, None, "fsdp", None)
    rows = array((B, D), jnp.bfloat16, "fsdp")
    step = jax.jit(update, donate_argnums=0)
    stored("update", step.lower(weights, rows, rows).compile())
    weights = array((L, 512, 512), jnp.bfloat16)
    rows = array((64, 512), jnp.bfloat16, "fsdp")
    stored("decode", jax.jit(decode).lower(weights, rows).compile())
