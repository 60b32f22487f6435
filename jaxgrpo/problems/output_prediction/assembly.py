"""Chunks of examples from worker processes, sorted into disjoint splits."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from pathlib import Path

import jaxgrpo
from jaxgrpo.problems.output_prediction.execution import Example

_BUCKETS = 320
_VALIDATION_BUCKETS = 10
_TEST_BUCKETS = 32

Splits = dict[str, list[Example]]
Report = Callable[[int, int], None]
"""Told (examples found, examples wanted) as a data set grows."""


def split_of(code: str) -> str:
    r"""Returns the only split that a function may appear in, whatever the seed.

    1/32 of all function texts are validation, 1/10 test, the rest train.

    Example:
      >>> split_of("def f(x):\n return x[::-1]")
      'train'
    """
    digest = hashlib.blake2b(code.encode(), digest_size=8).digest()
    bucket = int.from_bytes(digest, "little") % _BUCKETS
    if bucket < _VALIDATION_BUCKETS:
        return "validation"
    return "test" if bucket < _VALIDATION_BUCKETS + _TEST_BUCKETS else "train"


def build_splits(
    seed: int, sizes: dict[str, int], *, num_workers: int, report: Report
) -> Splits:
    """Returns the splits of a data set; they do not depend on the workers.

    Args:
      seed: Seed of the data set.
      sizes: Examples wanted by split: train, validation and test.
      num_workers: Processes to use; 0 takes one per CPU core.
      report: Called after every chunk.
    """
    workers = num_workers or len(os.sched_getaffinity(0))
    with closing(chunks(seed, workers)) as source:
        return assemble(source, sizes, report=report)


def assemble(
    source: Iterable[list[Example]], sizes: dict[str, int], *, report: Report
) -> Splits:
    """Fills the splits in the order of the chunks, without repeating an example.

    Args:
      source: Chunks of examples; read until every split is full.
      sizes: Examples wanted by split.
      report: Called after every chunk.
    """
    splits: Splits = {name: [] for name in sizes}
    seen: set[tuple[str, str]] = set()
    wanted = sum(sizes.values())
    for chunk in source:
        for example in chunk:
            name = split_of(example.code)
            key = (example.code, example.call)
            if key not in seen and len(splits[name]) < sizes[name]:
                seen.add(key)
                splits[name].append(example)
        found = sum(map(len, splits.values()))
        report(found, wanted)
        if found == wanted:
            return splits
    raise RuntimeError(f"the chunks ended with {found} of {wanted} examples")


def chunks(seed: int, num_workers: int) -> Generator[list[Example]]:
    """Yields chunk 0, 1, 2 ... without end, made by worker processes.

    Worker w of n makes chunks w, w + n, w + 2n ... and waits when its pipe is full.
    """
    workers = [_start(seed, first, num_workers) for first in range(num_workers)]
    try:
        while True:
            for worker in workers:
                yield _next_chunk(worker)
    finally:
        for worker in workers:
            _stop(worker)


def _start(seed: int, first: int, stride: int) -> subprocess.Popen[str]:
    # The worker finds the same jaxgrpo, installed or not, and nothing from the
    # current folder.
    paths = [str(Path(jaxgrpo.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    module = "jaxgrpo.problems.output_prediction.worker"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(seed), str(first), str(stride)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for this process; the workers end when their pipe is closed.
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def _next_chunk(worker: subprocess.Popen[str]) -> list[Example]:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line.endswith("\n"):
        raise RuntimeError(
            f"a process that builds the data set ended with code {worker.wait()}. "
            "Its messages are above; `jaxgrpo doctor` checks the sandbox it needs."
        )
    return [Example(*row) for row in json.loads(line)]


def _stop(worker: subprocess.Popen[str]) -> None:
    """Closes the pipe, at which the worker ends and takes its sandbox along."""
    assert worker.stdout is not None
    worker.stdout.close()
    try:
        worker.wait(timeout=10.0)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
