"""Work of kernels that a compiled program calls by name only."""

import math
import re

from jaxgrpo.plan.hlo import Shape

_PRODUCTS = {"fwd": 2, "dq": 3, "dkv": 4}
"""Matrix products of each splash kernel: scores and values; scores, their gradient and
that of queries; scores, their gradient, and those of keys and of values."""


def kernel_flops(name: str, operands: tuple[Shape, ...]) -> float:
    """FLOPs of a splash attention kernel; 0 for what is none.

    Each query meets the keys up to its own position, queries being the last of the
    row's tokens; blocks on the diagonal are computed whole and not counted so.

    Args:
      name: Of the instruction; kernels are named by the functions that make them.
      operands: Shapes of its arguments, in order.
    """
    kernel = re.match(r"splash_mqa_(fwd|dq|dkv)", name)
    if not kernel:
        return 0.0
    # Masks come first and are of integers; queries [.., R, T, H], keys [.., X, H].
    queries, keys = [s for s in operands if s.dtype in ("bf16", "f32", "f16")][:2]
    num_heads, num_queries, width = queries.dims[-3:]
    num_keys = keys.dims[-2]
    earlier = num_keys - num_queries
    pairs = num_queries * earlier + num_queries * (num_queries + 1) / 2
    rows = math.prod(keys.dims[:-2])
    return 2.0 * _PRODUCTS[kernel.group(1)] * rows * num_heads * width * pairs
