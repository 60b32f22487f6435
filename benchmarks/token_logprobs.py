"""Speed of `token_logprobs` against whole logits, forward and backward, one process.

python benchmarks/token_logprobs.py
"""

import statistics
import time

import jax
import jax.numpy as jnp

from jaxgrpo import token_logprobs

NUM_ROWS, NUM_POSITIONS, WIDTH, VOCABULARY, REPEATS = 4, 256, 256, 16_384, 5


def whole_logits(hidden_BTD, head_VD, targets_BT):
    logits_BTV = jnp.einsum("btd,vd->btv", hidden_BTD, head_VD)
    logps_BTV = jax.nn.log_softmax(logits_BTV)
    logprobs_BT = jnp.take_along_axis(logps_BTV, targets_BT[..., None], 2)[..., 0]
    return logprobs_BT, -(jnp.exp(logps_BTV) * logps_BTV).sum(axis=-1)


def chunked(hidden_BTD, head_VD, targets_BT):
    out = token_logprobs(hidden_BTD, head_VD, targets_BT)
    return out.logprobs_BT, out.entropies_BT


def measure(fn, inputs):
    """Median seconds of the runs, and MiB of temporary memory."""

    def total(*inputs):
        logprobs_BT, entropies_BT = fn(*inputs)
        return logprobs_BT.sum() + entropies_BT.sum()

    program = jax.jit(jax.value_and_grad(total, (0, 1))).lower(*inputs).compile()
    jax.block_until_ready(program(*inputs))
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(program(*inputs))
        seconds.append(time.perf_counter() - start)
    analysis = program.memory_analysis()
    assert analysis is not None
    return statistics.median(seconds), analysis.temp_size_in_bytes / 2**20


def main():
    keys = jax.random.split(jax.random.key(0), 3)
    inputs = (
        jax.random.normal(keys[0], (NUM_ROWS, NUM_POSITIONS, WIDTH)),
        jax.random.normal(keys[1], (VOCABULARY, WIDTH)) / WIDTH**0.5,
        jax.random.randint(keys[2], (NUM_ROWS, NUM_POSITIONS), 0, VOCABULARY),
    )
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}")
    print(f"B T D V = {NUM_ROWS} {NUM_POSITIONS} {WIDTH} {VOCABULARY}, float32")
    for name, fn in {"whole logits": whole_logits, "chunked": chunked}.items():
        seconds, mebibytes = measure(fn, inputs)
        print(f"{name:14s} {seconds:7.3f} s  {mebibytes:7.1f} MiB temporary")


if __name__ == "__main__":
    main()
