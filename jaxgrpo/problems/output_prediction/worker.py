"""Makes chunks of examples in a process of its own, and prints them.

Started as `python -m jaxgrpo.problems.output_prediction.worker SEED FIRST STRIDE`: it
writes chunks FIRST, FIRST + STRIDE, FIRST + 2 STRIDE ... as one line of JSON each,
until its reader closes the pipe.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import astuple
from itertools import count
from typing import TextIO

from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.problems.output_prediction.execution import Example, Run, examples_of
from jaxgrpo.problems.output_prediction.generator import drafts

CHUNK_SIZE = 256
"""Drafts of a chunk, executed in one child process of the sandbox."""


def chunk(seed: int, index: int, run: Run) -> list[Example]:
    """Returns the examples of one chunk: the same ones for the same seed and index."""
    return examples_of(drafts(seed, index, CHUNK_SIZE), run)


def write_chunks(indices: Iterator[int], seed: int, run: Run, out: TextIO) -> None:
    """Writes one line per chunk until the other end of the pipe is closed."""
    for index in indices:
        rows = [astuple(example) for example in chunk(seed, index, run)]
        try:
            print(json.dumps(rows), file=out, flush=True)
        except BrokenPipeError:
            return


def main() -> None:
    """Makes chunks until nobody reads them."""
    seed, first, stride = map(int, sys.argv[1:])
    # These programs are our own: the best level is welcome, and any level will do.
    with Sandbox(minimum="D", allow_unsafe=True) as sandbox:
        write_chunks(count(first, stride), seed, sandbox.run, sys.stdout)
    # The pipe is closed; give the interpreter something else to flush at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
