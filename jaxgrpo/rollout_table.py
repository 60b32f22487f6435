"""The rollouts table: every sampled completion of every step, as Parquet.

One part per step, `rollouts/step_000123.parquet`, written under another name and then
renamed: a part is whole or absent. Any Parquet reader takes the folder as one table.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jaxgrpo.host.records import Completion, Group, Prompt, Score

SCHEMA_VERSION = 1
FOLDER_NAME = "rollouts"
HARVEST_FOLDER = "harvest"
"""Parts of the same form: what the phases of [distill] imitated."""

_PART_NAME = re.compile(r"step_(\d{6,})\.parquet")
_SURROGATES = re.compile("[\ud800-\udfff]")

_TEXT = pa.string()
_FLOATS = pa.list_(pa.float32())
_SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("label", pa.string())])
_BEFORE_REWARDS = {
    "step": pa.int64(),
    "policy_step": pa.int64(),
    "problem_id": _TEXT,
    "prompt_id": _TEXT,
    "prompt_variant": _TEXT,
    "group_id": pa.int32(),
    "sample": pa.int32(),
    "tags": pa.map_(pa.string(), pa.string()),
    "prompt": _TEXT,
    "completion": _TEXT,
    "token_ids": pa.list_(pa.int32()),
    "offsets": pa.list_(pa.list_(pa.int32(), 2)),
    "sampler_logprobs": _FLOATS,
    "trainer_logprobs": _FLOATS,
    "entropies": _FLOATS,
}
_AFTER_REWARDS = {
    "reward": pa.float64(),
    "advantage": pa.float64(),
    "credit": _FLOATS,
    "token_advantages": _FLOATS,
    "verdict": _TEXT,
    "error_class": _TEXT,
    "finish_reason": _TEXT,
    "spans": pa.list_(_SPAN),
    "timings": pa.map_(pa.string(), pa.float64()),
    "extra": _TEXT,
}


def write_rollouts(
    run_folder: Path,
    step: int,
    groups: Sequence[Group],
    *,
    rewards_total: Sequence[float] | np.ndarray,
    advantages: Sequence[float] | np.ndarray,
    trainer_logprobs: Sequence[np.ndarray] | np.ndarray,
    entropies: Sequence[np.ndarray] | np.ndarray,
    credit: Sequence[np.ndarray] | np.ndarray | None = None,
    token_advantages: Sequence[np.ndarray] | np.ndarray | None = None,
    left_out: Sequence[Group] = (),
    left_out_total: Sequence[float] | np.ndarray = (),
) -> Path:
    """Writes the part of one step; an older part of the step is replaced.

    Args:
      run_folder: Folder of the run.
      step: As in the metric log: updates made when the step ended.
      groups: Scored groups. The rows below are theirs, completion after completion.
      rewards_total: Weighted sum of rewards per row; NaN abstains.
      advantages: One per row.
      trainer_logprobs: Nats, per row one per token; what follows is ignored.
      entropies: Nats, likewise.
      credit: Share of the advantage per token, likewise; None is uniform.
      token_advantages: Advantage per token, likewise, where steps have advantages of
        their own; None where they have not.
      left_out: Scored groups of the step that nothing was learnt from. Their rows
        follow, with null for what learning would have told.
      left_out_total: Weighted sum of rewards of their rows.

    Returns:
      Path of the part.
    """
    table = rollout_rows(
        step,
        groups,
        rewards_total=rewards_total,
        advantages=advantages,
        trainer_logprobs=trainer_logprobs,
        entropies=entropies,
        credit=credit,
        token_advantages=token_advantages,
    )
    others = rollout_rows(
        step, left_out, rewards_total=left_out_total, first_group_id=len(groups)
    )
    if others.num_rows:
        table = pa.concat_tables([table, others], promote_options="default")
    path = run_folder / FOLDER_NAME / f"step_{step:06d}.parquet"
    write_part(table, path)
    return path


def rollout_rows(
    step: int,
    groups: Sequence[Group],
    *,
    rewards_total: Sequence[float] | np.ndarray | None = None,
    advantages: Sequence[float] | np.ndarray | None = None,
    trainer_logprobs: Sequence[np.ndarray] | np.ndarray | None = None,
    entropies: Sequence[np.ndarray] | np.ndarray | None = None,
    credit: Sequence[np.ndarray] | np.ndarray | None = None,
    token_advantages: Sequence[np.ndarray] | np.ndarray | None = None,
    first_group_id: int = 0,
) -> pa.Table:
    """Returns scored groups as rows of the table; arguments as for `write_rollouts`.

    A value that does not exist is null: a reward that abstained, the total of a row
    that abstained, the verdict of a row that no judge saw, uniform credit, and what is
    not given because nothing was learnt from the groups. Half of a surrogate pair,
    which no UTF-8 file can hold, becomes U+FFFD: one character for one, so that offsets
    and spans stay right.
    """
    completions = [item for group in groups for item in group.completions]
    absent = [None] * len(completions)
    columns = _columns_of_groups(step, groups, first_group_id)
    columns["offsets"] = _offsets(completions)
    columns["reward"] = (
        absent if rewards_total is None else [_null_if_nan(v) for v in rewards_total]
    )
    columns["advantage"] = (
        absent if advantages is None else [float(value) for value in advantages]
    )
    of_tokens = {
        "trainer_logprobs": trainer_logprobs,
        "entropies": entropies,
        "credit": credit,
        "token_advantages": token_advantages,
    }
    for name, values in of_tokens.items():
        columns[name] = absent if values is None else _cut(values, completions)
    lengths = {name: len(values) for name, values in columns.items()}
    assert set(lengths.values()) == {len(completions)}, (
        f"columns of {len(completions)} completions have other lengths: {lengths}"
    )
    schema = _schema([name for name in columns if name.startswith("reward/")])
    return pa.table(
        {name: columns.get(name, []) for name in schema.names}, schema=schema
    )


def write_harvest(run_folder: Path, step: int, groups: Sequence[Group]) -> Path:
    """Writes what a phase of imitation learns from; an older part is replaced.

    Args:
      run_folder: Folder of the run.
      step: Steps made before.
      groups: Scored groups of right completions.

    Returns:
      Path of the part.
    """
    path = run_folder / HARVEST_FOLDER / f"step_{step:06d}.parquet"
    write_part(rollout_rows(step, groups), path)
    return path


def write_part(table: pa.Table, path: Path) -> None:
    """Writes a part so that it is there whole or not at all.

    Args:
      table: From `rollout_rows`.
      path: Of the part; its folder is made if missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd")
    os.replace(temporary, path)


