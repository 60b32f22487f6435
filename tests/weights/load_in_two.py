"""One of two processes that load a checkpoint together: ADDRESS NUMBER FOLDER.

Prints the bytes that it read, and saves what was loaded to FOLDER/again.
"""

import sys
from pathlib import Path

import jax

from jaxgrpo.device.mesh import make_mesh, param_shardings
from jaxgrpo.weights import load_architecture, save_checkpoint
from jaxgrpo.weights.loading import read_params
from jaxgrpo.weights.reading import TensorReader


def main(address: str, number: str, folder: Path) -> None:
    jax.distributed.initialize(address, 2, int(number))
    architecture = load_architecture(folder)
    shardings = param_shardings(architecture, make_mesh(1, 4, 1))
    reader = TensorReader(folder)
    params = read_params(reader, architecture, shardings, "float32")
    print("bytes", reader.num_bytes)
    save_checkpoint(folder / "again", params, architecture, max_shard_bytes=50_000)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
