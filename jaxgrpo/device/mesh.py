"""The devices as a mesh, and what lies where on it (see `placement.py`)."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.placement import AXES, BATCH_AXES, divisors, state_shardings


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
    sizes = mesh_sizes(len(devices), data, fsdp, tensor)
    axis_types = (AxisType.Auto,) * len(AXES)
    try:
        return jax.make_mesh(sizes, AXES, axis_types=axis_types, devices=devices)
    except NotImplementedError:
        # An axis is no product of axes of the torus, as 8 of 4 x 4 x 4: split one.
        arranged = mesh_utils.create_device_mesh(
            sizes, devices, allow_split_physical_axes=True
        )
        return Mesh(arranged, AXES, axis_types=axis_types)


def mesh_sizes(
    num_devices: int, data: int | Literal["auto"], fsdp: int, tensor: int
) -> tuple[int, int, int]:
    """Devices along data, fsdp and tensor.

    Args:
      num_devices: All there are.
      data: Along `data`; "auto" takes those that are left.
      fsdp: Along `fsdp`.
      tensor: Along `tensor`.

    Raises:
      ValueError: If the product of the axes is not the number of devices.

    Example:
      >>> mesh_sizes(16, "auto", 4, 2)
      (2, 4, 2)
    """
    inner = fsdp * tensor
    if data == "auto":
        if num_devices % inner:
            raise ValueError(
                f"mesh.fsdp {fsdp} * mesh.tensor {tensor} = {inner} does not divide "
                f"{num_devices} devices. Choose a product that does: "
                f"{divisors(num_devices)}."
            )
        data = num_devices // inner
    if data * inner != num_devices:
        raise ValueError(
            f"mesh.data {data} * mesh.fsdp {fsdp} * mesh.tensor {tensor} = "
            f"{data * inner}, but there are {num_devices} devices. Make the product "
            f'{num_devices}, or set mesh.data to "auto".'
        )
    return data, fsdp, tensor


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


def batch_sharding(mesh: Mesh | AbstractMesh) -> NamedSharding:
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


def replicated_like(tree: Any, params: Any) -> Any:
    """Arrays whole on every device of the mesh that the parameters lie on.

    Args:
      tree: Of arrays; on a single device they are left as they are.
      params: Tree of arrays.
    """
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh.size == 1:
        return tree
    return jax.device_put(tree, replicated(sharding.mesh))


def num_row_shards(params: Any) -> int:
    """Parts that rows are split into over the mesh that the parameters lie on.

    Args:
      params: Tree of arrays; 1 where they lie on a single device.
    """
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding):
        return 1
    return math.prod(sharding.mesh.shape[axis] for axis in BATCH_AXES)


def replicated(mesh: Mesh | AbstractMesh) -> NamedSharding:
    """Of arrays that are whole on every device."""
    return NamedSharding(mesh, PartitionSpec())
