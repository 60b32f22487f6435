"""What of a layer is kept for its backward pass, by name; the rest is computed again.

Kept per layer besides its input, for B rows of T tokens (in elements):

    none        everything: all of the below, norms, activations; the scores where
                attention computes them in plain XLA
    dots        results of products with weights, B T (N + 2 K) H + B T D + 2 B T F,
                and of attention, B T N H
    attention   what attention reads and returns: B T (2 N + 2 K) H; the MLP and the
                projections' norms are computed again
    full        nothing; every layer runs twice

A fused kernel's few numbers per query are kept wherever its result is, so that it does
not run again. Weights gathered along the mesh's `fsdp` axis are never kept: the
backward pass gathers them again, a layer at a time.

Reference:
  Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016,
  https://arxiv.org/abs/1604.06174; Korthikanti et al., Reducing Activation
  Recomputation in Large Transformer Models, 2022, https://arxiv.org/abs/2205.05198,
  for what is worth keeping.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name

ATTENTION = "attention"
"""Label of attention's result and of what its backward pass needs beside it."""

_QKV = "qkv"
"""Label of queries, keys and values as attention reads them."""

# A kernel of `jax.nn` that cannot be labelled from outside.
_CUDNN_KERNEL = "dot_product_attention_fwd_wrapper"

_GATHER = "sharding_constraint"


def kept_of_attention(x: Any) -> Any:
    """The same tree of arrays, labelled as attention's result."""
    return checkpoint_name(x, ATTENTION)


def read_by_attention(x: Any) -> Any:
    """The same tree of arrays, labelled as what attention reads."""
    return checkpoint_name(x, _QKV)


def _keeps_all_but_gathered(primitive: Any, *_: Any, **params: Any) -> bool:
    return primitive.name != _GATHER


def _keeps_labelled(labels: set[str]) -> Callable[..., bool]:
    def keeps(primitive: Any, *_: Any, **params: Any) -> bool:
        is_labelled = primitive.name == "name" and params["name"] in labels
        return is_labelled or primitive.name == _CUDNN_KERNEL

    return keeps


def _keeps_dots(primitive: Any, *operands: Any, **params: Any) -> bool:
    is_product = jax.checkpoint_policies.dots_with_no_batch_dims_saveable(
        primitive, *operands, **params
    )
    return is_product or _keeps_labelled({ATTENTION})(primitive, **params)


REMAT: dict[str, Callable[..., bool]] = {
    "none": _keeps_all_but_gathered,
    "dots": _keeps_dots,
    "attention": _keeps_labelled({ATTENTION, _QKV}),
    "full": jax.checkpoint_policies.nothing_saveable,
}
"""What is kept, by name, least recomputation first."""


def rematerialised(
    body: Callable[..., Any], remat: str, *, is_unrolled: bool
) -> Callable[..., Any]:
    """The same function of one layer, with another set of values kept.

    Args:
      body: One step of a scan over layers.
      remat: A name of `REMAT`.
      is_unrolled: Whether the scan will be unrolled. The compiler must then be kept
        from merging the second computation with the first; a loop keeps them apart.

    Raises:
      ValueError: If there is no such name.
    """
    if remat not in REMAT:
        raise ValueError(f"remat is {remat!r}. Use one of {sorted(REMAT)}.")
    return jax.checkpoint(body, policy=REMAT[remat], prevent_cse=is_unrolled)
