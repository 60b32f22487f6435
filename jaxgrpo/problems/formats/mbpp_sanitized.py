"""MBPP sanitized: the 427 problems of MBPP that were gone over by hand.

One JSON array of objects with `task_id`, `prompt` (the sentence; not `text`), `code`,
`test_imports` (statements before each test), `test_list` and `source_file`. Ids and
splits are MBPP's. On Hugging Face it comes as Parquet, one file per split.

Reference:
  https://github.com/google-research/google-research/tree/master/mbpp
  (sanitized-mbpp.json), https://huggingface.co/datasets/google-research-datasets/mbpp.
"""

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats.fields import identifier_of, text_of, texts_of
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row
from jaxgrpo.problems.formats.mbpp import mbpp_like, split_of


def sanitized_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    return mbpp_like(
        f"mbpp_sanitized/{identifier_of(row, 'task_id', where)}",
        text_of(row, "prompt", where),
        text_of(row, "code", where),
        texts_of(row, "test_list", where),
        (),
        setup="\n".join(texts_of(row, "test_imports", where, default=())),
        where=where,
    )


FORMAT = Format(
    name="mbpp_sanitized",
    summary="MBPP's problems that were gone over by hand",
    licence="CC-BY-4.0",
    get_it=(
        "https://raw.githubusercontent.com/google-research/google-research/master/"
        "mbpp/sanitized-mbpp.json, file sanitized-mbpp.json"
    ),
    files={"": ("sanitized-mbpp.json", "sanitized-mbpp.jsonl", "sanitized/*.parquet")},
    rows=rows_of,
    problem=sanitized_problem,
    split_of=split_of,
    kind="assert",
    sizes="120 train, 43 validation, 257 test",
)
