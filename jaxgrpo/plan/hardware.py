"""Accelerators by name: what a plan is made for.

Figures are per device as jax counts devices: a TPU7x chip is two of them. Rates are the
makers' peaks; nothing runs at them.

Reference:
  Cloud TPU documentation, https://docs.cloud.google.com/tpu/docs/v4 (and v5e, v5p, v6e,
  tpu7x), for peak bfloat16 compute, memory and its bandwidth, and for the bandwidth
  between chips, of which one ring along one axis of the torus gets its two links: 100
  GB/s where a link carries 50 each way (v4, v5e), otherwise 200. Memory that programs
  can use is what libtpu 0.0.42.1 grants them. NVIDIA data sheets of A100 80GB, H100,
  H200 and B200 (SXM): dense bfloat16 compute, bandwidth, half of NVLink's, and memory
  less the 1 GiB that the runtime takes. The time of a hop is rough: about a microsecond
  between TPUs (https://jax-ml.github.io/scaling-book/sharding), more for NCCL.
"""

import math
import re
from dataclasses import dataclass
from typing import Literal

GIB = 2**30

Platform = Literal["cpu", "gpu", "tpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One device. A rate of 0 is unknown."""

    name: str
    platform: Platform
    memory_bytes: int
    """Of main memory that programs can use."""
    flops_per_s: float
    """Peak of bfloat16 products that are summed in float32."""
    memory_bytes_per_s: float
    link_bytes_per_s: float
    """What it can receive from its neighbours along one axis."""
    hop_s: float = 1e-6
    """Until what one device sends is with the next, however little it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Devices that are joined."""

    name: str
    """As given on the command line: `v5e:4x4`."""
    chip: Chip
    num_devices: int
    shape: tuple[int, ...] = ()
    """Chips along each axis of a TPU slice."""


def _tpu(
    name: str, gib: float, tera_flops: float, memory_gb: float, link_gb: float
) -> Chip:
    return Chip(
        name=name,
        platform="tpu",
        memory_bytes=int(gib * GIB),
        flops_per_s=tera_flops * 1e12,
        memory_bytes_per_s=memory_gb * 1e9,
        link_bytes_per_s=link_gb * 1e9,
    )


def _gpu(
    name: str, gib: float, tera_flops: float, memory_gb: float, link_gb: float
) -> Chip:
    return Chip(
        name=name,
        platform="gpu",
        memory_bytes=int(gib * GIB),
        flops_per_s=tera_flops * 1e12,
        memory_bytes_per_s=memory_gb * 1e9,
        link_bytes_per_s=link_gb * 1e9,
        hop_s=2e-6,
    )


TPUS = {
    chip.name: chip
    for chip in (
        _tpu("v4", 30.75, 275, 1200, 100),
        _tpu("v5e", 15.75, 197, 819, 100),
        _tpu("v5p", 95.74, 459, 2765, 200),
        _tpu("v6e", 31.25, 918, 1638, 200),
        _tpu("tpu7x", 94.75, 1153.5, 3690, 200),
    )
}
"""TPU generations by name."""

GPUS = {
    chip.name: chip
    for chip in (
        _gpu("a100", 79.0, 312, 2039, 300),
        _gpu("h100", 78.5, 989, 3350, 450),
        _gpu("h200", 139.5, 989, 4800, 450),
        _gpu("b200", 178.0, 2250, 7700, 900),
    )
}
"""GPUs by name."""

_TORUS_AXES = {"v4": 3, "v5e": 2, "v5p": 3, "v6e": 2, "tpu7x": 3}
_DEVICES_PER_CHIP = {"tpu7x": 2}

_KINDS = {
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU7x": "tpu7x",
}
"""What jax calls a device: its generation."""

HERE = "here"
"""Name of the present devices."""


def parse_topology(name: str) -> Topology:
    """The devices that a name stands for; `here` is not one of them.

    Args:
      name: `v5e:4x4` (TPU generation and chips along each axis), `gpu:h200` or
        `gpu:h200x8` (GPUs of one machine).

    Raises:
      ValueError: If the name is of neither form.

    Example:
      >>> parse_topology("v5p:4x4x4").num_devices
      64
      >>> parse_topology("gpu:h100x8").num_devices
      8
    """
    generation, _, rest = name.partition(":")
    if generation == "gpu":
        return _gpu_topology(name, rest)
    if generation not in TPUS:
        raise ValueError(
            f"--topology {name!r} is unknown. Write GENERATION:SHAPE with one of "
            f"{', '.join(TPUS)} (v5e:4x4), gpu:NAME with one of {', '.join(GPUS)} "
            f"(gpu:h200 or gpu:h200x8), or {HERE}."
        )
    axes = _TORUS_AXES[generation]
    example = "x".join(["4"] * axes)
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){1,2}", rest):
        raise ValueError(
            f"--topology {name!r} has no shape. Write the chips along each axis, such "
            f"as {generation}:{example}."
        )
    shape = tuple(int(size) for size in rest.split("x"))
    if len(shape) > axes:
        raise ValueError(
            f"--topology {name!r} has {len(shape)} axes; {generation} slices have "
            f"{axes}. Write it like {generation}:{example}."
        )
    num_devices = math.prod(shape) * _DEVICES_PER_CHIP.get(generation, 1)
    return Topology(
        name=name, chip=TPUS[generation], num_devices=num_devices, shape=shape
    )


def _gpu_topology(name: str, rest: str) -> Topology:
    kind, _, count = rest.partition("x")
    if kind not in GPUS or (count and not re.fullmatch(r"[1-9]\d*", count)):
        raise ValueError(
            f"--topology {name!r} is unknown. Write gpu:NAME or gpu:NAMExCOUNT with "
            f"one of {', '.join(GPUS)}."
        )
    return Topology(name=name, chip=GPUS[kind], num_devices=int(count or 1))


def known_chip(device_kind: str) -> Chip | None:
    """The chip that jax calls so, or None.

    Example:
      >>> known_chip("TPU v5 lite").name, known_chip("NVIDIA H200").name
      ('v5e', 'h200')
    """
    if device_kind in _KINDS:
        return TPUS[_KINDS[device_kind]]
    words = device_kind.lower().replace("-", " ").split()
    return next((chip for name, chip in GPUS.items() if name in words), None)
