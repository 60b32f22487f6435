"""Makes chunks of questions in a process of its own, and prints them.

Started as `python -m jaxgrpo.problems.trace_prediction.worker SEED FIRST STRIDE`. The
functions are those of `output_prediction`, drawn from the same seeds.
"""

from dataclasses import astuple, dataclass

from jaxgrpo.host.judge.arguments import read_arguments
from jaxgrpo.host.records import Call
from jaxgrpo.problems.dice import Dice
from jaxgrpo.problems.generation import Row, Run, serve_chunks
from jaxgrpo.problems.output_prediction.execution import Example, examples_of
from jaxgrpo.problems.output_prediction.generator import drafts
from jaxgrpo.problems.trace_prediction.questions import (
    drawn,
    prompt_of,
    questions,
    traced,
)

CHUNK_SIZE = 64
"""Functions of a chunk; each is traced in a process of its own."""
PER_FUNCTION = 2
FUNCTION = "f"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a call of a function."""

    code: str
    call: str
    prompt: str
    answer: str
    question: str
    """One of `questions.QUESTIONS`."""
    difficulty: str
    """Of the function."""
    line: int
    turn: int
    variable: str


def chunk(seed: int, index: int, run: Run) -> list[Row]:
    """Returns the rows of one chunk: the same ones for the same seed and index."""
    dice = Dice(f"trace/{seed}/{index}")
    examples = examples_of(drafts(seed, index, CHUNK_SIZE), run)
    return [
        list(astuple(asked))
        for example in examples
        for asked in asked_about(example, run, dice)
    ]


def asked_about(example: Example, run: Run, dice: Dice) -> list[Asked]:
    """Returns a few questions about a call; none where its trace has none.

    Args:
      example: A function with its call.
      run: A sandbox's.
      dice: Decides which.
    """
    arguments, keywords = read_arguments(example.call, FUNCTION)
    call = Call(function=FUNCTION, arguments=arguments, keywords=keywords)
    found = questions(example.code, FUNCTION, traced(example.code, call, run))
    return [
        Asked(
            code=example.code,
            call=example.call,
            prompt=prompt_of(example.code, example.call, question.text),
            answer=question.answer,
            question=question.kind,
            difficulty=example.difficulty,
            line=question.line,
            turn=question.turn,
            variable=question.variable,
        )
        for question in drawn(found, PER_FUNCTION, dice)
    ]


if __name__ == "__main__":
    serve_chunks(chunk)
