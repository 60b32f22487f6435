"""DeepCoder's training set, and any set in verl's form.

Two forms, told apart by their columns. As published, one folder for each of
`primeintellect`, `taco`, `lcbv5` and `codeforces`: `problem`, `tests` (a text of JSON,
see `cases.py`), `solutions` or `starter_code` and `metadata`. As made ready for verl:
`data_source`, `prompt` (a list of messages), `reward_model` ({"ground_truth": a text of
JSON}), `extra_info`. There is no id: a checksum of the question stands for one.

Reference:
  https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset,
  https://github.com/agentica-project/rllm (scripts/data/deepcoder_dataset.py),
  https://verl.readthedocs.io/en/latest/preparation/prepare_data.html.
"""

from collections.abc import Mapping

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.formats.apps import solutions_of
from jaxgrpo.problems.formats.cases import tests_of_cases
from jaxgrpo.problems.formats.fields import (
    checked_text,
    json_of,
    list_of,
    object_of,
    present,
    tags_of,
    text_of,
)
from jaxgrpo.problems.formats.files import rows_of
from jaxgrpo.problems.formats.format import Format, Row, malformed
from jaxgrpo.problems.formats.taco import checksum_of
from jaxgrpo.problems.formats.wording import reading, starting, unfenced


def deepcoder_problem(row: Row, where: str) -> Problem:
    """Returns the problem of a row, in either form.

    Args:
      row: The raw row.
      where: File and row, for messages.
    """
    return _verl_problem(row, where) if "reward_model" in row else _problem(row, where)


def _problem(row: Row, where: str) -> Problem:
    task = text_of(row, "problem", where)
    starter = text_of(row, "starter_code", where, default="")
    solution = unfenced(next(iter(solutions_of(row, where)), ""))
    metadata = row.get("metadata") or {}
    if isinstance(metadata, str):
        metadata = json_of(metadata, "metadata", where)
    name = metadata.get("func_name") if isinstance(metadata, Mapping) else ""
    tests = tests_of_cases(
        decoded(present(row, "tests", where), "tests", where),
        where,
        "tests",
        starter,
        solution,
        function=str(name or ""),
    )
    function = tests[0].function
    return Problem(
        id=f"deepcoder/{checksum_of(task)}",
        kind=tests[0].kind,
        prompt=starting(task, starter, function) if function else reading(task),
        reference=solution,
        tests=tests,
        tags=tags_of(dataset="deepcoder"),
    )


def _verl_problem(row: Row, where: str) -> Problem:
    messages = list_of(row, "prompt", where)
    asked = [
        message.get("content")
        for message in messages
        if isinstance(message, Mapping) and message.get("role") == "user"
    ]
    if not asked:
        raise malformed(where, "prompt", "has no message of the user. Give one.")
    task = checked_text(asked[-1], "prompt", where)
    truth = present(
        object_of(row, "reward_model", where), "ground_truth", f"{where}: reward_model"
    )
    field = "reward_model.ground_truth"
    tests = tests_of_cases(decoded(truth, field, where), where, field, task)
    source = text_of(row, "data_source", where, default="")
    extra = row.get("extra_info")
    return Problem(
        id=f"deepcoder/{checksum_of(f'{source}/{task}')}",
        kind=tests[0].kind,
        prompt=task,
        reference="",
        tests=tests,
        tags=tags_of(dataset="deepcoder", source=source),
        columns={"extra_info": dict(extra) if isinstance(extra, Mapping) else {}},
    )


def decoded(found: object, field: str, where: str) -> object:
    """Returns what a field holds, as it is or as a text of JSON.

    Args:
      found: The field.
      field: Its name, for messages.
      where: File and row, for messages.
    """
    return json_of(found, field, where) if isinstance(found, str) else found


FORMAT = Format(
    name="deepcoder",
    summary="contest problems for reinforcement learning, also in verl's form",
    licence="MIT",
    get_it=(
        "https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset, files "
        "primeintellect/train-*.parquet, taco/train-*.parquet, lcbv5/*.parquet"
    ),
    files={
        "train": ("train-*.parquet", "*/train-*.parquet", "deepcoder_train.parquet"),
        "test": ("test-*.parquet", "*/test-*.parquet", "test_*.parquet"),
    },
    rows=rows_of,
    problem=deepcoder_problem,
    kind="stdin, call",
    sizes="24,287 train, 687 test",
)
