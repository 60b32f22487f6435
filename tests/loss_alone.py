"""Imports, jits, differentiates and shards the loss; prints jaxgrpo's version.

Run by a test, and by CI in an environment that holds only jax, NumPy and jaxtyping.
"""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from jaxgrpo import __version__, group_advantages, grpo_loss, token_logprobs  # noqa: E402


def loss(head_VD, hidden_BTD, targets_BT, rewards_BR, ids_B):
    logprobs_BT = token_logprobs(hidden_BTD, head_VD, targets_BT).logprobs_BT
    advantages_BT = group_advantages(rewards_BR, ids_B)[:, None] * jnp.ones((1, 3))
    value, _ = grpo_loss(
        logprobs_BT, advantages_BT, targets_BT >= 0, preset="dapo", denominator=24.0
    )
    return value


head_VD, hidden_BTD = jnp.ones((5, 2)), jnp.ones((8, 3, 2))
rows = (hidden_BTD, jnp.arange(24).reshape(8, 3) % 5, jnp.arange(8.0)[:, None] % 3)
mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
data, same = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()
one = jax.jit(jax.grad(loss))(head_VD, *rows, jnp.arange(8) // 4)
two = jax.jit(
    jax.shard_map(
        jax.grad(loss),
        mesh=mesh,
        in_specs=(same, data, data, data, data),
        out_specs=same,
    )
)(head_VD, *rows, jnp.arange(8) % 4 // 4)
assert jnp.abs(one).max() > 0 and jnp.allclose(one, two, atol=1e-6)
print(__version__)
