"""The sampler in motion: a queue of prompts, slots that draw them, groups as they end.

    for group in engine.sample(params, requests, ...):
        scorer.submit(group)

A request is one prompt and its group of samples. As many as there are slots are in
flight; whenever a group is complete it is handed out and the next prompt takes its
slot, while the others go on. Decoding runs on the device in segments; between two of
them the host takes what was drawn, looks for stop strings, and refills.

What a sample says depends on its own prompt, key and budget only: not on its slot, not
on the other requests, and not on their order.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.device.mesh import num_row_shards, placed_like, replicated_like
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.sampling.constraint import ConstraintTables
from jaxgrpo.device.sampling.prefill import insert, prefill
from jaxgrpo.device.sampling.segment import Drawn, decode_segment
from jaxgrpo.device.sampling.slots import (
    SamplerSettings,
    empty_slots,
    start_decoding,
)
from jaxgrpo.device.sampling.weights import sampling_weights
from jaxgrpo.host.records import FinishReason
from jaxgrpo.host.stop_strings import StopStrings


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt, and how many tokens its samples may have."""

    token_ids: np.ndarray
    """int32 [S]; at least 1."""
    problem_hash: tuple[int, int]
    """With `draw`, what the random keys of its samples derive from."""
    draw: int = 0
    budgets: Sequence[int] = ()
    """Most tokens of each sample; empty for `max_new_tokens` each."""
    constraint_id: int = 0
    """Index of its token constraint among the engine's; 0 is none."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """One completion. Grows while it is drawn."""

    budget: int
    """Most tokens that it may have."""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    """Nats, at the sampling temperature, among the tokens that could be drawn."""
    kept_ids: list[np.ndarray] = field(default_factory=list)
    """Under truncated sampling, the ids that each token was drawn from."""
    finish_reason: FinishReason | None = None
    """Why it ended; None while it is drawn."""
    carried: bytes = b""
    """End of its text in which a stop string may have begun."""


@dataclass(slots=True, kw_only=True)
class SampledGroup:
    """The samples of one request."""

    index: int
    """Place of the request among those given."""
    samples: list[Sample]


class Progress(NamedTuple):
    """Where sampling stands after a segment."""

    completed: list[SampledGroup]
    """Groups that this segment completed."""
    drawn: list[SampledGroup]
    """Groups in flight, with what their samples have so far."""


class Engine:
    """Draws completions of many prompts from one policy.

    It holds no arrays between two calls of `sample`: cache and states are made when
    sampling begins and dropped when it ends, so that an update has the memory.

    Args:
      architecture: Sizes of the model.
      settings: What fixes the programs.
      stop: Texts that end a completion; None for none.
      constraints: Tables of the token constraints that requests name; None for none.

    Raises:
      ValueError: If the settings contradict one another.
    """

    def __init__(
        self,
        architecture: Architecture,
        settings: SamplerSettings,
        stop: StopStrings | None = None,
        constraints: ConstraintTables | None = None,
    ):
        _check_settings(settings)
        self.architecture = architecture
        self.settings = settings._replace(is_constrained=constraints is not None)
        self.stop = stop
        self.constraints = constraints

    def sample(
        self,
        params: Weights,
        requests: Sequence[Request],
        *,
        run_key: jax.Array,
        temperature: float,
    ) -> Iterator[SampledGroup]:
        """Groups as they are completed; those of one segment in the order of slots.

        Args:
          params: Weights of the policy, the same until all groups are out.
          requests: In the order in which they take slots.
          run_key: From `keys.run_key`.
          temperature: Softmax temperature, above 0.

        Raises:
          ValueError: If a prompt or a budget is longer than the settings allow, or the
            slots cannot be split over the mesh.
        """
        segments = self.segments(
            params, requests, run_key=run_key, temperature=temperature
        )
        for progress in segments:
            yield from progress.completed

    def segments(
        self,
        params: Weights,
        requests: Sequence[Request],
        *,
        run_key: jax.Array,
        temperature: float,
    ) -> Iterator[Progress]:
        """As `sample`, after each segment, with the groups that are still drawn."""
        for request in requests:
            _check_request(request, self.settings)
            assert self.constraints is not None or not request.constraint_id
        params = sampling_weights(
            params,
            self.settings.forward.dtype,
            is_gathered=self.settings.gathers_weights,
        )
        flight = _Flight(self, params, run_key, temperature)
        waiting = deque(enumerate(requests))
        while waiting or flight.groups:
            flight.refill(waiting)
            flight.decode()
            completed = flight.take_completed()
            yield Progress(completed, list(flight.groups.values()))


class _Flight:
    """One call of `Engine.sample`: the queue's front, in slots."""

    def __init__(
        self, engine: Engine, params: Weights, run_key: jax.Array, temperature: float
    ):
        self._architecture, self._settings = engine.architecture, engine.settings
        self._stop = engine.stop
        self._constraints = replicated_like(engine.constraints, params)
        self._params, self._run_key = params, run_key
        self._temperature = jnp.float32(temperature)
        self._num_shards = num_row_shards(params)
        num_slots = self._settings.num_slots
        if num_slots % self._num_shards:
            raise ValueError(
                f"{num_slots} slots do not divide by mesh.data * mesh.fsdp = "
                f"{self._num_shards}. Set the number of slots to a multiple of it."
            )
        self._decoding = start_decoding(self._architecture, self._settings, params)
        self._slots, self._rows = empty_slots(self._settings)
        self._num_steps = 0
        self.groups: dict[int, SampledGroup] = {}
        """By slot; slots without a group are free."""

    def refill(self, waiting: deque[tuple[int, Request]]) -> None:
        """Prefills waiting requests into free slots, bucket by bucket."""
        s = self._settings
        free: list[list[int]] = [[] for _ in range(self._num_shards)]
        for slot in range(s.num_slots):
            if slot not in self.groups:
                free[slot * self._num_shards // s.num_slots].append(slot)
        buckets: dict[int, deque[tuple[int, Request]]] = {}
        for _ in range(min(sum(map(len, free)), len(waiting))):
            index, request = waiting.popleft()
            length = len(request.token_ids)
            width = next(width for width in s.prompt_widths if width >= length)
            buckets.setdefault(width, deque()).append((index, request))
        for width, requests in buckets.items():
            while requests:
                self._insert(width, requests, free)

    def _insert(
        self,
        width: int,
        requests: deque[tuple[int, Request]],
        free: list[list[int]],
    ) -> None:
        """One program of prefill, its prompts into free slots of their shards."""
        num_prompts = self._settings.prefill_rows(width, self._num_shards)
        per_shard = num_prompts // self._num_shards
        token_ids_PS = np.zeros((num_prompts, width), np.int32)
        lengths_P = np.ones((num_prompts,), np.int32)
        source_C = np.zeros((self._settings.num_slots,), np.int32)
        is_new_C = np.zeros((self._settings.num_slots,), bool)
        for place in range(per_shard):
            for shard, slots in enumerate(free):
                if not (requests and slots):
                    continue
                index, request = requests.popleft()
                slot, row = slots.pop(0), shard * per_shard + place
                length = len(request.token_ids)
                token_ids_PS[row, :length] = request.token_ids
                lengths_P[row] = length
                source_C[slot], is_new_C[slot] = place, True
                self._assign(slot, index, request)
        prompts = Prompts(token_ids_PS, lengths_P)  # type: ignore[arg-type]
        prefilled = prefill(
            self._params,
            placed_like(prompts, self._params),
            architecture=self._architecture,
            settings=self._settings.forward,
        )
        self._decoding = insert(
            self._decoding,
            prefilled,
            *placed_like((source_C, is_new_C), self._params),
            num_shards=self._num_shards,
        )

    def _assign(self, slot: int, index: int, request: Request) -> None:
        s = self._settings
        budgets = request.budgets or [s.max_new_tokens] * s.group_size
        self._slots.problem_hash_C2[slot] = request.problem_hash
        self._slots.draw_C[slot] = request.draw
        self._slots.budget_CG[slot] = budgets
        self._slots.num_begun_C[slot] = 0
        self._slots.constraint_id_C[slot] = request.constraint_id
        samples = [Sample(budget=budget) for budget in budgets]
        self.groups[slot] = SampledGroup(index=index, samples=samples)

    def decode(self) -> None:
        """One segment; what it drew goes to the samples."""
        s = self._settings
        slots, rows = placed_like((self._slots, self._rows), self._params)
        self._decoding, drawn = decode_segment(
            self._params,
            self._decoding._replace(slots=slots, rows=rows),
            self._run_key,
            self._temperature,
            jnp.int32(1),
            self._constraints,
            architecture=self._architecture,
            settings=s,
            visible_blocks=s.visible_blocks(self._num_steps + s.segment_steps),
        )
        d = self._decoding
        host = jax.device_get((drawn, d.step, d.slots.num_begun_C, d.rows))
        drawn, num_steps, self._slots.num_begun_C[:], rows = host
        self._num_steps = int(num_steps)
        self._rows = jax.tree.map(np.array, rows)
        for row in np.flatnonzero(drawn.is_drawn_BT.any(axis=1)):
            self._take(drawn, int(row))

    def _take(self, drawn: Drawn, row: int) -> None:
        """Appends a row's tokens to the samples that it drew, one after the other."""
        slot = row // self._settings.rows_per_slot
        is_drawn_T, sample_T = drawn.is_drawn_BT[row], drawn.sample_BT[row]
        for number in np.unique(sample_T[is_drawn_T]).tolist():
            sample = self.groups[slot].samples[number]
            columns = np.flatnonzero(is_drawn_T & (sample_T == number))
            token_ids = drawn.token_ids_BT[row, columns].tolist()
            count = self._num_until_stop(sample, token_ids)
            sample.token_ids += token_ids[:count]
            sample.logprobs += drawn.logprobs_BT[row, columns[:count]].tolist()
            if drawn.kept_BTk is not None:
                sample.kept_ids += list(drawn.kept_BTk[row, columns[:count]])
            if sample.finish_reason == "stop":
                # The row may have ended by itself meanwhile, and begun another sample.
                if self._rows.sample_B[row] == number:
                    self._rows.is_live_B[row] = False
            elif sample.token_ids[-1] in self._settings.eos_ids:
                sample.finish_reason = "eos"
            elif len(sample.token_ids) == sample.budget:
                sample.finish_reason = "length"

    def _num_until_stop(self, sample: Sample, token_ids: list[int]) -> int:
        """How many of a sample's new tokens stand, the one that ends it included."""
        if self._stop is None:
            return len(token_ids)
        count, sample.carried = self._stop.first_end(sample.carried, token_ids)
        if count is None:
            return len(token_ids)
        sample.finish_reason = "stop"
        return count

    def take_completed(self) -> list[SampledGroup]:
        """Takes out the groups whose samples have all ended, in the order of slots."""
        slots = [
            slot
            for slot, group in sorted(self.groups.items())
            if all(sample.finish_reason for sample in group.samples)
        ]
        return [self.groups.pop(slot) for slot in slots]


def _check_settings(settings: SamplerSettings) -> None:
    s = settings
    if not 1 <= s.rows_per_slot <= s.group_size:
        raise ValueError(
            f"{s.rows_per_slot} rows per slot for groups of {s.group_size}. Set a "
            f"number from 1 to {s.group_size}."
        )
    if s.choice.num_kept > s.num_tokens:
        raise ValueError(
            f"top_k {s.choice.top_k} is more than the tokenizer's {s.num_tokens} "
            "tokens. Lower it."
        )


def _check_request(request: Request, settings: SamplerSettings) -> None:
    length, longest = len(request.token_ids), settings.max_prompt_tokens
    if not 1 <= length <= longest:
        raise ValueError(
            f"a prompt has {length} tokens; from 1 to {longest} fit. Leave it out."
        )
    G, most = settings.group_size, settings.max_new_tokens
    budgets = request.budgets
    if budgets and (len(budgets) != G or not 1 <= min(budgets) <= max(budgets) <= most):
        raise ValueError(
            f"budgets {list(budgets)} for {G} samples of 1 to {most} tokens. Give one "
            "of that range to each sample."
        )
