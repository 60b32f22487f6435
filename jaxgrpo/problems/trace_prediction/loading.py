"""The data set `trace_prediction` as sequences of problems."""

from functools import partial

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.generated_loading import load_generated
from jaxgrpo.problems.trace_prediction.builder import NUMBERS, TracePrediction

COLUMNS = ("code", "call", "question", "variable")
"""Texts that a problem keeps beside its message and its answer."""


def trace_problem(record: dict[str, object]) -> Problem:
    """Converts one record, whose texts are UTF-8 bytes."""
    text = {k: v.decode() for k, v in record.items() if isinstance(v, bytes)}
    columns: dict[str, object] = {name: text[name] for name in COLUMNS}
    for name in NUMBERS:
        columns[name] = int(record[name])  # type: ignore[call-overload]
    return Problem(
        id=text["id"],
        kind="trace",
        prompt=text["prompt"],
        reference=text["answer"],
        tags={"question": text["question"], "difficulty": text["difficulty"]},
        columns=columns,
    )


load = partial(load_generated, TracePrediction, trace_problem)
"""Returns a split; its arguments are those of `load_generated` from `split` on."""
