"""Devices to compile for: a TPU slice that is elsewhere, or the present ones."""

import importlib.util
import os
from dataclasses import replace
from typing import Any

from jaxgrpo.plan.hardware import GIB, HERE, Chip, Topology, known_chip, parse_topology

_ACCELERATOR_TYPES = {
    "v4": "v4-8",
    "v5e": "v5litepod-4",
    "v5p": "v5p-8",
    "v6e": "v6e-4",
    "tpu7x": "tpu7x-8",
}


def prepare_environment(name: str) -> None:
    """Sets what libraries read once, for a topology. Call it before jax is imported.

    The TPU compiler is kept from looking for TPUs, here or in the cloud: none is
    touched, also where this machine has some or another process compiles too.

    Args:
      name: Of the topology.

    Raises:
      ValueError: If the name is unknown, or the TPU compiler is not installed.
    """
    if name == HERE:
        return
    topology = parse_topology(name)
    os.environ["JAX_PLATFORMS"] = "cpu"
    if topology.chip.platform != "tpu":
        return
    if importlib.util.find_spec("libtpu") is None:
        raise ValueError(
            f"--topology {name} needs the TPU compiler, and libtpu is not installed. "
            "Run pip install 'jaxgrpo[tpu]'."
        )
    os.environ |= {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": _ACCELERATOR_TYPES[topology.chip.name],
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        # A program for other devices cannot be read back from the cache.
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }


def present_topology() -> Topology:
    """The devices of this process, with the memory that jax has of them."""
    import jax

    devices = jax.devices()
    chip = known_chip(devices[0].device_kind) or Chip(
        name=devices[0].device_kind,
        platform=devices[0].platform,
        memory_bytes=_host_bytes() // len(devices),
        flops_per_s=0.0,
        memory_bytes_per_s=0.0,
        link_bytes_per_s=0.0,
    )
    limit = (devices[0].memory_stats() or {}).get("bytes_limit")
    if limit:
        chip = replace(chip, memory_bytes=limit)
    return Topology(name=HERE, chip=chip, num_devices=len(devices))


def compile_devices(topology: Topology) -> list[Any] | None:
    """The devices of a topology for the compiler; None for those it cannot do.

    Args:
      topology: Present, or a TPU slice; there is no compiler for GPUs elsewhere.

    Raises:
      ValueError: If no slice has this shape.
    """
    import jax
    from jax.experimental import topologies

    if topology.name == HERE:
        return jax.devices()
    if topology.chip.platform != "tpu":
        return None
    options: dict[str, Any] = {}
    if topology.chip.name == "v4":
        options["chip_config_name"] = "megacore"  # two cores are one device
    if topology.shape in ((1, 1), (1, 1, 1)):
        options["chips_per_host_bounds"] = (1, 1, 1)
    try:
        description = topologies.get_topology_desc(
            platform="tpu", topology_name=topology.name, **options
        )
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).partition(": ")[2].partition("\n")[0]
        raise ValueError(
            f"--topology {topology.name} is no TPU slice: {reason}. Write the shape of "
            "one, such as v5e:4x4 or v5p:2x2x2."
        ) from None
    return list(description.devices)


def _host_bytes() -> int:
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return pages * page if pages > 0 else GIB
