"""Tensors into safetensors files, block by block; folders that appear whole.

The library writes a file from tensors that are all in memory. Here a file's header is
written first, from names, shapes and types, and the numbers follow as they come.

Reference:
  The format, https://github.com/huggingface/safetensors#format.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

MAX_SHARD_BYTES = 5 * 10**9
"""Largest file unless told otherwise; Hugging Face's own choice."""

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Types of numbers that are written, and their names in the format."""

INCOMPLETE = ".incomplete"
"""Folder inside of a checkpoint's, where it is written before it is whole."""

_CONFIGS = "config.json", "adapter_config.json"
"""Files without which a folder is no checkpoint."""

_METADATA = {"format": "pt"}  # `transformers` refuses files that do not say this


class Tensor(NamedTuple):
    """A tensor to be written."""

    name: str
    shape: tuple[int, ...]
    blocks: Callable[[], Iterable[np.ndarray]]
    """Its numbers in order, as any number of consecutive arrays."""


def write_tensors(
    folder: Path,
    tensors: Sequence[Tensor],
    dtype: str,
    *,
    max_shard_bytes: int = MAX_SHARD_BYTES,
    stem: str = "model",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Writes one file, or shards and an index where one would be too large.

    Args:
      folder: Must exist.
      tensors: In the order of the files; each is asked for its blocks once.
      dtype: One of `DTYPES`; blocks of another type are converted.
      max_shard_bytes: Of the numbers in a file; a tensor that is larger gets a file of
        its own.
      stem: Of the files' names.
      report: Told after each tensor how many of how many are written.
    """
    tensors = _counted(tensors, report)
    shards = _shards(tensors, dtype, max_shard_bytes)
    if len(shards) == 1:
        _write_file(folder / f"{stem}.safetensors", tensors, dtype)
        return
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        name = f"{stem}-{number:05}-of-{len(shards):05}.safetensors"
        _write_file(folder / name, shard, dtype)
        weight_map |= dict.fromkeys((tensor.name for tensor in shard), name)
    total = sum(_num_bytes(tensor, dtype) for tensor in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / f"{stem}.safetensors.index.json", index)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A place to write a checkpoint in, whose files then appear in the folder at once.

    If the block fails, the folder keeps what it held. If the process is killed while
    files are moved, the configuration is missing, so that no one takes the rest for a
    checkpoint. Weights of an earlier checkpoint in the folder are removed; its other
    files stay unless they are written anew.

    Args:
      folder: Made if needed.
    """
    incomplete = folder / INCOMPLETE
    if incomplete.exists():  # of a process that was killed
        shutil.rmtree(incomplete)
    incomplete.mkdir(parents=True)
    try:
        yield incomplete
        for name in _CONFIGS:
            (folder / name).unlink(missing_ok=True)
        for old in folder.glob("*model*.safetensors*"):
            old.unlink()
        for path in sorted(incomplete.iterdir(), key=_config_last):
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(incomplete)


def check_is_empty(folder: Path) -> None:
    """Refuses a folder that holds anything but an interrupted attempt.

    Raises:
      ValueError: If it does, or if it is a file.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or {p.name for p in folder.iterdir()} - {INCOMPLETE}:
        raise ValueError(
            f"{folder} exists and is not an empty folder. Name a new one, or remove it."
        )


def bytes_of(size: str) -> int:
    """The number of bytes that a text such as `5GB` states, in powers of 1,000.

    Raises:
      ValueError: For another text.

    Example:
      >>> bytes_of("5GB"), bytes_of("300 mb")
      (5000000000, 300000000)
    """
    match = re.fullmatch(r"\s*(\d+)\s*([KMG]B)\s*", size, re.IGNORECASE)
    number = int(match.group(1)) if match else 0
    if match is None or number == 0:
        raise ValueError(
            f"{size!r} is no size of a file. Write for example 5GB or 300MB."
        )
    return number * 1000 ** ("KMG".index(match.group(2)[0].upper()) + 1)


def write_json(path: Path, value: Any) -> None:
    """Writes plain data, indented."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _counted(
    tensors: Sequence[Tensor], report: Callable[[int, int], None]
) -> list[Tensor]:
    """The same tensors, which are counted as they are written."""

    def blocks(number: int, tensor: Tensor) -> Iterator[np.ndarray]:
        yield from tensor.blocks()
        report(number, len(tensors))

    return [
        tensor._replace(blocks=partial(blocks, number, tensor))
        for number, tensor in enumerate(tensors, start=1)
    ]


def _config_last(path: Path) -> tuple[bool, str]:
    return path.name in _CONFIGS, path.name


def _shards(
    tensors: Sequence[Tensor], dtype: str, max_shard_bytes: int
) -> list[list[Tensor]]:
    shards: list[list[Tensor]] = [[]]
    room = max_shard_bytes
    for tensor in tensors:
        size = _num_bytes(tensor, dtype)
        if size > room and shards[-1]:
            shards.append([])
            room = max_shard_bytes
        shards[-1].append(tensor)
        room -= size
    return shards


def _num_bytes(tensor: Tensor, dtype: str) -> int:
    return math.prod(tensor.shape) * jnp.dtype(dtype).itemsize


def _write_file(path: Path, tensors: Sequence[Tensor], dtype: str) -> None:
    header: dict[str, Any] = {"__metadata__": _METADATA}
    end = 0
    for tensor in tensors:
        start, end = end, end + _num_bytes(tensor, dtype)
        header[tensor.name] = {
            "dtype": DTYPES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that numbers begin at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in tensors:
            written = 0
            for block in tensor.blocks():
                stored = np.ascontiguousarray(block, jnp.dtype(dtype))
                file.write(stored.reshape(-1).view(np.uint8).data)
                written += stored.nbytes
            assert written == _num_bytes(tensor, dtype), tensor.name
        file.flush()
        os.fsync(file.fileno())
