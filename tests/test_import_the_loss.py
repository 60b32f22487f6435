"""The loss in other people's hands: few dependencies, and an example that learns."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
EXAMPLE = REPOSITORY / "examples" / "import_the_loss.py"
LOSS_ALONE = REPOSITORY / "tests" / "loss_alone.py"

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


def run(*command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loss_works_with_jax_numpy_and_jaxtyping_alone():
    output = run("-c", ONLY_THREE_LIBRARIES + LOSS_ALONE.read_text())
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
