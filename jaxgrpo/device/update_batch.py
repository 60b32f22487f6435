"""The rows of an update, and how they are cut into minibatches and microbatches.

Rows are cut into parts of equal size. Where every prompt has the same number of rows
(`is_prompt_major`), the prompts are cut side by side with them and each is run once per
update; parts that have to be smaller hold a share of the rows of each of their prompts,
which is then run once per part. Otherwise every part runs all prompts and gathers, and
rows are dealt out like cards: what only pads, or was drawn before, stands at the end
of a batch and would fill parts of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.cuts import microbatch_sets
from jaxgrpo.device.placement import num_row_shards
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.sampling.constraint import ConstraintState


class Batch(NamedTuple):
    """What a part of an update needs; every array leads with P or B."""

    prompts: Prompts
    completion_BT: Int[Array, "B T"]
    prompt_index_B: Int[Array, " B"]
    mask_BT: Bool[Array, "B T"]
    advantages_BT: Float[Array, "B T"]
    sampler_logprobs_BT: Float[Array, "B T"]
    old_logprobs_BT: Float[Array, "B T"] | None
    ref_logprobs_BT: Float[Array, "B T"] | None
    kept_BTk: Int[Array, "B T k"] | None
    registers: ConstraintState | None
    """Of the rows' constraints before each token, [B, T]."""
    is_stored_B: Bool[Array, " B"] | None = None
    """Rows that an earlier policy sampled, whose old log-probs are the sampler's; None
    where there can be none."""
    is_traced_BT: Bool[Array, "B T"] | None = None
    """Tokens of high entropy before the first update; None without traces."""


Rows = TypeVar("Rows", bound=Any)


def _cuts(batch: Any, num_parts: int, is_prompt_major: bool) -> tuple[int, int]:
    """Into how many sets prompts are cut, and then the rows of each prompt of a set.

    Prompts are cut as often as their number allows, with the same number of them left
    on every device that holds rows.
    """
    if not is_prompt_major:
        return num_parts, 1
    num_prompts = batch.prompts.lengths_P.shape[0]
    num_shards = num_row_shards(batch.prompts.lengths_P)
    num_sets = microbatch_sets(num_prompts, num_parts, num_shards)
    num_rows = batch.mask_BT.shape[0]
    assert num_rows % num_parts == 0, f"{num_rows} rows in {num_parts} parts"
    return num_sets, num_parts // num_sets


def split_batch(batch: Rows, num_parts: int, is_prompt_major: bool) -> Rows:
    """Cuts rows into parts along a new first axis, and prompts where they can be.

    Prompt indices become relative to their part's prompts.

    Args:
      batch: A `Batch`, or another NamedTuple with `prompts`, `prompt_index_B`,
        `mask_BT` and any arrays that lead with B.
      num_parts: All of one size.
      is_prompt_major: Row b continues prompt b // (B / P).
    """
    num_sets, num_shares = _cuts(batch, num_parts, is_prompt_major)
    num_prompts = batch.prompts.lengths_P.shape[0]

    def cut_prompts(x: Array) -> Array:
        cut = x.reshape(num_sets, num_prompts // num_sets, *x.shape[1:])
        return jnp.repeat(cut, num_shares, axis=0) if num_shares > 1 else cut

    def cut_rows(x: Array) -> Array:
        if not is_prompt_major:
            return x.reshape(-1, num_parts, *x.shape[1:]).swapaxes(0, 1)
        if num_shares == 1:
            return x.reshape(num_parts, x.shape[0] // num_parts, *x.shape[1:])
        shares = x.reshape(
            num_sets, num_prompts // num_sets, num_shares, -1, *x.shape[1:]
        )
        return shares.swapaxes(1, 2).reshape(num_parts, -1, *x.shape[1:])

    rows = {
        name: jax.tree.map(cut_rows, value)
        for name, value in batch._asdict().items()
        if name != "prompts"
    }
    if not is_prompt_major:
        # Ragged groups: a part's rows may continue any prompt.
        prompts = jax.tree.map(
            lambda x: jnp.broadcast_to(x[None], (num_parts, *x.shape)), batch.prompts
        )
        return batch._replace(prompts=prompts, **rows)
    set_of_part_M1 = jnp.arange(num_parts)[:, None] // num_shares
    rows["prompt_index_B"] -= set_of_part_M1 * (num_prompts // num_sets)
    return batch._replace(prompts=jax.tree.map(cut_prompts, batch.prompts), **rows)


def joined_values(
    values: Any, batch: Any, num_parts: int, is_prompt_major: bool
) -> Any:
    """Values per row of the parts of `split_batch`, in the order of the batch."""
    num_sets, num_shares = _cuts(batch, num_parts, is_prompt_major)
    num_prompts = batch.prompts.lengths_P.shape[0]

    def join(x: Array) -> Array:
        if not is_prompt_major:
            x = x.swapaxes(0, 1)
        elif num_shares > 1:
            shares = x.reshape(
                num_sets, num_shares, num_prompts // num_sets, -1, x.shape[-1]
            )
            x = shares.swapaxes(1, 2)
        return x.reshape(-1, x.shape[-1])

    return jax.tree.map(join, values)


def in_parts(
    compute: Callable[[Rows], Any],
    rows: Rows,
    num_parts: int,
    is_prompt_major: bool,
) -> Any:
    """Values per row, computed for one part of the rows after the other.

    Args:
      compute: From a part, as `split_batch` cuts it, to a tree of arrays [B, T].
      rows: As for `split_batch`.
      num_parts: All of one size; memory is that of one of them.
      is_prompt_major: Row b continues prompt b // (B / P).

    Returns:
      The tree, in the order of the rows.
    """
    values = jax.lax.map(compute, split_batch(rows, num_parts, is_prompt_major))
    return joined_values(values, rows, num_parts, is_prompt_major)
