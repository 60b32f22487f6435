"""The data set `step_prediction` as sequences of problems."""

from functools import partial

from jaxgrpo.host.records import Problem
from jaxgrpo.host.trace.steps import COLUMN
from jaxgrpo.problems.generated_loading import load_generated
from jaxgrpo.problems.step_prediction.anchors import printed_anchors
from jaxgrpo.problems.step_prediction.builder import StepPrediction


def step_problem(record: dict[str, object]) -> Problem:
    """Converts one record, whose texts are UTF-8 bytes."""
    text = {k: v.decode() for k, v in record.items() if isinstance(v, bytes)}
    steps = [list(a) for a in printed_anchors(text["printed"], text["answer"])]
    return Problem(
        id=text["id"],
        kind="trace",
        prompt=f"{text['anchored']}\n{text['call']}",
        reference=text["answer"],
        tags={
            "output_type": text["output_type"],
            "difficulty": text["difficulty"],
            COLUMN: str(len(steps)),
        },
        columns={
            "code": text["code"],
            "anchored": text["anchored"],
            "call": text["call"],
            COLUMN: steps,
        },
    )


load = partial(load_generated, StepPrediction, step_problem)
"""Returns a split; its arguments are those of `load_generated` from `split` on."""
