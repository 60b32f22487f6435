"""From hidden states to log-probs of tokens; `[B, T, V]` never exists."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgrpo.device.placement import num_row_shards, per_row_shard
from jaxgrpo.device.sampling.constraint import (
    ConstraintState,
    ConstraintTables,
    allowed_tokens,
)


class TokenConstraint(NamedTuple):
    """Which tokens an automaton allowed at each position."""

    tables: ConstraintTables
    """Shared by all rows."""
    states: ConstraintState
    """Of each row before each token, [B, T]."""


class KeptTokens(NamedTuple):
    """Which tokens truncated sampling kept at each position."""

    token_ids_BTk: Int[Array, "B T k"]
    """Repeat an id, or use ids >= num_tokens, where fewer than k were kept."""


class TokenLogprobs(NamedTuple):
    """What the head says of each token, all float32 and in nats."""

    logprobs_BT: Float[Array, "B T"]
    """Log-prob of the target, at the given temperature."""
    entropies_BT: Float[Array, "B T"]
    """Entropy of the distribution the target was drawn from."""
    self_certainties_BT: Float[Array, "B T"] | None
    """KL(uniform || policy) + log of the number of allowed tokens; no gradient."""


def head_logits(
    hidden_BTD: Float[Array, "*rows D"],
    head_VD: Float[Array, "V D"],
    temperature: float | Float[Array, ""] = 1.0,
    num_tokens: int | None = None,
) -> Float[Array, "*rows V"]:
    """Returns float32 logits at a temperature; ids >= num_tokens are -inf.

        z_v = (h . W_v) / temperature

    Products of bfloat16 are summed in float32; float32 inputs are multiplied as
    float32 on every backend, so that sampler and trainer agree.

    Args:
      hidden_BTD: Hidden states after the last norm, with any leading dims.
      head_VD: Output head, one row a token; padded rows are allowed.
      temperature: Divides the logits; above 0.
      num_tokens: Valid vocabulary size; V if not given.

    Returns:
      Logits with V last.
    """
    logits_BTV = jnp.einsum(
        "...d,vd->...v", hidden_BTD, head_VD,
        precision=_precision(hidden_BTD.dtype), preferred_element_type=jnp.float32,
    )  # fmt: skip
    logits_BTV = logits_BTV / temperature
    if num_tokens is None or num_tokens >= head_VD.shape[0]:
        return logits_BTV
    return jnp.where(_token_ids(logits_BTV) < num_tokens, logits_BTV, -jnp.inf)


def token_logprobs(
    hidden_BTD: Float[Array, "B T D"],
    head_VD: Float[Array, "V D"],
    targets_BT: Int[Array, "B T"],
    temperature: float | Float[Array, ""] = 1.0,
    *,
    num_tokens: int | None = None,
    constraint: TokenConstraint | None = None,
    kept: KeptTokens | None = None,
    mask_BT: Bool[Array, "B T"] | None = None,
    chunk: int = 128,
    with_self_certainty: bool = False,
) -> TokenLogprobs:
    """Returns log-prob and entropy of each target, a chunk of tokens at a time.

    With z = (h . W) / temperature over the allowed tokens and p = softmax(z),

        logprob = z_y - logsumexp(z)
        entropy = -sum_v p_v log p_v
        self-certainty = logsumexp(z) - mean_v z_v

    Logits of `chunk` tokens exist at once, forward and backward; the backward pass
    recomputes them and sums the head's gradient in float32. A token is allowed if its
    id is below `num_tokens`, its state allows it, and it is among the kept ids. The
    log-prob of a target that is not allowed is -inf, without gradient.

    On a mesh, call it inside `jax.shard_map` over the axes that split the rows (a
    vocabulary axis may stay automatic): the head's gradient is then reduced over
    devices once, where the compiler alone would do it for every chunk.

    Args:
      hidden_BTD: Hidden states that predict the targets, after the last norm.
      head_VD: Output head, one row a token; padded rows are allowed.
      targets_BT: Token ids, in [0, num_tokens); undefined where masked.
      temperature: Divides the logits; above 0. The sampling temperature. No gradient.
      num_tokens: Valid vocabulary size; V if not given.
      constraint: The constraint that the tokens were sampled under.
      kept: The tokens that truncated sampling left to draw from.
      mask_BT: True at tokens that count. Others get 0 and send no gradient, whatever
        their hidden states hold. All count if not given.
      chunk: Tokens whose logits exist at a time, over all rows; at least 1. Rounded
        to whole positions, at least one of every row.
      with_self_certainty: Whether to compute it.

    Returns:
      Float32 values per token.

    Reference:
      Zhao et al., Learning to Reason without External Rewards, 2025,
      https://arxiv.org/abs/2505.19590 (self-certainty).
    """
    num_rows, num_positions, _ = hidden_BTD.shape
    _check_shapes(hidden_BTD, head_VD, targets_BT, chunk)
    if mask_BT is not None:
        hidden_BTD = jnp.where(mask_BT[:, :, None], hidden_BTD, 0)
        targets_BT = jnp.where(mask_BT, targets_BT, 0)
    width = min(max(chunk // num_rows, 1), num_positions)
    split = partial(split_positions, width=width)
    states = None if constraint is None else constraint.states
    tables = None if constraint is None else constraint.tables
    kept_BTk = None if kept is None else kept.token_ids_BTk
    inputs = (split(targets_BT), jax.tree.map(split, (states, kept_BTk)))
    columns: Any = _scanned_head(
        num_tokens,
        with_self_certainty,
        split(hidden_BTD),
        _vary_like(head_VD, hidden_BTD),
        jnp.asarray(temperature, jnp.float32),
        inputs,
        tables,
    )
    joined = [join_positions(column, num_positions) for column in columns]
    if mask_BT is not None:
        joined = [jnp.where(mask_BT, values_BT, 0.0) for values_BT in joined]
    return TokenLogprobs(
        joined[0], joined[1], joined[2] if with_self_certainty else None
    )


def sharded_token_logprobs(
    hidden_BTD: Float[Array, "B T D"],
    head_VD: Float[Array, "V D"],
    targets_BT: Int[Array, "B T"],
    temperature: float | Float[Array, ""] = 1.0,
    *,
    num_tokens: int | None = None,
    constraint: TokenConstraint | None = None,
    kept: KeptTokens | None = None,
    mask_BT: Bool[Array, "B T"] | None = None,
    chunk: int = 128,
    with_self_certainty: bool = False,
) -> TokenLogprobs:
    """As `token_logprobs`, each shard of a mesh's rows on its own.

    So the head's gradient is summed over the shards once a call; the compiler alone
    does it for every chunk. A vocabulary that is split stays so. Where the arrays lie
    on no mesh of ours it is the same function, to the bit.

    Args:
      hidden_BTD: Traced hidden states, split by rows.
      head_VD: Output head, whole along the axes that split rows.
      targets_BT: Token ids.
      temperature: Divides the logits.
      num_tokens: Valid vocabulary size; V if not given.
      constraint: The constraint that the tokens were sampled under.
      kept: The tokens that truncated sampling left to draw from.
      mask_BT: True at tokens that count.
      chunk: Tokens whose logits exist at a time, over all shards.
      with_self_certainty: Whether to compute it.

    Returns:
      Float32 values per token.
    """
    of_shard = partial(
        token_logprobs,
        num_tokens=num_tokens,
        chunk=max(chunk // num_row_shards(hidden_BTD), 1),
        with_self_certainty=with_self_certainty,
    )
    states = None if constraint is None else constraint.states
    tables = None if constraint is None else constraint.tables

    def compute(rows: Any, whole: Any) -> TokenLogprobs:
        hidden_BTD, targets_BT, mask_BT, kept, states = rows
        head_VD, temperature, tables = whole
        constraint = None
        if tables is not None:
            constraint = TokenConstraint(tables, states)
        return of_shard(
            hidden_BTD, head_VD, targets_BT, temperature,
            constraint=constraint, kept=kept, mask_BT=mask_BT,
        )  # fmt: skip

    return per_row_shard(
        compute,
        (hidden_BTD, targets_BT, mask_BT, kept, states),
        (head_VD, jnp.asarray(temperature, jnp.float32), tables),
    )


def _check_shapes(hidden_BTD, head_VD, targets_BT, chunk: int) -> None:
    if targets_BT.shape != hidden_BTD.shape[:2]:
        raise ValueError(
            f"targets_BT has shape {targets_BT.shape}, hidden_BTD {hidden_BTD.shape}. "
            "Pass one hidden state a target."
        )
    if head_VD.shape[1] != hidden_BTD.shape[2]:
        raise ValueError(
            f"head_VD has shape {head_VD.shape}, hidden_BTD {hidden_BTD.shape}. "
            "Give both the same width D, the head as one row a token."
        )
    if chunk < 1:
        raise ValueError(f"chunk {chunk} is below 1. Give a number of tokens.")


# The scanned form: leading axis n counts chunks, p the positions within one.


def split_positions(values: Array, *, width: int) -> Array:
    """Returns [n, B, p, ...] from [B, T, ...], zero-padded at the end.

    Args:
      values: One a token.
      width: p, positions of a chunk; at least 1.
    """
    num_rows, num_positions = values.shape[:2]
    num_chunks = -(-num_positions // width)
    padding = [(0, 0), (0, num_chunks * width - num_positions)]
    padding += [(0, 0)] * (values.ndim - 2)
    padded = jnp.pad(values, padding)
    parts = padded.reshape(num_rows, num_chunks, width, *values.shape[2:])
    return jnp.moveaxis(parts, 1, 0)


def join_positions(values: Array, num_positions: int) -> Array:
    """Returns [B, T] from [n, B, p].

    Args:
      values: One a token of each chunk.
      num_positions: T.
    """
    rows = jnp.moveaxis(values, 0, 1)
    return rows.reshape(rows.shape[0], -1)[:, :num_positions]


def _masked_logits(num_tokens, hidden, head_VD, temperature, inputs, tables):
    """Returns one chunk's logits [B, p, V], -inf where a token is not allowed."""
    _, (states, kept) = inputs
    logits = head_logits(hidden, head_VD, temperature, num_tokens)
    if states is not None:
        logits = jnp.where(allowed_tokens(tables, states), logits, -jnp.inf)
    if kept is not None:
        rows, columns = jnp.indices(kept.shape[:2])
        is_kept = jnp.zeros(logits.shape, bool)
        is_kept = is_kept.at[rows[..., None], columns[..., None], kept].set(
            True, mode="drop"
        )
        logits = jnp.where(is_kept, logits, -jnp.inf)
    return logits


