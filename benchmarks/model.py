"""Forward pass, update and decode of Qwen3 with random weights in bfloat16.

On an NVIDIA GPU (cuDNN attention), in one process and under 8 minutes:

    python benchmarks/model.py

measures Qwen3-0.6B and 1.7B; `python benchmarks/model.py qwen3-1.7b` one of them. On
a CPU it runs a tiny model in float32, which shows that it runs and nothing else.

Printed, medians of 3 after a first run that compiles:

    forward   log-probs of completions; tokens/s, and its share of peak compute
    update    the whole GRPO step: forward, backward, AdamW on fp32 masters; MFU
    decode    all rows of all groups between two looks of the host; tokens/s, and the
              share of memory bandwidth

MFU counts the products that the mathematics needs, none that are computed twice or
masked: per token 2 FLOPs a weight (6 with the backward pass), the head on completions
only, and causal attention's visible pairs. The share of bandwidth counts each weight
once a step, keys and values of prompts once a group, of completions once a row.

No GPU was at hand when this was written: it has been run on CPU only. Results belong
into docs/performance.md with date, versions and device.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxgrpo.device.head import token_logprobs
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.attention.choice import automatic_attention
from jaxgrpo.device.model.decoder import bind, forward_completions, initial_params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.objective.presets import resolve_objective
from jaxgrpo.device.optimizer import adamw
from jaxgrpo.device.records import Prompts, Rollouts, Scored, TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_SAMPLE, run_key
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.device.update import UpdateSettings, update
from jaxgrpo.engine import Engine, Request
from jaxgrpo.plan.estimate import layer_weights, matrix_weights
from jaxgrpo.plan.hardware import known_chip

REPEATS = 3


class Sizes(NamedTuple):
    num_prompts: int
    group_size: int
    prompt_tokens: int
    completion_tokens: int
    microbatches: int
    segment_steps: int

    @property
    def num_rows(self) -> int:
        return self.num_prompts * self.group_size


LARGE = Sizes(16, 8, 512, 1024, microbatches=8, segment_steps=64)
TINY = Sizes(2, 2, 16, 32, microbatches=2, segment_steps=8)


def forward_flops(a: Architecture, s: Sizes) -> float:
    """Of products that are needed, for log-probs of all completions."""
    P, B, S, T = s.num_prompts, s.num_rows, s.prompt_tokens, s.completion_tokens
    fed = T - 1  # the last token is never fed
    weights = a.num_layers * layer_weights(a) * (P * S + B * fed)
    head = a.vocab_size * a.width * B * T
    pairs = P * S * (S + 1) / 2 + B * (fed * S + fed * (fed + 1) / 2)
    attention = 2 * a.num_layers * a.num_heads * a.head_width * pairs
    return 2 * (weights + head + attention)


def decode_bytes(a: Architecture, s: Sizes, dtype: str, step: int) -> float:
    """That one step must read, with `step` tokens of each completion in the cache."""
    size = jnp.dtype(dtype).itemsize
    token = 2 * a.num_layers * a.num_kv_heads * a.head_width
    tokens = s.num_prompts * s.prompt_tokens + s.num_rows * step
    return size * (matrix_weights(a) + token * tokens)


def batch_of(a: Architecture, s: Sizes) -> tuple[Prompts, Rollouts, Scored]:
    rng = np.random.default_rng(0)
    P, B, S, T = s.num_prompts, s.num_rows, s.prompt_tokens, s.completion_tokens
    index_B = jnp.arange(B) // s.group_size
    rollouts = Rollouts(
        completion_BT=jnp.asarray(rng.integers(0, a.vocab_size, (B, T)), jnp.int32),
        lengths_B=jnp.full((B,), T),
        budget_B=jnp.full((B,), T),
        sampler_logprobs_BT=jnp.full((B, T), -np.log(a.vocab_size), jnp.float32),
        finish_reason_B=jnp.zeros((B,), jnp.int32),
        prompt_index_B=index_B,
        group_id_B=index_B,
        row_key_B=jax.random.split(jax.random.key(0), B),
        policy_step_B=jnp.zeros((B,), jnp.int32),
        constraint_id_B=jnp.zeros((B,), jnp.int32),
        is_real_B=jnp.ones((B,), bool),
    )
    prompts = Prompts(
        jnp.asarray(rng.integers(0, a.vocab_size, (P, S)), jnp.int32),
        jnp.full((P,), S),
    )
    rewards_B1 = jnp.asarray(rng.integers(0, 2, (B, 1)), jnp.float32)
    return prompts, rollouts, Scored(rewards_B1, None)


def median_seconds(run: Callable[[], Any]) -> float:
    jax.block_until_ready(run())
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


@partial(jax.jit, static_argnames=("architecture", "settings"))
def logprobs(params, prompts, rollouts, *, architecture, settings):
    model = bind(architecture, params, jnp.dtype(settings.dtype))
    hidden_BTD = forward_completions(
        model, prompts, rollouts.completion_BT, rollouts.prompt_index_B, settings,
        is_prompt_major=True,
    )  # fmt: skip
    return token_logprobs(
        hidden_BTD, model.output_head_VD, rollouts.completion_BT,
        num_tokens=architecture.vocab_size,
    ).logprobs_BT  # fmt: skip


def update_seconds(
    a: Architecture, s: Sizes, settings: ForwardSettings, params: Any, batch: Any
) -> float:
    optimizer = adamw(
        optax.constant_schedule(1e-6), beta1=0.9, beta2=0.99, weight_decay=0.0,
        clip_norm=1.0,
    )  # fmt: skip
    states = [TrainState(jnp.int32(0), params, optimizer.init(params), None)]

    def run() -> Any:
        state, metrics, _ = update(
            states.pop(), *batch, jnp.float32(1.0), architecture=a, optimizer=optimizer,
            settings=UpdateSettings(
                objective=resolve_objective("dapo"),
                num_tokens=a.vocab_size, microbatches=s.microbatches, logprob_chunk=512,
                forward=settings._replace(remat="dots"),
            ),
        )  # fmt: skip
        states.append(state)
        return metrics

    return median_seconds(run)


def decode_steps(
    a: Architecture, s: Sizes, settings: ForwardSettings, params: Any
) -> list[tuple[int, float]]:
    """Tokens of each completion before a segment, and seconds per step of it.

    The first segment of a run also fills the slots, and is left out.
    """
    engine = Engine(
        a,
        SamplerSettings(
            group_size=s.group_size, num_slots=s.num_prompts,
            rows_per_slot=s.group_size, max_prompt_tokens=s.prompt_tokens,
            max_new_tokens=s.completion_tokens, segment_steps=s.segment_steps,
            eos_ids=(), num_tokens=a.vocab_size, cache_dtype=settings.dtype,
            prefill_tokens=2048, forward=settings,
        ),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    requests = [
        Request(
            token_ids=rng.integers(0, a.vocab_size, s.prompt_tokens).astype(np.int32),
            problem_hash=(0, index),
        )
        for index in range(s.num_prompts)
    ]
    key = run_key(0, PURPOSE_SAMPLE, 0)
    next(engine.segments(params, requests, run_key=key, temperature=1.0))  # compiles
    segments = engine.segments(params, requests, run_key=key, temperature=1.0)
    next(segments)
    steps, start = [], time.perf_counter()
    for number, _ in enumerate(segments, start=1):
        end = time.perf_counter()
        steps.append((number * s.segment_steps, (end - start) / s.segment_steps))
        start = end
    return steps


def report(what: str, tokens_per_s: float, of_what: str, achieved: str) -> None:
    print(
        f"  {what:8} {tokens_per_s:10,.0f} tokens/s   {of_what:9} {achieved}",
        flush=True,
    )


def share(achieved: float, peak: float) -> str:
    return f"{100 * achieved / peak:5.1f} %" if peak else "of an unknown peak"


def measure(name: str, s: Sizes, settings: ForwardSettings) -> None:
    a = PRESETS[name]
    chip = known_chip(jax.devices()[0].device_kind)
    peak_flops = chip.flops_per_s if chip else 0.0
    peak_bytes = chip.memory_bytes_per_s if chip else 0.0
    params = jax.jit(initial_params, static_argnums=0)(a, jax.random.key(0))
    prompts, rollouts, scored = batch_of(a, s)
    tokens = s.num_rows * s.completion_tokens
    print(
        f"{name}: {s.num_prompts} prompts of {s.prompt_tokens} tokens, "
        f"{s.group_size} completions of {s.completion_tokens} each"
    )

    steps = decode_steps(a, s, settings, params)
    seconds = sum(per_step for _, per_step in steps)
    read = sum(decode_bytes(a, s, settings.dtype, done) for done, _ in steps)
    rate = s.num_rows * len(steps) / seconds
    report("decode", rate, "bandwidth", share(read / seconds, peak_bytes))

    # As many rows at a time as the update computes; no scores or states are kept.
    part = Sizes(s.num_prompts // s.microbatches, *s[1:])
    first_prompts = Prompts(*(x[: part.num_prompts] for x in prompts))
    first_rollouts = jax.tree.map(lambda x: x[: part.num_rows], rollouts)
    seconds = median_seconds(
        lambda: logprobs(
            params, first_prompts, first_rollouts, architecture=a, settings=settings
        )
    )
    flops = forward_flops(a, part)
    rate = tokens / s.microbatches / seconds
    report("forward", rate, "compute", share(flops / seconds, peak_flops))

    seconds = update_seconds(a, s, settings, params, (prompts, rollouts, scored))
    flops = 3 * forward_flops(a, s)
    report("update", tokens / seconds, "MFU", share(flops / seconds, peak_flops))


def main() -> None:
    device = jax.devices()[0]
    is_large = device.platform != "cpu"
    dtype = "bfloat16" if is_large else "float32"
    attention = automatic_attention(
        dtype=dtype, head_width=128, platform=device.platform
    )
    settings = ForwardSettings(dtype=dtype, attention=attention)
    print(
        f"jax {jax.__version__}, {device.device_kind}, {dtype}, {attention} attention"
    )
    names = sys.argv[1:] or (
        ["qwen3-0.6b", "qwen3-1.7b"] if is_large else ["qwen3-tiny"]
    )
    start = time.perf_counter()
    for name in names:
        measure(name, LARGE if is_large else TINY, settings)
    print(f"{time.perf_counter() - start:.0f} s in all, compilation included")


if __name__ == "__main__":
    main()
