"""The data set `output_prediction` as sequences of problems."""

from functools import partial

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.generated_loading import load_generated
from jaxgrpo.problems.output_prediction.builder import OutputPrediction


def output_problem(record: dict[str, object]) -> Problem:
    """Converts one record, whose texts are UTF-8 bytes."""
    text = {k: v.decode() for k, v in record.items() if isinstance(v, bytes)}
    return Problem(
        id=text["id"],
        kind="output",
        prompt=f"{text['code']}\n{text['call']}",
        reference=text["answer"],
        tags={"output_type": text["output_type"], "difficulty": text["difficulty"]},
        columns={
            "code": text["code"],
            "call": text["call"],
            "executed_lines": int(record["executed_lines"]),  # type: ignore[arg-type]
        },
    )


load = partial(load_generated, OutputPrediction, output_problem)
"""Returns a split; its arguments are those of `load_generated` from `split` on."""