def drop_after(run_folder: Path, step: int) -> None:
    """Removes the parts of later steps, and what an interrupted write left."""
    for folder in (run_folder / FOLDER_NAME, run_folder / HARVEST_FOLDER):
        for part_step, path in _parts(folder):
            if part_step > step:
                path.unlink()
        for path in folder.glob(".step_*.tmp"):
            path.unlink()


def read_rollouts(run_folder: Path, steps: Iterable[int] | None = None) -> pa.Table:
    """Returns the rows of some steps, or of all, in order of step.

    Args:
      run_folder: Folder of the run.
      steps: Steps to read; None reads all there are.

    Returns:
      One table. A reward that some steps do not have is null there.

    Raises:
      ValueError: A step has no part, or another version wrote it.
    """
    parts = dict(_parts(run_folder / FOLDER_NAME))
    wanted = sorted(parts) if steps is None else sorted(set(steps))
    absent = [step for step in wanted if step not in parts]
    if absent:
        raise ValueError(
            f"no rollouts of steps {absent} in {run_folder / FOLDER_NAME}. "
            f"There are {len(parts)} steps, the last is {max(parts, default=None)}."
        )
    if not wanted:
        return _schema([]).empty_table()
    tables = [read_part(parts[step]) for step in wanted]
    return pa.concat_tables(tables, promote_options="default")