def _token_ids(logits: Array) -> Array:
    """Returns the id of each logit, in the logits' shape."""
    return jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)


# exp(x) is 0 in float32 below this: a floor that keeps 0 * -inf out of products.
_LOWEST_EXPONENT = -200.0


def _chunk_statistics(logits: Array, targets: Array, with_self_certainty: bool):
    """Returns (logprob, entropy[, self-certainty]) and the log-normaliser."""
    highest = logits.max(axis=-1, keepdims=True)
    # No allowed token at all (an undefined state in padding): keep NaN out.
    highest = jnp.where(jnp.isfinite(highest), highest, 0.0)
    exponents = jnp.maximum(logits - highest, _LOWEST_EXPONENT)
    powers = jnp.exp(logits - highest)
    total = powers.sum(axis=-1)
    is_empty = total == 0
    safe_total = jnp.where(is_empty, 1.0, total)
    log_total = jnp.log(safe_total)
    lse = highest[..., 0] + log_total
    entropy = log_total - (powers * exponents).sum(axis=-1) / safe_total
    target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    statistics = (target - lse, entropy)
    if with_self_certainty:
        is_allowed = logits > -jnp.inf
        count = jnp.maximum(is_allowed.sum(axis=-1).astype(jnp.float32), 1.0)
        mean = jnp.where(is_allowed, logits, 0.0).sum(axis=-1) / count
        statistics += (jnp.where(is_empty, 0.0, lse - mean),)
    return statistics, lse


