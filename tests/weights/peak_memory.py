"""Loads the checkpoint FOLDER over eight devices in bfloat16.

Prints the bytes of the arrays, and the most memory that the process ever held.
"""

import sys
from pathlib import Path

import jax

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.weights import load_architecture, load_params


def main(folder: Path) -> None:
    architecture = load_architecture(folder)
    shardings = param_shardings(architecture, make_mesh(1, 4, 2))
    params = load_params(folder, architecture, shardings, "bfloat16")
    arrays = sum(
        shard.data.nbytes
        for leaf in jax.tree.leaves(jax.block_until_ready(params))
        for shard in leaf.addressable_shards
    )
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    print(arrays, int(peak) * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
