"""Makes chunks of programs with anchors in a process of its own, and prints them.

Started as `python -m jaxgrpo.problems.step_prediction.worker SEED FIRST STRIDE`. The
functions are those of `output_prediction`, drawn from the same seeds.
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from jaxgrpo.host.records import Limits, Program
from jaxgrpo.problems.generation import Row, Run, serve_chunks
from jaxgrpo.problems.output_prediction.execution import Example, examples_of
from jaxgrpo.problems.output_prediction.generator import drafts
from jaxgrpo.problems.step_prediction.anchors import (
    UnanchoredError,
    anchored,
    printed_anchors,
    written,
)

CHUNK_SIZE = 256
"""Drafts of a chunk, executed in one child process of the sandbox."""
FUNCTION = "f"
MAX_PRINTED_CHARACTERS = 96
"""Of all lines together: the budget of a small model."""

_DRIVER = Path(__file__).with_name("driver.py").read_text(encoding="utf-8")
_LIMITS = Limits(cpu_s=30.0, wall_s=300.0)


@dataclass(frozen=True, slots=True)
class Stepped:
    """A function with anchors, a call of it, and what that prints and returns."""

    code: str
    """Without anchors."""
    anchored: str
    call: str
    printed: str
    """`NAME: value` by line, the returned value in the last."""
    answer: str
    """`repr` of the returned value."""
    output_type: str
    """Name of the returned value's type."""
    difficulty: str
    """Of the function."""


def chunk(seed: int, index: int, run: Run) -> list[Row]:
    """Returns the rows of one chunk: the same ones for the same seed and index."""
    examples = examples_of(drafts(seed, index, CHUNK_SIZE), run)
    return [list(astuple(stepped)) for stepped in stepped_examples(examples, run)]


def stepped_examples(examples: Sequence[Example], run: Run) -> list[Stepped]:
    """Returns the examples that make good problems with anchors, in order.

    Left out are programs without an assignment outside loops, runs that return from
    within a loop or print too much, and values that nobody can write down.

    Args:
      examples: Of `output_prediction`.
      run: A sandbox's; all share one run of it.

    Raises:
      RuntimeError: The sandbox failed, or anchors changed what a call returns.
    """
    candidates: list[tuple[Example, str]] = []
    for example in examples:
        try:
            candidates.append((example, anchored(example.code, FUNCTION)))
        except UnanchoredError:
            continue
    outcomes = _outcomes([[code, example.call] for example, code in candidates], run)
    found = []
    for (example, code), outcome in zip(candidates, outcomes, strict=True):
        value, printed = outcome or ("an exception", "")
        if value != example.answer:
            raise RuntimeError(f"{value} and not {example.answer} by anchors: {code}")
        anchors = printed_anchors(printed, example.answer)
        if anchors and len(written(anchors)) <= MAX_PRINTED_CHARACTERS:
            found.append(
                Stepped(
                    code=example.code,
                    anchored=code,
                    call=example.call,
                    printed=written(anchors),
                    answer=example.answer,
                    output_type=example.output_type,
                    difficulty=example.difficulty,
                )
            )
    return found


def _outcomes(items: list[list[str]], run: Run) -> list[list[str] | None]:
    program = Program(source=_DRIVER, stdin=json.dumps(items), limits=_LIMITS)
    execution = run(program)
    if execution.status != "OK":
        raise RuntimeError(
            "the sandbox failed while the data set was built: "
            f"{execution.status} {execution.reason}. Run `jaxgrpo doctor` to see what "
            "it can use on this machine."
        )
    return json.loads(execution.stdout)


if __name__ == "__main__":
    serve_chunks(chunk)
