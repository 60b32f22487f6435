"""What a sampler in motion consists of: slots of prompts, rows of completions, a cache.

A slot holds one prompt and draws a group of completions from it, on a fixed number of
rows; a row that has ended takes the group's next sample. A slot whose group is complete
is free for another prompt. The two small records are the host's to change between
programs; cache and states stay on the device.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, UInt32

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.cache import DecodeCache, empty_cache
from jaxgrpo.device.model.decode_attention import Blocks
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.placement import BATCH_AXES, split_as
from jaxgrpo.device.sampling.choose import Choice
from jaxgrpo.device.sampling.constraint import ConstraintState

_RING_PARTS, _RING_BLOCKS = 32, (4, 128)
_PREFIX_PARTS, _PREFIX_BLOCKS = 8, (128, 256)
_WIDTH_STEP = 16
_NARROWEST_PROMPTS = 128


class SamplerSettings(NamedTuple):
    """What fixes the sampler's programs. Hashable: a static argument of jit."""

    group_size: int
    """G: completions of each prompt."""
    num_slots: int
    """C: prompts in flight."""
    rows_per_slot: int
    """Completions of a prompt drawn at a time; at most G."""
    max_prompt_tokens: int
    """Longest prompt."""
    max_new_tokens: int
    """T: largest token budget, the end-of-sequence token included."""
    segment_steps: int
    """Most steps between two looks of the host."""
    eos_ids: tuple[int, ...]
    """Every id that ends a completion."""
    num_tokens: int
    """Length of the tokenizer; ids from here on are padding of V, never sampled."""
    choice: Choice = Choice()
    cache_dtype: str = "float32"
    """One of `cache.CACHE_DTYPES`."""
    prefill_tokens: int = 128
    """Prompts of a bucket are prefilled together up to about so many positions."""
    attends_side_by_side: bool = False
    """Attend to a fixed number of blocks of the ring at once instead of in a loop: for
    GPUs. The program is compiled for a few numbers."""
    gathers_weights: bool = True
    """Whether weights that the mesh splits along `fsdp` are made whole for sampling, or
    gathered a layer at a time for every token."""
    is_constrained: bool = False
    """Whether some completions are drawn under a token constraint."""
    forward: ForwardSettings = ForwardSettings()

    @property
    def num_rows(self) -> int:
        """B: completions drawn at a time."""
        return self.num_slots * self.rows_per_slot

    @property
    def blocks(self) -> Blocks:
        """Positions that attention visits at a time.

        Wide blocks are read faster, narrow ones skip more. Those of the ring are
        narrower: rows begin at the first column of one, and wait for it.
        """
        prefix = _block(self.max_prompt_tokens / _PREFIX_PARTS, *_PREFIX_BLOCKS)
        return Blocks(
            ring=_block(self.max_new_tokens / _RING_PARTS, *_RING_BLOCKS),
            # Short prompts are one block, no wider than need be.
            prefix=min(prefix, _rounded_up(self.max_prompt_tokens, _WIDTH_STEP)),
        )

    def visible_blocks(self, num_steps: int) -> int | None:
        """Blocks of the ring to attend to where they are computed side by side.

        Doubling numbers, until the ring has been written to once.

        Args:
          num_steps: Steps made when the segment ends, at most.
        """
        if not self.attends_side_by_side:
            return None
        number, width = 1, self.blocks.ring
        while number * width < min(num_steps, self.num_columns):
            number *= 2
        return min(number, self.num_columns // width)

    @property
    def num_segment_programs(self) -> int:
        """Programs that a segment is compiled to."""
        steps = range(1, self.num_columns + 1, self.blocks.ring)
        return len({self.visible_blocks(num_steps) for num_steps in steps})

    @property
    def num_columns(self) -> int:
        """Length of the ring."""
        return _rounded_up(self.max_new_tokens, self.blocks.ring)

    @property
    def prompt_widths(self) -> tuple[int, ...]:
        """Widths that prompts are padded to: one program of prefill for each."""
        widest = _rounded_up(self.max_prompt_tokens, self.blocks.prefix)
        widths = [_NARROWEST_PROMPTS]
        while widths[-1] < widest:
            widths.append(2 * widths[-1])
        return (*(width for width in widths if width < widest), widest)

    def prefill_rows(self, width: int, num_shards: int) -> int:
        """Prompts in one program of prefill: as many for each shard of the slots.

        Args:
          width: One of `prompt_widths`.
          num_shards: Parts that the mesh splits rows into; divides C.
        """
        most = self.num_slots // num_shards
        return num_shards * max(1, min(most, self.prefill_tokens // width))


class Slots(NamedTuple):
    """What each slot is to draw."""

    problem_hash_C2: UInt32[Array, "C 2"]
    """With `draw_C`, what the random keys of the slot's samples derive from."""
    draw_C: Int[Array, " C"]
    budget_CG: Int[Array, "C G"]
    """Most tokens of each sample; in [1, T]."""
    num_begun_C: Int[Array, " C"]
    """Samples that have been begun, in order; G where none is left."""
    constraint_id_C: Int[Array, " C"]
    """Index of the slot's token constraint; 0 is none."""


class Rows(NamedTuple):
    """Where each row stands in its sample."""

    sample_B: Int[Array, " B"]
    """Index of the sample within its group."""
    num_drawn_B: Int[Array, " B"]
    """Tokens of the sample so far."""
    token_B: Int[Array, " B"]
    """The last of them; any id where there is none."""
    is_live_B: Bool[Array, " B"]
    """False for rows that have no sample, or whose sample has ended."""
    constraint: ConstraintState | None
    """Registers of the rows' constraints before the next token; None without any."""


class Decoding(NamedTuple):
    """All that a segment of decoding starts from."""

    step: Int[Array, ""]
    """Steps made so far."""
    slots: Slots
    rows: Rows
    last_CD: Float[Array, "C D"]
    """Final-normed state of each prompt's last token."""
    cache: DecodeCache


def empty_slots(settings: SamplerSettings) -> tuple[Slots, Rows]:
    """Slots with nothing to draw, and idle rows; on the host."""
    C, G, B = settings.num_slots, settings.group_size, settings.num_rows

    def zeros(*shape: int, dtype: Any = np.int32) -> Any:
        return np.zeros(shape, dtype)

    slots = Slots(
        problem_hash_C2=zeros(C, 2, dtype=np.uint32),
        draw_C=zeros(C),
        budget_CG=zeros(C, G) + 1,
        num_begun_C=zeros(C) + G,
        constraint_id_C=zeros(C),
    )
    constraint = None
    if settings.is_constrained:
        stack_B2 = zeros(B, 2, dtype=np.uint32)
        constraint = ConstraintState(zeros(B), stack_B2, zeros(B))
    rows = Rows(
        sample_B=zeros(B),
        num_drawn_B=zeros(B),
        token_B=zeros(B),
        is_live_B=zeros(B, dtype=bool),
        constraint=constraint,
    )
    return slots, rows


def start_decoding(
    architecture: Architecture, settings: SamplerSettings, params: Weights
) -> Decoding:
    """A sampler without prompts, laid out over the mesh that the weights lie on."""
    return jax.jit(
        _empty_decoding,
        static_argnames=("architecture", "settings"),
        out_shardings=_shardings(architecture, settings, params),
    )(architecture=architecture, settings=settings)


def laid_out(decoding: Decoding) -> Decoding:
    """The same traced sampler, told to lie where `start_decoding` puts it.

    Without it the compiler chooses, and the next segment is compiled for its choice.
    """
    return split_as(decoding, decoding_specs(decoding))


def decoding_specs(decoding: Decoding) -> Decoding:
    """How each array is cut: slots and rows over data and fsdp, heads over tensor."""

    def rows(leaf: Any) -> PartitionSpec:
        return PartitionSpec(BATCH_AXES) if leaf.ndim else PartitionSpec()

    def heads(leaf: Any) -> PartitionSpec:
        spec = PartitionSpec(None, BATCH_AXES, "tensor")
        return spec if leaf.ndim > 1 else PartitionSpec(BATCH_AXES)

    return jax.tree.map(rows, decoding)._replace(
        cache=jax.tree.map(heads, decoding.cache)
    )


def _empty_decoding(
    *, architecture: Architecture, settings: SamplerSettings
) -> Decoding:
    s = settings
    slots, rows = empty_slots(s)
    return Decoding(
        step=jnp.int32(0),
        slots=jax.tree.map(jnp.asarray, slots),
        rows=jax.tree.map(jnp.asarray, rows),
        last_CD=jnp.zeros((s.num_slots, architecture.width), s.forward.dtype),
        cache=empty_cache(
            architecture,
            num_slots=s.num_slots,
            rows_per_slot=s.rows_per_slot,
            num_positions=s.prompt_widths[-1],
            num_columns=s.num_columns,
            dtype=s.cache_dtype,
        ),
    )


def decoding_shapes(architecture: Architecture, settings: SamplerSettings) -> Decoding:
    """Shapes and types of a sampler's arrays."""
    empty = partial(_empty_decoding, architecture=architecture, settings=settings)
    return jax.eval_shape(empty)


def _shardings(
    architecture: Architecture, settings: SamplerSettings, params: Weights
) -> Any:
    sharding = jax.tree.leaves(params)[0].sharding
    if not isinstance(sharding, NamedSharding):
        return None
    specs = decoding_specs(decoding_shapes(architecture, settings))
    return jax.tree.map(partial(_sharding, sharding.mesh), specs)


def _sharding(mesh: Any, spec: PartitionSpec) -> NamedSharding:
    """A layout without axes of one device, as programs return it.

    Equal layouts that are spelled differently are compiled for twice.
    """

    def narrowed(axes: Any) -> Any:
        named = axes if isinstance(axes, tuple) else (axes,)
        kept = tuple(axis for axis in named if axis and mesh.shape[axis] > 1)
        return kept[0] if len(kept) == 1 else kept or None

    parts = [narrowed(axes) for axes in spec]
    while parts and parts[-1] is None:
        parts.pop()
    return NamedSharding(mesh, PartitionSpec(*parts))


def _block(wanted: float, smallest: int, largest: int) -> int:
    """The power of two nearest to a width, in [smallest, largest]."""
    return min(max(2 ** round(math.log2(max(wanted, 1))), smallest), largest)


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
