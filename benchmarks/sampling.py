"""Speed of the engine against `transformers` and Tunix, and of refilling against none.

    python benchmarks/sampling.py --torch-python PYTHON --tunix-python PYTHON

Each contender runs in a process of its own, in the environment of the Python it is
given (one with torch and transformers, one with google-tunix), on the same random Qwen3
weights and prompts; the others wait meanwhile. Rounds are interleaved, and medians
printed: useful tokens per second, how many times ours is faster, and milliseconds of
processor time per useful token, which other jobs on the machine disturb less. Where
there are other jobs, give all contenders one core, as the threads of torch suffer most:

    OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/sampling.py ...

Work: groups of 8 completions of 64-token prompts, up to 128 tokens each, float32,
temperature 1, 32 rows at a time. `uniform`: every completion takes its budget.
`skewed`: a set of token ids ends a completion, so large that lengths are geometric with
a mean of a sixth of the budget. Useful tokens are those up to the end token. The
contenders draw other tokens, so that lengths differ by chance.

The peers decode 4 groups at a time until the longest row ends. Ours keeps 16 groups in
slots of 2 rows; `groups` is the engine with 4 slots of 8 rows, which are refilled by
whole groups, and `none` the same, given 4 groups at a time: nothing is refilled.

Passed to Tunix: top_p=1.0, for it takes None as greedy; and a tokenizer without a BOS
token, which would lengthen prompts beyond their padding.

What was tried and left out (size S, 2 cores; microseconds of processor time a step for
the attention of 32 rows to rings of 128 columns, half full, in 4 layers):

    all columns, [B, T, K, H], written after the last layer    4,060
    all columns, [B, K, T, H], written after the last layer    3,070
    blocks of 8 to 32, as many as the longest row needs        1,530 to 1,820
    blocks of 64 and 128                                       2,270 and 3,050
    blocks of 32 in four parts, each with sums of its own      2,240

A cache in the carry of the scan over layers that is read before it is written was
copied whole at every layer; so it was on TPUs if it is written first.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {
    "S": {"width": 256, "layers": 4, "heads": 4, "kv": 2, "mlp": 768, "vocab": 4_096},
    "M": {
        "width": 512,
        "layers": 8,
        "heads": 8,
        "kv": 4,
        "mlp": 1_536,
        "vocab": 16_384,
    },
}
HEAD_WIDTH, ROPE_THETA = 64, 1e6
GROUP, PROMPT, BUDGET, ROWS = 8, 64, 128, 32
GROUPS = {"uniform": 16, "skewed": 64}
REPOSITORY = Path(__file__).parents[1]


def eos_ids(size: str, workload: str) -> list[int]:
    """Ids that end a completion: none, or a share of 6 / budget."""
    num_tokens = SIZES[size]["vocab"]
    share = 6 / BUDGET if workload == "skewed" else 0.0
    return list(range(1, 1 + round(share * num_tokens)))


def prompts_of(size: str, num_groups: int) -> list[list[int]]:
    """Token ids, the same in every environment."""
    vocab, state, prompts = SIZES[size]["vocab"], 1, []
    for _ in range(num_groups):
        prompt = []
        for _ in range(PROMPT):
            state = (1_103_515_245 * state + 12_345) % 2**31
            prompt.append(state // 2**8 % (vocab - 1) + 1)
        prompts.append(prompt)
    return prompts


def useful(rows: Any, ends: set[int]) -> int:
    """Tokens up to the first end token of each row."""
    total = 0
    for row in rows:
        at = next(
            (i for i, token in enumerate(row) if int(token) in ends), len(row) - 1
        )
        total += min(at + 1, BUDGET)
    return total


# Contenders: from a folder of weights to a function that draws and counts.

Draw = Callable[[str, int, int], int]
"""Of workload, groups and seed: useful tokens."""


def ours(size: str, folder: Path, num_slots: int, rows_per_slot: int) -> Draw:
    """The engine."""
    import numpy as np

    from jaxgrpo.device.sampling.keys import PURPOSE_SAMPLE, run_key
    from jaxgrpo.device.sampling.slots import SamplerSettings
    from jaxgrpo.engine import Engine, Request
    from jaxgrpo.weights import load_architecture, load_params

    architecture = load_architecture(folder)
    import jax

    params = jax.device_put(load_params(folder, architecture))

    def draw(workload: str, num_groups: int, seed: int) -> int:
        settings = SamplerSettings(
            group_size=GROUP,
            num_slots=num_slots,
            rows_per_slot=rows_per_slot,
            max_prompt_tokens=PROMPT,
            max_new_tokens=BUDGET,
            segment_steps=64,
            eos_ids=tuple(eos_ids(size, workload)),
            num_tokens=architecture.vocab_size,
        )
        requests = [
            Request(token_ids=np.array(prompt, np.int32), problem_hash=(i, 0))
            for i, prompt in enumerate(prompts_of(size, num_groups))
        ]
        groups = Engine(architecture, settings).sample(
            params, requests, run_key=run_key(seed, PURPOSE_SAMPLE, 0), temperature=1.0
        )
        return sum(len(s.token_ids) for group in groups for s in group.samples)

    return draw


def ours_without_refill(size: str, folder: Path) -> Draw:
    """The engine, given as many groups at a time as it has slots."""
    at_a_time = ROWS // GROUP
    draw = ours(size, folder, at_a_time, GROUP)
    return lambda workload, num_groups, seed: sum(
        draw(workload, at_a_time, seed * num_groups + start)
        for start in range(0, num_groups, at_a_time)
    )


def transformers(size: str, folder: Path) -> Draw:
    """`generate` with its dynamic cache."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def draw(workload: str, num_groups: int, seed: int) -> int:
        torch.manual_seed(seed)
        ends, total = eos_ids(size, workload), 0
        prompts = prompts_of(size, num_groups)
        for start in range(0, num_groups, ROWS // GROUP):
            batch = torch.tensor(prompts[start : start + ROWS // GROUP])
            with torch.no_grad():
                rows = model.generate(
                    batch,
                    attention_mask=torch.ones_like(batch),
                    num_return_sequences=GROUP,
                    max_new_tokens=BUDGET,
                    do_sample=True,
                    temperature=1.0,
                    top_k=0,
                    top_p=1.0,
                    eos_token_id=ends or None,
                    pad_token_id=0,
                    disable_compile=True,
                )
            total += useful(rows[:, PROMPT:].tolist(), set(ends))
        return total

    return draw


class _Numbers:
    """A tokenizer whose text is the token ids in decimal."""

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Any, **_: Any) -> str:
        return " ".join(str(int(token)) for token in ids)

    def bos_id(self) -> None:
        return None

    def eos_id(self) -> int:
        return 0

    def pad_id(self) -> int:
        return 0


def tunix(size: str, folder: Path) -> Draw:
    """Tunix's own sampler."""
    import jax
    import jax.numpy as jnp
    from tunix.generate.sampler import CacheConfig, Sampler
    from tunix.models.qwen3 import model as qwen3
    from tunix.models.qwen3.params import create_model_from_safe_tensors

    s = SIZES[size]
    config = qwen3.ModelConfig(
        num_layers=s["layers"], vocab_size=s["vocab"], embed_dim=s["width"],
        hidden_dim=s["mlp"], num_heads=s["heads"], head_dim=HEAD_WIDTH,
        num_kv_heads=s["kv"], norm_eps=1e-6, rope_theta=ROPE_THETA,
        use_tied_embedding=True, dtype=jnp.float32, param_dtype=jnp.float32,
    )  # fmt: skip
    kinds = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=kinds)
    with mesh:
        model = create_model_from_safe_tensors(str(folder), config, mesh, jnp.float32)
    cache = CacheConfig(PROMPT + BUDGET, s["layers"], s["kv"], HEAD_WIDTH)
    # A sampler keeps the end tokens that it was first compiled with.
    samplers = {workload: Sampler(model, _Numbers(), cache) for workload in GROUPS}

    def draw(workload: str, num_groups: int, seed: int) -> int:
        ends, total = eos_ids(size, workload), 0
        prompts = prompts_of(size, num_groups)
        for start in range(0, num_groups, ROWS // GROUP):
            texts = [
                " ".join(map(str, prompt))
                for prompt in prompts[start : start + ROWS // GROUP]
                for _ in range(GROUP)
            ]
            with mesh:
                output = samplers[workload](
                    texts,
                    max_generation_steps=BUDGET,
                    max_prompt_length=PROMPT,
                    eos_tokens=ends or [s["vocab"] + 1],
                    temperature=1.0,
                    top_p=1.0,
                    top_k=None,
                    seed=seed * num_groups + start,
                )
            rows = [jax.device_get(tokens).tolist() for tokens in output.tokens]
            assert len({tuple(row) for row in rows}) > ROWS // 2, "greedy, not sampled"
            total += useful(rows, set(ends))
        return total

    return draw


CONTENDERS: dict[str, Callable[[str, Path], Draw]] = {
    "ours": lambda size, folder: ours(size, folder, 2 * ROWS // 4, 2),
    "groups": lambda size, folder: ours(size, folder, ROWS // GROUP, GROUP),
    "none": ours_without_refill,
    "transformers": transformers,
    "tunix": tunix,
}


def work(name: str, size: str, folder: Path) -> None:
    """Answers lines of work with lines of seconds, until there are none."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    draw = CONTENDERS[name](size, folder)
    for line in sys.stdin:
        task = json.loads(line)
        begun, used = time.perf_counter(), time.process_time()
        tokens = draw(task["workload"], task["groups"], task["seed"])
        result = {
            "tokens": tokens,
            "seconds": time.perf_counter() - begun,
            "cpu": time.process_time() - used,
        }
        print(json.dumps(result), file=answers, flush=True)


def prepare(size: str, folder: Path) -> None:
    """Writes random weights as a checkpoint that all contenders load."""
    import jax

    from jaxgrpo.device.model.decoder import initial_params
    from jaxgrpo.device.model.presets import PRESETS
    from jaxgrpo.weights import save_checkpoint

    s = SIZES[size]
    architecture = PRESETS["qwen3-tiny"]._replace(
        vocab_size=s["vocab"], width=s["width"], num_layers=s["layers"],
        num_heads=s["heads"], num_kv_heads=s["kv"], head_width=HEAD_WIDTH,
        mlp_width=s["mlp"], rope_theta=ROPE_THETA, max_positions=4_096,
    )  # fmt: skip
    params = initial_params(architecture, jax.random.key(0))
    save_checkpoint(folder, params, architecture, dtype="float32", eos_ids=(0,))


def start(python: str, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": str(REPOSITORY),
    }
    return subprocess.Popen(
        [python, __file__, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def asked(worker: subprocess.Popen[str], **task: Any) -> dict[str, float]:
    assert worker.stdin is not None and worker.stdout is not None
    print(json.dumps(task), file=worker.stdin, flush=True)
    line = worker.stdout.readline()
    assert line, f"a worker ended with status {worker.wait()}: {worker.args}"
    return json.loads(line)


def compare(size: str, pythons: dict[str, str], repeats: int, folder: Path) -> None:
    """Prints a row per contender and workload, after rounds in which all take turns."""
    assert start(sys.executable, "prepare", size, str(folder)).wait() == 0
    workers = {
        name: start(python, "work", name, size, str(folder))
        for name, python in pythons.items()
    }
    try:
        for workload, groups in GROUPS.items():
            results: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
            for turn in range(repeats + 1):
                for name, worker in workers.items():
                    task = {"workload": workload, "groups": groups, "seed": turn + 1}
                    result = asked(worker, **task)
                    if turn:  # the first one compiles
                        results[name].append(result)
            show(size, workload, results)
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()


def show(size: str, workload: str, results: dict[str, list[dict[str, float]]]) -> None:
    def speed(result: dict[str, float]) -> float:
        return result["tokens"] / result["seconds"]

    base = statistics.median(map(speed, results["ours"]))
    for name, of_name in results.items():
        median = statistics.median(map(speed, of_name))
        cpu = statistics.median(1e3 * r["cpu"] / r["tokens"] for r in of_name)
        tokens = statistics.mean(r["tokens"] for r in of_name)
        print(
            f"{size}  {workload:8s} {name:13s} {tokens:8.0f} {median:10.0f}"
            f" {base / median:8.2f} {cpu:10.2f} {os.getloadavg()[0]:8.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--torch-python", help="with torch and transformers")
    parser.add_argument("--tunix-python", help="with google-tunix")
    parser.add_argument("--sizes", nargs="+", default=["S", "M"], choices=sorted(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    pythons = dict.fromkeys(["ours", "groups", "none"], sys.executable)
    if options.torch_python:
        pythons["transformers"] = options.torch_python
    if options.tunix_python:
        pythons["tunix"] = options.tunix_python
    print(
        "size workload contender      tokens useful/s   ours/it cpu ms/token   load",
        flush=True,
    )
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            compare(size, pythons, options.repeats, Path(folder))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    elif sys.argv[1:2] == ["prepare"]:
        prepare(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
