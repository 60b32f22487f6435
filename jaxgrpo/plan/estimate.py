"""What a step takes on one device, by arithmetic alone.

Used where there is no compiler for the devices, and to order the candidates of a search
before any is compiled. Parameters, optimiser and cache are exact. The rest is the sum
of what has to be there; compilers need some more, or share what is not needed at once.
With t the devices of the `tensor` axis, and tokens those of one microbatch on a device:

    kept for the backward pass    L * tokens * (D + what `remat` keeps) * 2
    one layer's work              tokens * (4 D + (2 N + 2 K) H / t + 3 F / t) * 2 * 2
    gradients                     4 bytes for each parameter, 4 more when accumulated
    head                          the logits of a chunk, three times; its gradient
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxgrpo.config import Config
from jaxgrpo.device.cuts import microbatch_sets
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.plan.collectives import Collective
from jaxgrpo.plan.costs import Costs

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2}

_RECOMPUTED = {"none": 0.0, "dots": 0.0, "attention": 0.8, "full": 1.0}
"""Share of a layer's forward products that the backward pass makes again."""


class Layout(NamedTuple):
    """What a plan may choose without changing the result of a run."""

    data: int
    fsdp: int
    tensor: int
    microbatches: int
    remat: str

    @property
    def num_shards(self) -> int:
        """Devices that rows are split over."""
        return self.data * self.fsdp

    @property
    def num_devices(self) -> int:
        """All of them."""
        return self.num_shards * self.tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The sizes of a step that do not depend on devices."""

    architecture: Architecture
    forward: ForwardSettings
    num_prompts: int
    group_size: int
    prompt_tokens: int
    completion_tokens: int
    logprob_chunk: int
    minibatches: int

    @property
    def num_rows(self) -> int:
        """B: completions of a step."""
        return self.num_prompts * self.group_size

    @property
    def dtype_bytes(self) -> int:
        """Of an element of the computation."""
        return _DTYPE_BYTES[self.forward.dtype]


class Estimate(NamedTuple):
    """What one phase takes on a device."""

    memory: dict[str, int]
    """Bytes by what they are for, without the state."""
    costs: Costs


def workload(
    config: Config, architecture: Architecture, forward: ForwardSettings
) -> Workload:
    """The sizes of a run's step.

    Args:
      config: Of the run.
      architecture: Of its model.
      forward: How the model is computed.
    """
    return Workload(
        architecture=architecture,
        forward=forward,
        num_prompts=config.sampling.problems_per_step,
        group_size=config.sampling.group_size,
        prompt_tokens=config.prompt.max_prompt_tokens,
        completion_tokens=config.sampling.max_new_tokens,
        logprob_chunk=config.objective.logprob_chunk,
        minibatches=config.objective.minibatches,
    )


def layer_weights(a: Architecture) -> int:
    """Weights of one layer that tokens are multiplied with."""
    attention = a.width * (2 * a.num_heads + 2 * a.num_kv_heads) * a.head_width
    return attention + 3 * a.width * a.mlp_width


def matrix_weights(a: Architecture) -> int:
    """Weights that a token is multiplied with, the head among them."""
    return a.num_layers * layer_weights(a) + a.vocab_size * a.width


def cache_bytes(w: Workload, layout: Layout) -> tuple[int, int]:
    """Keys and values on one device: of prompts, and of completions."""
    a = w.architecture
    heads = math.ceil(a.num_kv_heads / layout.tensor)
    per_token = 2 * a.num_layers * heads * a.head_width * w.dtype_bytes
    prompts = math.ceil(w.num_prompts / layout.num_shards)
    return (
        prompts * w.prompt_tokens * per_token,
        prompts * w.group_size * w.completion_tokens * per_token,
    )


def tokens_of_microbatch(w: Workload, layout: Layout) -> tuple[int, int]:
    """Prompt and completion tokens that one device computes at a time."""
    num_prompts = w.num_prompts // w.minibatches
    sets = microbatch_sets(num_prompts, layout.microbatches, layout.num_shards)
    shares = layout.microbatches // sets
    prompts = math.ceil(num_prompts / sets / layout.num_shards)
    rows = math.ceil(prompts * w.group_size / shares)
    return prompts * w.prompt_tokens, rows * w.completion_tokens


def kept_bytes(w: Workload, layout: Layout) -> int:
    """What one device keeps for the backward pass of a microbatch."""
    a, t = w.architecture, layout.tensor
    heads = a.head_width / t
    query, key = a.num_heads * heads, a.num_kv_heads * heads
    beyond = {
        "full": 0.0,
        "attention": 2 * query + 2 * key,
        "dots": 2 * query + 2 * key + a.width + 2 * a.mlp_width / t,
        "none": 4 * query + 6 * key + 5 * a.width + 5 * a.mlp_width / t,
    }
    tokens = sum(tokens_of_microbatch(w, layout))
    per_token = a.width + beyond[layout.remat]
    return int(a.num_layers * tokens * per_token * w.dtype_bytes)


def update_estimate(w: Workload, layout: Layout, trained_bytes: int) -> Estimate:
    """What the update takes.

    Args:
      w: Sizes of the step.
      layout: What is chosen.
      trained_bytes: Of the trained parameters on a device, in float32.
    """
    a, t, size = w.architecture, layout.tensor, w.dtype_bytes
    prompt_tokens, row_tokens = tokens_of_microbatch(w, layout)
    tokens = prompt_tokens + row_tokens
    layer = layer_weights(a) * size // t
    table = a.vocab_size * a.width // t
    chunk = max(w.logprob_chunk // layout.num_shards, row_tokens // w.completion_tokens)
    memory = {
        "activations": kept_bytes(w, layout),
        "gradients": trained_bytes * (2 if layout.microbatches > 1 else 1),
        "weights": (a.num_layers * layer + table * size) // layout.fsdp
        + 2 * layer
        + table * (size + 4),
        "layer": 2 * size * tokens * _layer_elements(a, t)
        + _score_bytes(w, layout, row_tokens),
        "head": 3 * 4 * chunk * a.vocab_size // t,
    }
    return Estimate(memory, _update_costs(w, layout, prompt_tokens, row_tokens))


def _layer_elements(a: Architecture, t: int) -> int:
    heads = (2 * a.num_heads + 2 * a.num_kv_heads) * a.head_width
    return 4 * a.width + (heads + 3 * a.mlp_width) // t


def _score_bytes(w: Workload, layout: Layout, row_tokens: int) -> int:
    """What attention holds of one layer besides what it reads and returns."""
    heads = max(1, w.architecture.num_heads // layout.tensor)
    keys = w.prompt_tokens + w.completion_tokens
    if w.forward.attention == "splash":
        return 512 * heads * row_tokens
    if w.forward.attention == "xla":
        return 3 * 4 * heads * row_tokens * keys
    return 8 * heads * row_tokens


def _attention_flops(w: Workload, rows: float, tokens: int, earlier: int) -> float:
    """Of one forward pass over all layers, for rows that follow `earlier` tokens."""
    a = w.architecture
    pairs = tokens * earlier + tokens * (tokens + 1) / 2
    return 4.0 * a.num_layers * a.num_heads * a.head_width * rows * pairs


def _update_costs(
    w: Workload, layout: Layout, prompt_tokens: int, row_tokens: int
) -> Costs:
    a, t, size = w.architecture, layout.tensor, w.dtype_bytes
    parts = layout.microbatches * w.minibatches
    tokens = prompt_tokens + row_tokens
    passes = 3 + _RECOMPUTED[layout.remat]
    attention = _attention_flops(
        w, row_tokens / w.completion_tokens, w.completion_tokens, w.prompt_tokens
    ) + _attention_flops(w, prompt_tokens / w.prompt_tokens, w.prompt_tokens, 0)
    flops = 2 * passes * tokens * a.num_layers * layer_weights(a)
    flops += 2 * 4 * row_tokens * a.vocab_size * a.width
    # Backward kernels make 7 products where the forward kernel makes 2.
    flops += attention * (passes + 0.5)
    weights = matrix_weights(a) * size / t
    state = 4 * matrix_weights(a) / layout.num_devices
    moved = weights * passes + 2 * passes * a.num_layers * tokens * size * (
        _layer_elements(a, t)
    )
    moved += 4 * 2 * row_tokens * a.vocab_size / t
    received = _collectives(w, layout, tokens, passes)
    return Costs(
        flops=parts * flops / t,
        memory_bytes=parts * moved + 10 * w.minibatches * state,
        collectives={c: parts * times for c, times in received.items()},
    )


def _collectives(
    w: Workload, layout: Layout, tokens: int, passes: float
) -> dict[Collective, float]:
    """Of one microbatch: weights along `fsdp`, activations along `tensor`."""
    a, size, found = w.architecture, w.dtype_bytes, {}
    layer = layer_weights(a) * size // layout.tensor
    if layout.fsdp > 1:
        gathered = Collective("all-gather", "layer", layer, layout.fsdp)
        found[gathered] = 2.0 * a.num_layers
        scattered = Collective("reduce-scatter", "layer", layer, layout.fsdp)
        found[scattered] = float(a.num_layers)
    if layout.data > 1:
        reduced = Collective(
            "all-reduce", "gradients", layer // layout.fsdp, layout.data
        )
        found[reduced] = float(a.num_layers)
    if layout.tensor > 1:
        activations = tokens * a.width * size
        summed = Collective("all-reduce", "activations", activations, layout.tensor)
        found[summed] = 2.0 * a.num_layers * (passes - 1)
    return found


def prefill_estimate(w: Workload, layout: Layout) -> Estimate:
    """What the prompts take, run once each."""
    a, t, size = w.architecture, layout.tensor, w.dtype_bytes
    prompts = math.ceil(w.num_prompts / layout.num_shards)
    tokens = prompts * w.prompt_tokens
    weights = matrix_weights(a) * size // t
    attention = _attention_flops(w, prompts, w.prompt_tokens, 0)
    flops = 2 * tokens * a.num_layers * layer_weights(a) + attention
    costs = Costs(
        flops=flops / t,
        memory_bytes=weights
        + 2 * a.num_layers * tokens * size * _layer_elements(a, t)
        + cache_bytes(w, layout)[0],
    )
    if layout.fsdp > 1:
        costs.collectives[Collective("all-gather", "weights", weights, layout.fsdp)] = 1
    if t > 1:
        part = Collective("all-reduce", "activations", tokens * a.width * size, t)
        costs.collectives[part] = 2.0 * a.num_layers
    memory = {"layer": 2 * size * tokens * _layer_elements(a, t)}
    return Estimate(memory, costs)


def decode_estimate(w: Workload, layout: Layout) -> Estimate:
    """What completions take if all run to their budget.

    Each token reads all weights, the prompts' keys and values, and those of the
    completions so far: half of what there will be, on average.
    """
    a, t, size = w.architecture, layout.tensor, w.dtype_bytes
    rows = math.ceil(w.num_prompts / layout.num_shards) * w.group_size
    weights = matrix_weights(a) * size // t
    prompts, completions = cache_bytes(w, layout)
    steps = w.completion_tokens
    attention = _attention_flops(w, rows, steps, w.prompt_tokens)
    costs = Costs(
        flops=(2 * rows * steps * matrix_weights(a) + attention) / t,
        memory_bytes=steps * (weights + prompts + completions / 2),
    )
    if t > 1:
        part = Collective("all-reduce", "activations", rows * a.width * size, t)
        costs.collectives[part] = 2.0 * a.num_layers * steps
    memory = {
        "weights": weights,
        "cache": prompts + completions,
        "head": 2 * 4 * rows * a.vocab_size // t,
    }
    return Estimate(memory, costs)


def with_layout(w: Workload, layout: Layout) -> Workload:
    """The same step, computed with the layout's choice of what is kept."""
    return replace(w, forward=w.forward._replace(remat=layout.remat))