def read_part(path: Path) -> pa.Table:
    """Returns the rows of one part.

    Raises:
      ValueError: Another version wrote it.
    """
    # Not read_table: it takes a folder named a=b above for a column.
    with pq.ParquetFile(path) as file:
        table = file.read()
    version = (table.schema.metadata or {}).get(b"schema_version", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise ValueError(
            f"{path} has schema version {version}, this jaxgrpo reads "
            f"{SCHEMA_VERSION}. Read it with the version that wrote it."
        )
    return table


def _columns_of_groups(
    step: int, groups: Sequence[Group], first_group_id: int
) -> dict[str, Any]:
    rows = [
        _row(group_id, group, _prompts_by_variant(group), completion, score)
        for group_id, group in enumerate(groups, start=first_group_id)
        for completion, score in zip(group.completions, group.scores, strict=True)
    ]
    names = {name: None for row in rows for name in row}
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {"step": [step] * len(rows)} | columns


def _row(
    group_id: int,
    group: Group,
    prompts: Mapping[str, Prompt],
    completion: Completion,
    score: Score,
) -> dict[str, Any]:
    variant = completion.prompt_variant
    problem_id = clean(completion.problem_id)
    verdict = score.verdict
    return {
        "policy_step": completion.policy_step,
        "problem_id": problem_id,
        "prompt_id": f"{problem_id}#{clean(variant)}" if variant else problem_id,
        "prompt_variant": clean(variant),
        "group_id": group_id,
        "sample": completion.sample,
        "tags": _pairs(group.problem.tags, clean),
        "prompt": clean(prompts[variant].text),
        "completion": clean(completion.text),
        "token_ids": completion.token_ids,
        "sampler_logprobs": completion.sampler_logprobs,
        **{
            f"reward/{clean(name)}": _null_if_nan(value)
            for name, value in score.rewards.items()
        },
        "verdict": None if verdict is None else verdict.status,
        "error_class": clean(score.error_class),
        "finish_reason": completion.finish_reason,
        "spans": [
            {"start": span.start, "end": span.end, "label": clean(span.label)}
            for span in score.spans
        ],
        "timings": _pairs(score.timings, float),
        # ASCII JSON escapes what UTF-8 cannot hold. Objects that JSON does not know
        # are shown as text rather than lost.
        "extra": json.dumps(score.extra, default=repr),
    }


def _prompts_by_variant(group: Group) -> dict[str, Prompt]:
    return {prompt.variant: prompt for prompt in group.prompts}


def _pairs(mapping: Mapping[str, Any], convert: Any) -> list[tuple[str, Any]]:
    return [(clean(key), convert(value)) for key, value in mapping.items()]


def clean(text: str) -> str:
    """Returns a text as the table holds it: U+FFFD for half of a surrogate pair."""
    return _SURROGATES.sub("\ufffd", text)


def _offsets(completions: Sequence[Completion]) -> pa.ListArray:
    """Returns the column of token offsets; by way of lists it takes seconds."""
    lengths = [len(completion.token_offsets) for completion in completions]
    pairs = [completion.token_offsets.reshape(-1) for completion in completions]
    flat = np.concatenate([np.zeros(0, np.int32), *pairs]).astype(np.int32)
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = pa.FixedSizeListArray.from_arrays(pa.array(flat), 2)
    return pa.ListArray.from_arrays(pa.array(bounds), values)


def _null_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _cut(
    values: Sequence[np.ndarray] | np.ndarray, completions: Sequence[Completion]
) -> list[np.ndarray]:
    """Returns each row's values up to the completion's length."""
    rows = [np.asarray(row, np.float32) for row in values]
    for row, completion in zip(rows, completions, strict=True):
        assert len(row) >= len(completion.token_ids), (
            f"{len(row)} values for {len(completion.token_ids)} tokens of a completion "
            f"of problem {completion.problem_id!r}"
        )
    return [
        row[: len(completion.token_ids)]
        for row, completion in zip(rows, completions, strict=True)
    ]


def _schema(reward_names: Iterable[str]) -> pa.Schema:
    fields = (
        _BEFORE_REWARDS | {name: pa.float64() for name in reward_names} | _AFTER_REWARDS
    )
    metadata = {"schema_version": str(SCHEMA_VERSION)}
    return pa.schema(list(fields.items()), metadata=metadata)


def _parts(folder: Path) -> list[tuple[int, Path]]:
    if not folder.exists():
        return []
    named = [(_PART_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in named if match)
