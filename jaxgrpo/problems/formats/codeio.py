"""CodeI/O of reasoning-gym: what does this function return, for inputs without end.

One JSON object per line: `task_description`, `input_output_spec`, `code_sample` (which
defines `main_solution`), `input_generator` (which defines `generate_inputs(rng)`, whose
value is keyword arguments) and, in most rows, `difficulty` (1 to 10). Each problem is a
draw from the generator; the seed and the row decide it, and `data.per_row` how many
there are. Both programs are somebody else's, and run in the sandbox alone.

Reference:
  https://github.com/open-thought/reasoning-gym (reasoning_gym/code/codeio.py,
  reasoning_gym/data/codeio.jsonl.gz), after CodeI/O, https://arxiv.org/abs/2502.07316.
  Differs from it: a function whose value is not decided by its arguments is left out
  (it is called twice, with other random numbers), and answers are Python literals.
"""

from collections.abc import Sequence

from jaxgrpo.host.judge.literal_values import (
    NotALiteralError,
    is_same_value,
    read_literal,
)
from jaxgrpo.host.records import Call, CallResult, Limits, Problem, Program
from jaxgrpo.problems.formats.fields import number_of, tags_of, text_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, Workshop, unusable
from jaxgrpo.problems.formats.taco import checksum_of
from jaxgrpo.problems.formats.wording import calling
from jaxgrpo.problems.generation import split_of_text

MAX_CHARACTERS = 400
"""Of the call and of the answer each; longer ones test patience."""
_LIMITS = Limits(cpu_s=10.0, wall_s=40.0)
_DRIVER = """

def _reseeded(seed):
    import random, sys
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def drawn_inputs(seed):
    from random import Random
    _reseeded(seed)
    return generate_inputs(Random(seed))


def answer_to(inputs, seed):
    _reseeded(seed)
    return main_solution(**inputs)
"""
_IMPORTS = "from random import Random\n"
"""What the generators' annotations mention without importing it."""


def codeio_problem(row: Row, where: str) -> Problem:
    """Returns the program of a row; inputs and answers come later.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    code = text_of(row, "code_sample", where)
    generator = text_of(row, "input_generator", where)
    task = text_of(row, "task_description", where)
    difficulty = number_of(row, "difficulty", where, default=0)
    return Problem(
        # The same function occurs with two descriptions.
        id=f"codeio/{checksum_of(chr(0).join((code, generator, task)))}",
        kind="output",
        prompt="",
        reference="",
        tags=tags_of(dataset="codeio", difficulty=difficulty or ""),
        columns={
            "code": code,
            "generator": generator,
            "task": task,
            "specification": text_of(row, "input_output_spec", where),
        },
    )


def split_of_row(row: Row) -> str:
    """Returns the split of a row, so that a function is in one only.

    Args:
      row: The raw row, which has a problem.
    """
    return split_of_text(str(row["code_sample"]))


def with_answers(problem: Problem, where: str, workshop: Workshop) -> Sequence[Problem]:
    """Returns problems with drawn inputs; fewer where draws are long or repeat.

    Args:
      problem: From `codeio_problem`.
      where: File and row, for messages.
      workshop: Draws `per_row` inputs, and runs the function.

    Raises:
      UnusableRowError: No draw makes a problem, with the reason of the last.
    """
    columns = problem.columns
    source = f"{_IMPORTS}{columns['code']}\n\n{columns['generator']}\n{_DRIVER}"
    # Other draws for other seeds: 2^31 apart, and the same on every machine.
    first = int(checksum_of(f"{workshop.seed}/{problem.id}")[:8], 16) >> 1
    draws = [("drawn_inputs", (first + k,)) for k in range(workshop.per_row)]
    inputs = _results(source, draws, workshop)
    found: dict[str, Problem] = {}
    reason = ""
    for drawn in inputs:
        shown, answer, reason = _question(source, drawn, first, workshop)
        if not reason and shown not in found:
            found[shown] = _asked(problem, shown, answer, len(found))
    if not found:
        raise unusable(where, "code_sample", f"makes no problem: {reason}.")
    return list(found.values())


def _question(
    source: str, drawn: CallResult, seed: int, workshop: Workshop
) -> tuple[str, str, str]:
    """A call as it is shown, its answer, and why it is no question, or nothing."""
    inputs = drawn.value
    if drawn.status != "OK" or not isinstance(inputs, dict):
        return "", "", f"generate_inputs: {_reason(drawn)}"
    names = ", ".join(f"{name}={value!r}" for name, value in inputs.items())
    shown = f"main_solution({names})"
    if len(shown) > MAX_CHARACTERS:
        return shown, "", f"its arguments take more than {MAX_CHARACTERS} characters"
    calls = [("answer_to", (inputs, seed)), ("answer_to", (inputs, seed + 1))]
    one, other = _results(source, calls, workshop)
    if one.status != "OK" or other.status != "OK":
        failed = one if one.status != "OK" else other
        return shown, "", f"{shown}: {_reason(failed)}"
    answer = repr(one.value)
    if len(answer) > MAX_CHARACTERS:
        return shown, answer, f"its value takes more than {MAX_CHARACTERS} characters"
    try:
        read_literal(answer)
    except NotALiteralError as error:
        return shown, answer, f"its value is no literal: {error}"
    if not is_same_value(one.value, other.value):
        return shown, answer, "its value is not decided by its arguments"
    return shown, answer, ""


def _results(
    source: str, calls: Sequence[tuple[str, tuple]], workshop: Workshop
) -> Sequence[CallResult]:
    made = tuple(Call(function=name, arguments=given) for name, given in calls)
    program = Program(source=source, mode="calls", calls=made, limits=_LIMITS)
    return workshop.run(program).results


def _reason(result: CallResult) -> str:
    found = result.exception
    return f"{found.type_name}: {found.message}" if found else result.status


def _asked(problem: Problem, call: str, answer: str, index: int) -> Problem:
    columns = problem.columns
    return Problem(
        id=f"{problem.id}/{index}",
        kind="output",
        prompt=(
            f"{columns['task']}\n\n{columns['specification']}\n\n"
            f"{calling(str(columns['code']), call)}"
        ),
        reference=answer,
        tags=problem.tags,
        columns={"code": columns["code"], "call": call},
    )


FORMAT = Format(
    name="codeio",
    summary="what a function returns for drawn inputs; the literal",
    licence="Apache-2.0",
    get_it=(
        "https://github.com/open-thought/reasoning-gym, file "
        "reasoning_gym/data/codeio.jsonl.gz"
    ),
    files={"": ("codeio.jsonl", "codeio.jsonl.gz")},
    rows=rows_of,
    problem=codeio_problem,
    split_of=split_of_row,
    complete=with_answers,
    package="reasoning-gym",
    kind="output",
    sizes="3,002 functions, data.per_row each",
)
