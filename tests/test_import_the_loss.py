"""The loss in other people's hands: few dependencies, and an example that learns."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
EXAMPLE = REPOSITORY / "examples" / "import_the_loss.py"

ONLY_THREE_LIBRARIES = """
import importlib.metadata, sys
from importlib.machinery import PathFinder

# jax, NumPy and jaxtyping, and what these need themselves.
allowed = {
    "jax", "jaxlib", "numpy", "jaxtyping", "ml-dtypes", "opt-einsum", "scipy",
    "wadler-lindig",
}
packages = importlib.metadata.packages_distributions()
absent = {
    name
    for name, owners in packages.items()
    if not {owner.lower().replace("_", "-") for owner in owners} & allowed
} - {"jaxgrpo"}

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_absent = name.partition(".")[0] in absent
        return None if is_absent else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
assert {"flax", "optax", "pydantic", "transformers"} <= absent
"""

IMPORT_JIT_DIFFERENTIATE_AND_SHARD = """
import jax, jax.numpy as jnp
from jaxgrpo import __version__, group_advantages, grpo_loss, token_logprobs

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
two = jax.jit(jax.shard_map(
    jax.grad(loss), mesh=mesh, in_specs=(same, data, data, data, data), out_specs=same
))(head_VD, *rows, jnp.arange(8) % 4 // 4)
assert jnp.abs(one).max() > 0 and jnp.allclose(one, two, atol=1e-6)
print(__version__)
"""


def run(*command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loss_works_with_jax_numpy_and_jaxtyping_alone():
    output = run("-c", ONLY_THREE_LIBRARIES + IMPORT_JIT_DIFFERENTIATE_AND_SHARD)
    assert output.strip() == "0.1.0"


def test_importing_the_package_loads_nothing():
    shown = run("-c", "import jaxgrpo, sys; print(sorted(sys.modules))")
    loaded = {name.split(".")[0] for name in ast.literal_eval(shown)}
    assert "jaxgrpo" in loaded
    assert not loaded & {"jax", "numpy", "jaxtyping", "flax"}


def test_example_is_short_imports_two_functions_and_learns():
    source = EXAMPLE.read_text()
    assert len(source.splitlines()) <= 60
    imports = [line for line in source.splitlines() if "jaxgrpo import" in line]
    assert imports == ["from jaxgrpo import group_advantages, grpo_loss"]
    rewards = re.findall(r"reward ([\d.]+)", run(str(EXAMPLE)))
    assert float(rewards[0]) < 0.2 and float(rewards[-1]) > 0.9
