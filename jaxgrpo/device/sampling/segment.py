"""A segment of decoding: several tokens of every row in one program.

Where a block of the ring begins, rows without a sample take the next one of their
slot's group. A row's first token is drawn from the state of its prompt; each later step
feeds the token before. Tokens that a row's constraint does not allow have no
probability, before any truncation. The segment ends when its steps are spent, when
nothing is left to draw, or, where a block begins, when enough groups are complete for
the host to take them out.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgrpo.device.head import head_logits
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decode import decode_token
from jaxgrpo.device.model.decode_attention import Blocks, window_of
from jaxgrpo.device.model.decoder import Decoder, Weights, bind
from jaxgrpo.device.sampling.choose import chosen_tokens
from jaxgrpo.device.sampling.constraint import (
    ConstraintState,
    ConstraintTables,
    advance,
    allowed_tokens,
    initial_state,
)
from jaxgrpo.device.sampling.keys import folded_keys
from jaxgrpo.device.sampling.slots import (
    Decoding,
    Rows,
    SamplerSettings,
    Slots,
    laid_out,
)


class Drawn(NamedTuple):
    """The tokens of one segment, a column a step. T: `segment_steps`."""

    token_ids_BT: Int[Array, "B T"]
    logprobs_BT: Float[Array, "B T"]
    """Nats, at the sampling temperature, among the tokens that could be drawn."""
    sample_BT: Int[Array, "B T"]
    """Which sample of its group the row was drawing."""
    is_drawn_BT: Bool[Array, "B T"]
    """False where the row was idle, and in columns that the segment did not reach."""
    kept_BTk: Int[Array, "B T k"] | None
    """Ids that truncation left, as in `Chosen`; None where all could be drawn."""


class _Loop(NamedTuple):
    column: Int[Array, ""]
    decoding: Decoding
    drawn: Drawn


@partial(
    jax.jit,
    static_argnames=("architecture", "settings", "visible_blocks"),
    donate_argnames=("decoding",),
)
def decode_segment(
    params: Weights,
    decoding: Decoding,
    run_key: Key[Array, ""],
    temperature: Float[Array, ""],
    num_wanted: Int[Array, ""],
    constraints: ConstraintTables | None = None,
    *,
    architecture: Architecture,
    settings: SamplerSettings,
    visible_blocks: int | None = None,
) -> tuple[Decoding, Drawn]:
    """Draws tokens of all rows until the host has something to do.

    Args:
      params: Weights of the policy.
      decoding: Donated.
      run_key: From `keys.run_key`.
      temperature: Softmax temperature, above 0; without effect on greedy decoding.
      num_wanted: Groups that have to be completed for the segment to end early; at
        least 1.
      constraints: Tables of the slots' constraints; None without any.
      architecture: Sizes of the model.
      settings: What fixes the program.
      visible_blocks: From `settings.visible_blocks`; the segment also ends where a
        row would leave them.

    Returns:
      What the next segment starts from, and the tokens.
    """
    if settings.choice.is_greedy:
        temperature = jnp.ones_like(temperature)
    dtype = jnp.dtype(settings.forward.dtype)
    model = bind(architecture, params, dtype, is_gathered=settings.gathers_weights)
    num_wanted = num_wanted + _num_complete(decoding)
    blocks = settings.blocks._replace(visible=visible_blocks)
    draw = partial(
        _step, model, run_key=run_key, temperature=temperature,
        constraints=constraints, blocks=blocks, settings=settings,
    )  # fmt: skip

    def goes_on(loop: _Loop) -> Array:
        d = loop.decoding
        is_enough = (d.step % blocks.ring == 0) & (_num_complete(d) >= num_wanted)
        is_due = (loop.column < settings.segment_steps) & has_work(d) & ~is_enough
        num_visible = (visible_blocks or 0) * blocks.ring
        if 0 < num_visible < settings.num_columns:
            is_due &= d.step < num_visible
        return is_due

    def advance(loop: _Loop) -> _Loop:
        decoding, column = draw(loop.decoding)
        drawn = Drawn(
            *jax.tree.map(
                lambda kept, new: kept.at[:, loop.column].set(new),
                tuple(loop.drawn),
                tuple(column),
            )
        )
        return _Loop(loop.column + 1, decoding, drawn)

    decoding = _without_pause(decoding, blocks.ring)
    start = _Loop(jnp.int32(0), decoding, _nothing_drawn(settings))
    end = jax.lax.while_loop(goes_on, advance, start)
    return laid_out(end.decoding), end.drawn


def has_work(decoding: Decoding) -> Bool[Array, ""]:
    """Whether any row is drawing, or any sample has still to be begun."""
    slots, rows = decoding.slots, decoding.rows
    G = slots.budget_CG.shape[1]
    return jnp.any(rows.is_live_B) | jnp.any(slots.num_begun_C < G)


def _num_complete(decoding: Decoding) -> Int[Array, ""]:
    """Slots in which nothing is left to draw, empty ones included."""
    slots, rows = decoding.slots, decoding.rows
    C, G = slots.budget_CG.shape
    is_live_C = jnp.any(rows.is_live_B.reshape(C, -1), axis=1)
    return jnp.sum(~is_live_C & (slots.num_begun_C == G))


class _Column(NamedTuple):
    """One column of `Drawn`."""

    token_B: Array
    logprob_B: Array
    sample_B: Array
    is_drawn_B: Array
    kept_Bk: Array | None


def _step(
    model: Decoder,
    decoding: Decoding,
    *,
    run_key: Array,
    temperature: Array,
    constraints: ConstraintTables | None,
    blocks: Blocks,
    settings: SamplerSettings,
) -> tuple[Decoding, _Column]:
    """Draws one token of every live row."""
    d = _begun(decoding, blocks.ring, constraints)
    slots, rows = d.slots, d.rows
    by_row = partial(_by_row, num_rows=settings.num_rows)
    window = window_of(
        d.step,
        jnp.maximum(rows.num_drawn_B - 1, 0),
        rows.is_live_B,
        d.cache.lengths_C,
        blocks,
    )
    hidden_BD, cache = decode_token(
        model, rows.token_B, d.cache, window, blocks, settings.forward
    )
    is_first_B1 = (rows.num_drawn_B == 0)[:, None]
    hidden_BD = jnp.where(is_first_B1, by_row(d.last_CD), hidden_BD)
    logits_BV = head_logits(
        hidden_BD, model.output_head_VD, temperature, settings.num_tokens
    )
    if constraints is not None:
        assert rows.constraint is not None
        is_allowed_BV = allowed_tokens(constraints, rows.constraint)
        logits_BV = jnp.where(is_allowed_BV, logits_BV, -jnp.inf)
    key_B = folded_keys(
        run_key, by_row(slots.problem_hash_C2), by_row(slots.draw_C), rows.sample_B
    )
    chosen = chosen_tokens(logits_BV, key_B, rows.num_drawn_B, settings.choice)
    is_drawn_B = rows.is_live_B
    num_drawn_B = rows.num_drawn_B + is_drawn_B
    budget_B = _of_sample(by_row(slots.budget_CG), rows.sample_B)
    ends_B = jnp.isin(chosen.token_B, jnp.array(settings.eos_ids, jnp.int32))
    ends_B |= num_drawn_B >= budget_B
    column = _Column(
        token_B=jnp.where(is_drawn_B, chosen.token_B, 0),
        logprob_B=jnp.where(is_drawn_B, chosen.logprob_B, 0.0),
        sample_B=rows.sample_B,
        is_drawn_B=is_drawn_B,
        kept_Bk=chosen.kept_Bk,
    )
    rows = rows._replace(
        num_drawn_B=num_drawn_B,
        token_B=column.token_B,
        is_live_B=is_drawn_B & ~ends_B,
    )
    if constraints is not None:
        assert rows.constraint is not None
        after = advance(constraints, rows.constraint, column.token_B)
        rows = rows._replace(constraint=after)
    d = d._replace(step=d.step + 1, rows=rows, cache=cache)
    return _without_pause(d, blocks.ring), column


def _by_row(values_C: Array, *, num_rows: int) -> Array:
    """Each slot's values for all its rows; no device asks another for them."""
    C, *rest = values_C.shape
    repeated = jnp.broadcast_to(values_C[:, None], (C, num_rows // C, *rest))
    return repeated.reshape(num_rows, *rest)


def _of_sample(values_BG: Array, sample_B: Array) -> Array:
    return jnp.take_along_axis(values_BG, sample_B[:, None], axis=1)[:, 0]


def _begun(
    decoding: Decoding, ring_block: int, constraints: ConstraintTables | None
) -> Decoding:
    """Idle rows with the next samples of their slots, where a block begins."""
    slots, rows, step = decoding.slots, decoding.rows, decoding.step
    C, G = slots.budget_CG.shape
    is_idle_CM = ~rows.is_live_B.reshape(C, -1)
    place_CM = jnp.cumsum(is_idle_CM, axis=1) - 1
    sample_CM = slots.num_begun_C[:, None] + place_CM
    begins_CM = is_idle_CM & (sample_CM < G) & (step % ring_block == 0)
    begins_B = begins_CM.reshape(-1)
    rows = Rows(
        sample_B=jnp.where(begins_B, sample_CM.reshape(-1), rows.sample_B),
        num_drawn_B=jnp.where(begins_B, 0, rows.num_drawn_B),
        token_B=jnp.where(begins_B, 0, rows.token_B),
        is_live_B=rows.is_live_B | begins_B,
        constraint=rows.constraint,
    )
    if constraints is not None:
        rows = rows._replace(constraint=_registers(slots, rows, begins_B, constraints))
    num_begun_C = slots.num_begun_C + begins_CM.sum(axis=1)
    slots = slots._replace(num_begun_C=num_begun_C)
    return decoding._replace(slots=slots, rows=rows)


def _without_pause(decoding: Decoding, ring_block: int) -> Decoding:
    """Where no row is live the next block begins at once: no row's columns are torn."""
    next_block = -(-decoding.step // ring_block) * ring_block
    is_any_live = jnp.any(decoding.rows.is_live_B)
    return decoding._replace(step=jnp.where(is_any_live, decoding.step, next_block))


def _registers(
    slots: Slots, rows: Rows, begins_B: Array, constraints: ConstraintTables
) -> ConstraintState:
    """The constraints' registers, new where a sample begins."""
    by_row = partial(_by_row, num_rows=begins_B.shape[0])
    first = initial_state(
        constraints,
        by_row(slots.constraint_id_C),
        _of_sample(by_row(slots.budget_CG), rows.sample_B),
    )

    def started(first_B: Array, now_B: Array) -> Array:
        shape = (-1, *[1] * (first_B.ndim - 1))
        return jnp.where(begins_B.reshape(shape), first_B, now_B)

    return jax.tree.map(started, first, rows.constraint)


def _nothing_drawn(settings: SamplerSettings) -> Drawn:
    shape = (settings.num_rows, settings.segment_steps)
    k = settings.choice.num_kept
    return Drawn(
        token_ids_BT=jnp.zeros(shape, jnp.int32),
        logprobs_BT=jnp.zeros(shape, jnp.float32),
        sample_BT=jnp.zeros(shape, jnp.int32),
        is_drawn_BT=jnp.zeros(shape, bool),
        kept_BTk=jnp.zeros((*shape, k), jnp.int32) if k else None,
    )
