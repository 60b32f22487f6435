"""Slices of tensors out of a checkpoint's safetensors files.

The library maps a file into memory, where every page it touches counts as resident
until the file is closed. Each slice is read through a mapping of its own, so that no
more than one slice is ever held.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from jaxgrpo.weights.folder import read_json
from jaxgrpo.weights.names import Slices

READABLE = ("F32", "F16", "BF16")
"""Types of stored numbers that are read, as safetensors names them."""


class StoredTensor(NamedTuple):
    """What a file's header says of a tensor."""

    file: Path
    shape: tuple[int, ...]
    dtype: str


class TensorReader:
    """The tensors of one checkpoint folder.

    Attributes:
      tensors: What there is, by name.
      num_bytes: Bytes of tensors read so far.

    Args:
      folder: With one *.safetensors file, or several and maybe an index.

    Raises:
      ValueError: If there is no file, one is absent, damaged or cut off, or holds a
        tensor that another holds too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tensors: dict[str, StoredTensor] = {}
        self.num_bytes = 0
        for file in _weight_files(folder):
            for name, tensor in _header(file).items():
                if name in self.tensors:
                    raise ValueError(
                        f"{str(folder)!r} holds tensor {name!r} twice, again in "
                        f"{file.name}. Remove the files that are not the checkpoint's."
                    )
                self.tensors[name] = tensor

    def read(self, name: str, slices: Slices) -> np.ndarray:
        """A block of a tensor, in the type it is stored in.

        Args:
          name: One of `tensors`.
          slices: One for each axis.
        """
        file = self.tensors[name].file
        with safe_open(file, framework="numpy") as handle:
            block = handle.get_slice(name)[slices]
        self.num_bytes += block.nbytes
        return block


def _weight_files(folder: Path) -> list[Path]:
    """The files that the index names; without one, all there are."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ValueError(
                f"no *.safetensors in {str(folder)!r}. Is it a checkpoint?"
            )
        return files
    weight_map = read_json(index)["weight_map"]
    named = sorted(set(weight_map.values()))
    absent = [name for name in named if not (folder / name).is_file()]
    if absent:
        raise ValueError(
            f"{str(folder)!r} lacks {absent}, which {index.name} names. Copy the "
            "checkpoint again."
        )
    return [folder / name for name in named]


def _header(file: Path) -> dict[str, StoredTensor]:
    try:
        with safe_open(file, framework="numpy") as handle:
            slices = {name: handle.get_slice(name) for name in handle.keys()}  # noqa: SIM118
            return {
                name: StoredTensor(file, tuple(cut.get_shape()), cut.get_dtype())
                for name, cut in slices.items()
            }
    except SafetensorError as error:
        raise ValueError(
            f"{str(file)!r} is damaged or cut off ({error}). Copy it again."
        ) from None
