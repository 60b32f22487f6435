"""Makes chunks of examples in a process of its own, and prints them.

Started as `python -m jaxgrpo.problems.mini_programs.worker SEED FIRST STRIDE`.
"""

from dataclasses import astuple

from jaxgrpo.problems.generation import Row, Run, serve_chunks
from jaxgrpo.problems.mini_programs.execution import examples_of
from jaxgrpo.problems.mini_programs.generator import drafts

CHUNK_SIZE = 128
"""Drafts of a chunk, executed in one child process of the sandbox."""


def chunk(seed: int, index: int, run: Run) -> list[Row]:
    """Returns the rows of one chunk: the same ones for the same seed and index."""
    examples = examples_of(drafts(seed, index, CHUNK_SIZE), run)
    return [list(astuple(example)) for example in examples]


if __name__ == "__main__":
    serve_chunks(chunk)
