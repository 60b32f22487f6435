"""Where arrays lie on a mesh, read from the dims in their names.

Axes of the mesh: `data` splits the batch; `fsdp` splits the batch and the weights;
`tensor` splits heads, MLP and vocabulary. A parameter's name ends in its dims, and the
dims say where it lies:

    D -> fsdp        N, K, F, V -> tensor        L, H, Z -> whole

Norms have no dims in their name and are whole on every device. Programs stay those of
one device: the compiler inserts the communication. The functions below that act on
traced arrays tell it the few things that it cannot guess; they do nothing where the
arrays lie on a single device, inside `jax.shard_map`, or on a mesh with other axes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

BATCH_AXES = ("data", "fsdp")
"""Axes that split prompts and rows."""

AXES = (*BATCH_AXES, "tensor")
"""All axes of the mesh, slowest first."""

_AXIS_OF_DIM = {
    "D": "fsdp",
    "N": "tensor",
    "K": "tensor",
    "F": "tensor",
    "V": "tensor",
    "H": None,
    "Z": None,
}


def state_shardings(state: Any, mesh: Mesh | AbstractMesh) -> Any:
    """Where each array of a training state lies: moments lie with their parameter.

    An array belongs to a parameter if its path ends in the parameter's name and it has
    the parameter's rank; all others (counters, norms) are whole on every device.

    Args:
      state: Tree of arrays or of their shapes; parameters, optimiser state, or both.
      mesh: With the axes above.

    Raises:
      ValueError: If an axis does not divide a dim that it splits.
    """
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: NamedSharding(mesh, _spec(path, leaf.shape, mesh)), state
    )


def kept_in_place(state: Any) -> Any:
    """The same traced state, told to lie where `state_shardings` says.

    Without it the compiler chooses where a new state lies; a norm's scale then comes
    back split, and the next step is compiled again for it.

    Args:
      state: Tree of traced arrays.
    """
    mesh = _mesh_of(state)
    if mesh is None:
        return state
    return jax.lax.with_sharding_constraint(state, state_shardings(state, mesh))


def gathered_weights(params: Any) -> Any:
    """The same traced weights, whole along `fsdp`.

    Rows and weights are split along the same axis, so one of them must move. Without
    this the compiler may gather the rows, and every device computes all of them.

    The gradient is split again where it arises: summed over devices, each keeps its
    part, and no device holds whole gradients of all layers.

    Args:
      params: Tree of traced weights, by their names; stacked layers or one layer.
    """
    mesh = _mesh_of(params)
    if mesh is None or not are_weights_split(params):
        return params

    def gathered(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        spec = _spec(path, leaf.shape, mesh)
        whole = PartitionSpec(*(None if axis == "fsdp" else axis for axis in spec))
        return _gathered(leaf, NamedSharding(mesh, whole), NamedSharding(mesh, spec))

    return jax.tree_util.tree_map_with_path(gathered, params)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gathered(weight: jax.Array, whole: NamedSharding, split: NamedSharding):
    return jax.lax.with_sharding_constraint(weight, whole)


def _gathered_forward(weight: jax.Array, whole: NamedSharding, split: NamedSharding):
    return jax.lax.with_sharding_constraint(weight, whole), None


def _gathered_backward(
    whole: NamedSharding, split: NamedSharding, _: None, weight_bar: jax.Array
) -> tuple[jax.Array]:
    # First whole, so that each device multiplies its own rows and the results are
    # summed; asked for a part at once, the compiler may gather the rows instead.
    whole_bar = jax.lax.with_sharding_constraint(weight_bar, whole)
    return (jax.lax.with_sharding_constraint(whole_bar, split),)


_gathered.defvjp(_gathered_forward, _gathered_backward)


def are_weights_split(params: Any) -> bool:
    """Whether traced weights lie on a mesh that splits them along `fsdp`."""
    mesh = _mesh_of(params)
    return mesh is not None and mesh.shape["fsdp"] > 1


def per_device(function: Callable[..., jax.Array], *operands: jax.Array) -> jax.Array:
    """A function of rows and heads, run by every device on its own ones.

    The compiler cannot split a kernel that it did not write; rows and heads need no
    communication.

    Args:
      function: Of arrays that lead with P or B, all in one order of rows; those of rank
        4 have their heads third. Returns rank 4. Whole prompts lie on a device.
      operands: Traced arrays; where they lie on a single device the function is called
        as it is.
    """
    mesh = _mesh_of(operands)
    if mesh is None:
        return function(*operands)
    rows, rows_and_heads = (
        PartitionSpec(BATCH_AXES),
        PartitionSpec(BATCH_AXES, None, "tensor"),
    )
    specs = tuple(rows_and_heads if x.ndim == 4 else rows for x in operands)
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=specs,
        out_specs=rows_and_heads,
        check_vma=False,  # kernels do not say along which axes their results vary
    )(*operands)


def per_row_shard(function: Callable[[Any, Any], Any], rows: Any, whole: Any) -> Any:
    """A function of rows, run by each shard of the batch on its own ones.

    What is whole gets one gradient, summed over the shards at the end. The `tensor`
    axis is left to the compiler.

    Args:
      function: Takes both trees; returns arrays that lead with the rows.
      rows: Tree of traced arrays that lead with P or B.
      whole: Tree of arrays that are whole along data and fsdp.
    """
    mesh = _mesh_of(rows)
    if mesh is None or num_row_shards(rows) == 1:
        return function(rows, whole)
    by_rows = PartitionSpec(BATCH_AXES)
    return jax.shard_map(
        function,
        mesh=mesh,
        in_specs=(by_rows, PartitionSpec()),
        out_specs=by_rows,
        axis_names=set(BATCH_AXES),
    )(rows, whole)


def num_devices(array: jax.Array) -> int:
    """Devices of the mesh that a traced array lies on; 1 where there is none."""
    mesh = _mesh_of(array)
    return 1 if mesh is None else mesh.size


def num_row_shards(arrays: Any) -> int:
    """Parts that the mesh of traced arrays splits rows into; 1 without a mesh."""
    mesh = _mesh_of(arrays)
    return 1 if mesh is None else math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def split_rows(batch: Any) -> Any:
    """The same traced arrays, their leading dim split over data and fsdp.

    Args:
      batch: Tree of traced arrays that lead with P or B.
    """
    mesh = _mesh_of(batch)
    if mesh is None:
        return batch
    sharding = NamedSharding(mesh, PartitionSpec(BATCH_AXES))
    return jax.lax.with_sharding_constraint(batch, sharding)


def split_as(tree: Any, specs: Any) -> Any:
    """The same traced arrays, each cut as its specification says.

    Args:
      tree: Tree of traced arrays.
      specs: Tree of the same form, of `PartitionSpec`.
    """
    mesh = _mesh_of(tree)
    if mesh is None:
        return tree
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)
    return jax.lax.with_sharding_constraint(tree, shardings)


def divisors(number: int) -> list[int]:
    """All divisors, ascending.

    Example:
      >>> divisors(12)
      [1, 2, 3, 4, 6, 12]
    """
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _mesh_of(tree: Any) -> AbstractMesh | None:
    """The mesh that traced arrays lie on, if it is one of ours."""
    for leaf in jax.tree.leaves(tree):
        mesh = jax.typeof(leaf).sharding.mesh
        is_ours = mesh.axis_names == AXES and set(mesh.axis_types) == {AxisType.Auto}
        if is_ours and mesh.size > 1 and isinstance(leaf, Tracer):
            return mesh
    return None


def _spec(
    path: tuple[Any, ...], shape: tuple[int, ...], mesh: Mesh | AbstractMesh
) -> PartitionSpec:
    name = _name(path)
    dims = name.rpartition("_")[2]
    is_param = bool(dims) and set(dims) <= set(_AXIS_OF_DIM)
    num_stacked = len(shape) - len(dims)
    if not is_param or num_stacked not in (0, 1):
        return PartitionSpec()
    axes = [_AXIS_OF_DIM[dim] for dim in dims]
    for dim, size, axis in zip(dims, shape[num_stacked:], axes, strict=True):
        if axis is not None and size % mesh.shape[axis]:
            raise ValueError(
                f"{name} has {dim} = {size}, which mesh.{axis} = {mesh.shape[axis]} "
                f"does not divide ({size % mesh.shape[axis]} left over). "
                f"Set mesh.{axis} to one of {divisors(size)}."
            )
    return PartitionSpec(*[None] * num_stacked, *axes)


def _name(path: tuple[Any, ...]) -> str:
    """The last name in a path: that of a dict's key, also below a Flax variable."""
    names = [str(part.key) for part in path if hasattr(part, "key")]
    return names[-1] if names else ""
