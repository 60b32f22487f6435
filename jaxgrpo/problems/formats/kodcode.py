"""KodCode: synthetic problems whose tests are in the form of pytest.

Columns: `style` (instruct, complete, online_judge), `subset`, `question_id`,
`question`, `solution`, `test` (a module that imports from `solution` and defines
`test_*`), `test_info` (per function: `function_name`, `parameter_list`,
`function_declaration`, `docstring`), `gpt_difficulty`, `gpt_pass_percentage`.

Reference:
  https://huggingface.co/datasets/KodCode/KodCode-V1 (and KodCode-Light-RL-10K),
  https://github.com/KodCode-AI/kodcode. Differs from it: pytest does not run; tests
  that need more of it than `pytests.py` puts in plain Python are left out.
"""

from collections.abc import Mapping

from jaxgrpo.host.records import Problem, Test
from jaxgrpo.problems.formats.fields import identifier_of, tags_of, text_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed, unusable
from jaxgrpo.problems.formats.pytests import NotAloneError, asserts_of
from jaxgrpo.problems.formats.wording import PROGRAM, completing


def kodcode_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    question = text_of(row, "question", where)
    style = text_of(row, "style", where, default="instruct")
    try:
        sources, names = asserts_of(text_of(row, "test", where))
    except NotAloneError as error:
        raise unusable(where, "test", f"cannot stand alone: {error}.") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise malformed(where, "test", f"is no Python: {error}.") from None
    # A name that shadows a builtin has to be known to be the program's.
    function = names[0] if len(names) == 1 else ""
    return Problem(
        id=f"kodcode/{identifier_of(row, 'question_id', where)}",
        kind="assert",
        prompt=(
            completing(question)
            if style == "complete"
            else f"{question.strip()}\n\n{_signatures(row, names)} {PROGRAM}"
        ),
        reference=text_of(row, "solution", where),
        tests=tuple(
            Test(kind="assert", source=source, function=function) for source in sources
        ),
        tags=tags_of(
            dataset="kodcode",
            style=style,
            subset=text_of(row, "subset", where, default=""),
            difficulty=text_of(row, "gpt_difficulty", where, default=""),
        ),
        columns={"gpt_pass_percentage": row.get("gpt_pass_percentage")},
    )


def _signatures(row: Row, names: list[str]) -> str:
    """What the tests call, as the row declares it."""
    infos = row.get("test_info") or ()
    declared = {
        str(info["function_name"]): str(info.get("function_declaration") or "")
        for info in infos  # type: ignore[union-attr]
        if isinstance(info, Mapping) and info.get("function_name")
    }
    shown = [(declared.get(name) or name).strip().rstrip(":") for name in names]
    return f"Define {', '.join(f'`{text}`' for text in shown)}."


FORMAT = Format(
    name="kodcode",
    summary="synthetic problems with pytest's tests; asserts",
    licence="CC-BY-NC-4.0",
    get_it=(
        "https://huggingface.co/datasets/KodCode/KodCode-Light-RL-10K, or "
        "https://huggingface.co/datasets/KodCode/KodCode-V1, files data/train-*.parquet"
    ),
    files={"": ("train-*.parquet", "data/train-*.parquet", "train.jsonl")},
    rows=rows_of,
    problem=kodcode_problem,
    kind="assert",
    sizes="10,000 (Light-RL-10K), 447,000 (V1)",
)
