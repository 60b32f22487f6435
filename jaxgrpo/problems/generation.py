"""Generated data sets: chunks from worker processes, sorted into disjoint splits."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, TextIO, TypeVar

import jaxgrpo
from jaxgrpo.host.records import Execution, Program
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.progress import Report

_BUCKETS = 320
_VALIDATION_BUCKETS = 10
_TEST_BUCKETS = 32

_Example = TypeVar("_Example")

Row = list[Any]
"""The fields of an example, as JSON holds them."""
Run = Callable[[Program], Execution]
"""Runs a program in a sandbox."""


def split_of_text(text: str) -> str:
    r"""Returns the only split that a text may appear in, whatever the seed.

    1/32 of all texts are validation, 1/10 test, the rest train.

    Example:
      >>> split_of_text("def f(x):\n return x[::-1]")
      'train'
    """
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    bucket = int.from_bytes(digest, "little") % _BUCKETS
    if bucket < _VALIDATION_BUCKETS:
        return "validation"
    return "test" if bucket < _VALIDATION_BUCKETS + _TEST_BUCKETS else "train"


def generated_splits(
    module: str,
    seed: int,
    sizes: dict[str, int],
    *,
    example_of: Callable[[Row], _Example],
    split_of: Callable[[_Example], str],
    key_of: Callable[[_Example], Hashable],
    num_workers: int,
    report: Report,
) -> dict[str, list[_Example]]:
    """Returns the splits of a data set; they do not depend on the workers.

    Args:
      module: Started by the workers as `python -m MODULE SEED FIRST STRIDE`; its main
        function calls `write_chunks`.
      seed: Seed of the data set.
      sizes: Examples wanted by split: train, validation and test.
      example_of: Makes an example of the row that a worker has written.
      split_of: As for `assemble`.
      key_of: As for `assemble`.
      num_workers: Processes to use; 0 takes one per CPU core.
      report: Called after every chunk.
    """
    workers = num_workers or len(os.sched_getaffinity(0))
    with closing(_chunks(module, seed, workers)) as source:
        examples = (list(map(example_of, rows)) for rows in source)
        return assemble(
            examples, sizes, split_of=split_of, key_of=key_of, report=report
        )


def assemble(
    source: Iterable[list[_Example]],
    sizes: dict[str, int],
    *,
    split_of: Callable[[_Example], str],
    key_of: Callable[[_Example], Hashable],
    report: Report,
) -> dict[str, list[_Example]]:
    """Fills the splits in the order of the chunks, without repeating an example.

    Args:
      source: Chunks of examples; read until every split is full.
      sizes: Examples wanted by split.
      split_of: The only split that an example may be in.
      key_of: Equal for examples of which only the first is kept.
      report: Called after every chunk.
    """
    splits: dict[str, list[_Example]] = {name: [] for name in sizes}
    seen: set[Hashable] = set()
    wanted = sum(sizes.values())
    for chunk in source:
        for example in chunk:
            name, key = split_of(example), key_of(example)
            if key not in seen and len(splits[name]) < sizes[name]:
                seen.add(key)
                splits[name].append(example)
        found = sum(map(len, splits.values()))
        report(found, wanted)
        if found == wanted:
            return splits
    raise RuntimeError(f"the chunks ended with {found} of {wanted} examples")


def _chunks(module: str, seed: int, num_workers: int) -> Generator[list[Row]]:
    """Yields chunk 0, 1, 2 ... without end, made by worker processes.

    Worker w of n makes chunks w, w + n, w + 2n ... and waits when its pipe is full.
    """
    workers = [_start(module, seed, first, num_workers) for first in range(num_workers)]
    try:
        while True:
            for worker in workers:
                yield _next_chunk(worker)
    finally:
        for worker in workers:
            _stop(worker)


def _start(module: str, seed: int, first: int, stride: int) -> subprocess.Popen[str]:
    # The worker finds the same jaxgrpo, installed or not, and nothing from the
    # current folder.
    paths = [str(Path(jaxgrpo.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(seed), str(first), str(stride)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C is for this process; the workers end when their pipe is closed.
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def _next_chunk(worker: subprocess.Popen[str]) -> list[Row]:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line.endswith("\n"):
        raise RuntimeError(
            f"a process that builds the data set ended with code {worker.wait()}. "
            "Its messages are above; `jaxgrpo doctor` checks the sandbox it needs."
        )
    return json.loads(line)


def _stop(worker: subprocess.Popen[str]) -> None:
    """Closes the pipe, at which the worker ends and takes its sandbox along."""
    assert worker.stdout is not None
    worker.stdout.close()
    try:
        worker.wait(timeout=10.0)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def serve_chunks(chunk: Callable[[int, int, Run], Sequence[Row]]) -> None:
    """The main function of a worker: makes chunks until nobody reads them.

    Its command line is SEED FIRST STRIDE; it prints chunks FIRST, FIRST + STRIDE,
    FIRST + 2 STRIDE ... as one line of JSON each.

    Args:
      chunk: Returns the rows of a chunk from seed, index and a sandbox.
    """
    seed, first, stride = map(int, sys.argv[1:])
    # These programs are our own: the best level is welcome, and any level will do.
    with Sandbox(minimum="D", allow_unsafe=True) as sandbox:
        rows = (chunk(seed, index, sandbox.run) for index in count(first, stride))
        write_chunks(rows, sys.stdout)
    # The pipe is closed; give the interpreter something else to flush at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_chunks(chunks: Iterator[Sequence[Row]], out: TextIO) -> None:
    """Writes one line per chunk until the other end of the pipe is closed."""
    for rows in chunks:
        try:
            print(json.dumps(rows), file=out, flush=True)
        except BrokenPipeError:
            return
