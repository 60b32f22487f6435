"""CRUXEval, output prediction: what does this call return?

One JSON object per line: `id` ("sample_0"), `code` (a function `f`), `input` (the
arguments, as they stand in the call) and `output` (`repr` of the value).

Reference:
  https://github.com/facebookresearch/cruxeval (data/cruxeval.jsonl),
  https://arxiv.org/abs/2401.03065. Differs from its evaluator: it compares values with
  Python's `==`; here the literal is judged, so that True is not 1.
"""

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats.fields import identifier_of, tags_of, text_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row
from jaxgrpo.problems.formats.wording import calling

GET_IT = (
    "https://github.com/facebookresearch/cruxeval, file data/cruxeval.jsonl, or "
    "https://huggingface.co/datasets/cruxeval-org/cruxeval, file test.jsonl"
)
FILES = {"test": ("cruxeval.jsonl", "test.jsonl")}
FUNCTION = "f"


def cruxeval_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    code = text_of(row, "code", where)
    call = f"{FUNCTION}({text_of(row, 'input', where)})"
    return Problem(
        id=f"cruxeval/{identifier_of(row, 'id', where)}",
        kind="output",
        prompt=calling(code, call),
        reference=text_of(row, "output", where),
        tags=tags_of(dataset="cruxeval"),
        columns={"code": code, "call": call},
    )


FORMAT = Format(
    name="cruxeval",
    summary="what a call returns; the literal",
    licence="MIT",
    get_it=GET_IT,
    files=FILES,
    rows=rows_of,
    problem=cruxeval_problem,
    kind="output",
    sizes="800 test",
)
