"""Rows of keys in which a completion follows its prompt, for kernels that want one row.

Plain XLA scores a prompt's keys once for all its samples and needs none of this. A
kernel with an online softmax reads one row of keys per row of queries, so each row gets
a copy of its prompt's keys: B (S + U) K H elements for keys, as many for values, of one
layer at a time (of all layers where nothing is recomputed in the backward pass).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

PADDING_SEGMENT = 0
COMPLETION_SEGMENT = 1


def joined_rows(
    prefix_PSKH: Float[Array, "P S K H"], suffix_BUKH: Float[Array, "B U K H"]
) -> Float[Array, "B X K H"]:
    """Prompt and completion side by side, the prompt's padding between them.

    X = S + U; query t of a completion may see the first S + t + 1 keys, less padding.

    Args:
      prefix_PSKH: Keys or values of prompts; rows are prompt-major, B / P each.
      suffix_BUKH: Keys or values of completions.
    """
    prefix_BSKH = _repeated(prefix_PSKH, suffix_BUKH.shape[0])
    return jnp.concatenate([prefix_BSKH, suffix_BUKH], axis=1)


def joined_segments(
    prefix_lengths_P: Int[Array, " P"],
    num_prefix_positions: int,
    num_rows: int,
    num_suffix_positions: int,
) -> Int[Array, "B X"]:
    """Segment of each key of `joined_rows`: one that no query has where it pads."""
    position_1S = jnp.arange(num_prefix_positions)[None, :]
    is_prefix_PS = position_1S < prefix_lengths_P[:, None]
    prefix_BS = _repeated(
        jnp.where(is_prefix_PS, COMPLETION_SEGMENT, PADDING_SEGMENT), num_rows
    )
    suffix_BU = jnp.full((num_rows, num_suffix_positions), COMPLETION_SEGMENT)
    return jnp.concatenate([prefix_BS, suffix_BU], axis=1)


def compacted_rows(
    prefix_PSKH: Float[Array, "P S K H"],
    suffix_BUKH: Float[Array, "B U K H"],
    prefix_lengths_P: Int[Array, " P"],
) -> Float[Array, "B X K H"]:
    """Prompt and completion without padding between them; all padding is on the right.

    X = S + U. Row b holds its prompt's n_b tokens, then its U completion positions;
    what follows position n_b + U is left over and must be masked by length.

    Args:
      prefix_PSKH: Keys or values of prompts; rows are prompt-major, B / P each.
      suffix_BUKH: Keys or values of completions.
      prefix_lengths_P: Tokens of each prompt, n.
    """
    num_rows, num_suffix_positions = suffix_BUKH.shape[:2]
    prefix_BSKH = _repeated(prefix_PSKH, num_rows)
    room_BXKH = jnp.pad(
        prefix_BSKH, ((0, 0), (0, num_suffix_positions), (0, 0), (0, 0))
    )
    return _written_at(room_BXKH, suffix_BUKH, _repeated(prefix_lengths_P, num_rows))


def compacted_queries(
    q_BTNH: Float[Array, "B T N H"],
    num_prefix_positions: int,
    prefix_lengths_P: Int[Array, " P"],
) -> Float[Array, "B X N H"]:
    """Queries where `compacted_rows` has their own keys, zeros everywhere else.

    A kernel that masks by equal positions of query and key then sees a plain causal
    row. It spends S zero queries a row.
    """
    B, T, N, H = q_BTNH.shape
    room_BXNH = jnp.zeros((B, num_prefix_positions + T, N, H), q_BTNH.dtype)
    return _written_at(room_BXNH, q_BTNH, _repeated(prefix_lengths_P, B))


def completions_of_compacted(
    out_BXNH: Float[Array, "B X N H"],
    prefix_lengths_P: Int[Array, " P"],
    num_positions: int,
) -> Float[Array, "B T N H"]:
    """The T positions that follow each row's prompt."""
    start_B = _repeated(prefix_lengths_P, out_BXNH.shape[0])

    def cut(row_XNH: Array, start: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(row_XNH, start, num_positions)

    return jax.vmap(cut)(out_BXNH, start_B)


def padded_rows(
    x: Shaped[Array, "B T *any"], multiple: int, **how: Any
) -> Shaped[Array, "B X *any"]:
    """Rows with padding at the right, X the next multiple; `how` as in `jnp.pad`."""
    missing = -x.shape[1] % multiple
    return jnp.pad(x, [(0, 0), (0, missing)] + [(0, 0)] * (x.ndim - 2), **how)


def _written_at(room_BX: Array, part_BT: Array, start_B: Array) -> Array:
    def write(room_X: Array, part_T: Array, start: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(room_X, part_T, start, axis=0)

    return jax.vmap(write)(room_BX, part_BT, start_B)


def _repeated(array_P: Array, num_rows: int) -> Array:
    """One prompt's values for each of its B / P rows."""
    num_samples = num_rows // array_P.shape[0]
    return jnp.repeat(array_P, num_samples, axis=0, total_repeat_length=num_rows)