def _scan_forward(
    num_tokens, with_self_certainty, hidden, head_VD, temperature, inputs, tables
):
    def body(_, chunk_inputs):
        hidden, inputs = chunk_inputs
        logits = _masked_logits(
            num_tokens, hidden, head_VD, temperature, inputs, tables
        )
        return None, _chunk_statistics(logits, inputs[0], with_self_certainty)

    _, (columns, lse) = jax.lax.scan(body, None, (hidden, inputs))
    return columns, (hidden, head_VD, temperature, inputs, tables, lse, columns[:2])


def _scan_backward(num_tokens, with_self_certainty, residuals, cotangents):
    """Returns the gradients, recomputing each chunk's logits.

    With p = exp(z - lse), per token,

        dz = logprob_bar (onehot - p) - entropy_bar p (log p + entropy)
    """
    hidden, head_VD, temperature, inputs, tables, lse, columns = residuals
    is_possible = columns[0] > -jnp.inf
    logprob_bar = jnp.where(is_possible, cotangents[0], 0.0) / temperature
    entropy_bar = cotangents[1] / temperature
    product = partial(
        jnp.einsum,
        precision=_precision(hidden.dtype),
        preferred_element_type=jnp.float32,
    )

    def body(head_bar_VD, chunk_inputs):
        hidden, inputs, lse, entropy, logprob_bar, entropy_bar = chunk_inputs
        logits = _masked_logits(
            num_tokens, hidden, head_VD, temperature, inputs, tables
        )
        logps = jnp.maximum(logits - lse[..., None], _LOWEST_EXPONENT)
        pull = logprob_bar + entropy_bar * entropy
        logits_bar = -jnp.exp(logits - lse[..., None]) * (
            pull[..., None] + entropy_bar[..., None] * logps
        )
        is_target = inputs[0][..., None].astype(jnp.int32) == _token_ids(logits)
        logits_bar += jnp.where(is_target, logprob_bar[..., None], 0.0)
        logits_bar = logits_bar.astype(hidden.dtype)
        hidden_bar = product("bpv,vd->bpd", logits_bar, head_VD)
        head_bar_VD += product("bpv,bpd->vd", logits_bar, hidden)
        return head_bar_VD, hidden_bar.astype(hidden.dtype)

    zeros_VD = _vary_like(jnp.zeros(head_VD.shape, jnp.float32), hidden)
    head_bar_VD, hidden_bar = jax.lax.scan(
        body, zeros_VD, (hidden, inputs, lse, columns[1], logprob_bar, entropy_bar)
    )
    return hidden_bar, head_bar_VD.astype(head_VD.dtype), None, None, None


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _scanned_head(
    num_tokens, with_self_certainty, hidden, head_VD, temperature, inputs, tables
):
    columns, _ = _scan_forward(
        num_tokens,
        with_self_certainty,
        hidden,
        head_VD,
        temperature,
        inputs,
        tables,
    )
    return columns


_scanned_head.defvjp(_scan_forward, _scan_backward)


def _precision(dtype: Any) -> jax.lax.Precision | None:
    return jax.lax.Precision.HIGHEST if dtype == jnp.float32 else None


def _varying_axes(value: Array) -> frozenset:
    """Returns the mesh axes over which a value differs inside `shard_map`."""
    kind: Any = jax.typeof(value)
    if hasattr(kind, "mat"):
        return frozenset(kind.mat.varying)
    return frozenset(getattr(kind, "vma", ()))


def _vary_like(value: Array, like: Array) -> Array:
    """Returns the value, marked as varying over the axes that `like` varies over.

    A replicated head meets sharded hidden states inside `shard_map`: marking it here
    makes its gradient the sum over the shards.
    """
    missing = tuple(_varying_axes(like) - _varying_axes(value))
    return jax.lax.pcast(value, missing, to="varying") if missing else value
