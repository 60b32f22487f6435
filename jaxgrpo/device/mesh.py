"""How devices are arranged, and which array dim lies along which axis.

Axes of the mesh: `data` splits the batch; `fsdp` splits the batch and the weights;
`tensor` splits heads, MLP and vocabulary. A parameter's name ends in its dims, and the
dims say where it lies:

    D -> fsdp        N, K, F, V -> tensor        L, H -> whole

Norms have no dims in their name and are whole on every device. Programs stay those of
one device: the compiler inserts the communication.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import initial_params

BATCH_AXES = ("data", "fsdp")
"""Axes that split prompts and rows."""

_AXIS_OF_DIM = {
    "D": "fsdp",
    "N": "tensor",
    "K": "tensor",
    "F": "tensor",
    "V": "tensor",
    "H": None,
}


def make_mesh(
    data: int | Literal["auto"] = "auto",
    fsdp: int = 1,
    tensor: int = 1,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """The devices as a mesh with axes data, fsdp and tensor.

    Args:
      data: Devices along `data`; "auto" takes those that are left.
      fsdp: Devices along `fsdp`.
      tensor: Devices along `tensor`; fastest, so its devices are neighbours.
      devices: What to arrange; all devices of the process group if not given.

    Raises:
      ValueError: If the product of the axes is not the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    num_devices, inner = len(devices), fsdp * tensor
    if data == "auto":
        if num_devices % inner:
            raise ValueError(
                f"mesh.fsdp {fsdp} * mesh.tensor {tensor} = {inner} does not divide "
                f"{num_devices} devices. Choose a product that does: "
                f"{_divisors(num_devices)}."
            )
        data = num_devices // inner
    if data * inner != num_devices:
        raise ValueError(
            f"mesh.data {data} * mesh.fsdp {fsdp} * mesh.tensor {tensor} = "
            f"{data * inner}, but there are {num_devices} devices. Make the product "
            f'{num_devices}, or set mesh.data to "auto".'
        )
    return jax.make_mesh(
        (data, fsdp, tensor),
        (*BATCH_AXES, "tensor"),
        axis_types=(AxisType.Auto,) * 3,
        devices=devices,
    )


def param_shardings(architecture: Architecture, mesh: Mesh) -> Any:
    """Where each parameter lies: a tree like `initial_params`, of shardings.

    Args:
      architecture: Sizes of the model.
      mesh: From `make_mesh`.

    Raises:
      ValueError: If an axis does not divide a dim that it splits.
    """
    shapes = jax.eval_shape(lambda: initial_params(architecture, jax.random.key(0)))
    return state_shardings(shapes, mesh)


def state_shardings(state: Any, mesh: Mesh) -> Any:
    """Where each array of a training state lies: moments lie with their parameter.

    An array belongs to a parameter if its path ends in the parameter's name and it has
    the parameter's rank; all others (counters, norms) are whole on every device.

    Args:
      state: Tree of arrays or of their shapes; parameters, optimiser state, or both.
      mesh: From `make_mesh`.

    Raises:
      ValueError: If an axis does not divide a dim that it splits.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: NamedSharding(mesh, _spec(path, leaf.shape, mesh)), state
    )


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Of arrays that lead with P or B: split over data and fsdp, by whole rows."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def placed_like(batch: Any, params: Any) -> Any:
    """The arrays of a batch, split over the mesh that the parameters lie on.

    Args:
      batch: Tree of arrays that lead with P or B.
      params: Tree of arrays; on a single device the batch is left as it is.
    """
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh.size == 1:
        return batch
    return jax.device_put(batch, batch_sharding(sharding.mesh))


def replicated(mesh: Mesh) -> NamedSharding:
    """Of arrays that are whole on every device."""
    return NamedSharding(mesh, PartitionSpec())


def _spec(path: tuple[Any, ...], shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    name = str(getattr(path[-1], "key", "")) if path else ""
    dims = name.rpartition("_")[2]
    is_param = bool(dims) and set(dims) <= set(_AXIS_OF_DIM)
    num_stacked = len(shape) - len(dims)
    if not is_param or num_stacked not in (0, 1):
        return PartitionSpec()
    axes = [None] * num_stacked + [_AXIS_OF_DIM[dim] for dim in dims]
    for dim, size, axis in zip(
        dims, shape[num_stacked:], axes[num_stacked:], strict=True
    ):
        if axis is not None and size % mesh.shape[axis]:
            raise ValueError(
                f"{name} has {dim} = {size}, which mesh.{axis} = {mesh.shape[axis]} "
                f"does not divide ({size % mesh.shape[axis]} left over). "
                f"Set mesh.{axis} to one of {_divisors(size)}."
            )
    return PartitionSpec(*axes)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
