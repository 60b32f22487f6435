import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxgrpo.host.records import (
    Completion,
    Group,
    Problem,
    Prompt,
    Score,
    Span,
    Verdict,
)
from jaxgrpo.rollout_table import drop_after, read_rollouts, write_rollouts

COLUMNS = [
    "step", "policy_step", "problem_id", "prompt_id", "prompt_variant", "group_id",
    "sample", "tags", "prompt", "completion", "token_ids", "offsets",
    "sampler_logprobs", "trainer_logprobs", "entropies", "reward/exact",
    "reward/format", "reward", "advantage", "credit", "token_advantages", "verdict",
    "error_class", "finish_reason", "spans", "timings", "extra",
]  # fmt: skip


def make_completion(text: str, *, sample: int = 0, variant: str = "") -> Completion:
    num_tokens = len(text) + 1
    starts = np.arange(num_tokens)
    return Completion(
        problem_id="p/1",
        prompt_variant=variant,
        token_ids=starts.astype(np.int32) + 100,
        text=text,
        token_offsets=np.minimum(
            np.stack([starts, starts + 1], axis=1), len(text)
        ).astype(np.int32),
        finish_reason="eos",
        sampler_logprobs=-np.linspace(0.1, 0.9, num_tokens, dtype=np.float32),
        policy_step=6,
        sample=sample,
    )


def make_score(**changes: Any) -> Score:
    settings: dict[str, Any] = {
        "rewards": {"exact": 1.0, "format": float("nan")},
        "verdict": Verdict(status="WA", error_class="wrong_value"),
        "error_class": "wrong_value",
        "spans": (Span(start=0, end=1, label="value"),),
        "timings": {"judge": 0.25},
        "extra": {"note": [1, "a"]},
    }
    return Score(**(settings | changes))


def make_group(
    texts: Sequence[str] = ("ab", "c"),
    *,
    scores: Sequence[Score] | None = None,
    variant: str = "",
    prompt: str = "question",
) -> Group:
    return Group(
        problem=Problem(
            id="p/1", kind="output", prompt="q", reference="a", tags={"type": "int"}
        ),
        prompts=(
            Prompt(
                problem_id="p/1",
                variant=variant,
                text=prompt,
                token_ids=np.zeros(3, np.int32),
            ),
        ),
        completions=tuple(
            make_completion(text, sample=i, variant=variant)
            for i, text in enumerate(texts)
        ),
        scores=tuple(scores or [make_score() for _ in texts]),
    )


def write(folder: Path, step: int, groups: Sequence[Group], **changes: Any) -> Path:
    num_rows = sum(len(group.completions) for group in groups)
    settings: dict[str, Any] = {
        "rewards_total": np.linspace(0.0, 1.0, num_rows),
        "advantages": np.linspace(-1.0, 1.0, num_rows),
        "trainer_logprobs": np.full((num_rows, 16), -0.5, np.float32),
        "entropies": np.full((num_rows, 16), 0.25, np.float32),
    }
    return write_rollouts(folder, step, groups, **(settings | changes))


def test_columns_stand_in_the_documented_order(tmp_path):
    write(tmp_path, 7, [make_group()])
    assert read_rollouts(tmp_path).column_names == COLUMNS


def test_a_row_comes_back(tmp_path):
    write(tmp_path, 7, [make_group(), make_group(["xyz"], variant="hint-2")])
    row = read_rollouts(tmp_path).to_pylist()[2]
    assert row.pop("trainer_logprobs") == [-0.5] * 4
    assert row.pop("entropies") == [0.25] * 4
    logprobs = row.pop("sampler_logprobs")
    expected = make_completion("xyz").sampler_logprobs
    assert np.asarray(logprobs, np.float32).tobytes() == expected.tobytes()
    assert row == {
        "step": 7,
        "policy_step": 6,
        "problem_id": "p/1",
        "prompt_id": "p/1#hint-2",
        "prompt_variant": "hint-2",
        "group_id": 1,
        "sample": 0,
        "tags": [("type", "int")],
        "prompt": "question",
        "completion": "xyz",
        "token_ids": [100, 101, 102, 103],
        "offsets": [[0, 1], [1, 2], [2, 3], [3, 3]],
        "reward/exact": 1.0,
        "reward/format": None,
        "reward": 1.0,
        "advantage": 1.0,
        "credit": None,
        "token_advantages": None,
        "verdict": "WA",
        "error_class": "wrong_value",
        "finish_reason": "eos",
        "spans": [{"start": 0, "end": 1, "label": "value"}],
        "timings": [("judge", 0.25)],
        "extra": '{"note": [1, "a"]}',
    }


def test_credit_is_kept_per_token(tmp_path):
    credit = [np.array([0.5, 1.5, 1.0, 9.0]), np.array([2.0, 0.0])]
    write(tmp_path, 1, [make_group()], credit=credit)
    assert read_rollouts(tmp_path)["credit"].to_pylist() == [
        [0.5, 1.5, 1.0],
        [2.0, 0.0],
    ]


def test_an_abstaining_row_has_no_reward(tmp_path):
    write(tmp_path, 1, [make_group()], rewards_total=[float("nan"), 0.5])
    assert read_rollouts(tmp_path)["reward"].to_pylist() == [None, 0.5]


def test_a_row_without_a_judge_has_no_verdict(tmp_path):
    scores = [make_score(verdict=None), make_score()]
    write(tmp_path, 1, [make_group(scores=scores)])
    assert read_rollouts(tmp_path)["verdict"].to_pylist() == [None, "WA"]


def test_text_that_utf8_cannot_hold_keeps_its_length(tmp_path):
    text = "a\ud800b\x00c\udfff😀"
    score = make_score(
        error_class="\ud801",
        spans=(Span(start=0, end=3, label="\udc00"),),
        extra={"stderr": text, "\ud800": {1, 2}},
    )
    write(tmp_path, 1, [make_group([text], scores=[score], prompt=text)])
    (row,) = read_rollouts(tmp_path).to_pylist()
    assert row["completion"] == row["prompt"] == "a\ufffdb\x00c\ufffd😀"
    assert len(row["completion"]) == len(text)
    assert row["error_class"] == row["spans"][0]["label"] == "\ufffd"
    assert json.loads(row["extra"]) == {"stderr": text, "\ud800": "{1, 2}"}


def test_the_file_names_its_schema_version(tmp_path):
    path = write(tmp_path, 123, [make_group()])
    assert path == tmp_path / "rollouts" / "step_000123.parquet"
    assert pq.read_schema(path).metadata[b"schema_version"] == b"1"


def test_advantages_of_tokens_are_kept_where_steps_have_them(tmp_path):
    advantages = np.linspace(-1.0, 1.0, 32, dtype=np.float32).reshape(2, 16)
    write(tmp_path, 1, [make_group()], token_advantages=advantages)
    found = read_rollouts(tmp_path).column("token_advantages").to_pylist()
    assert [np.float32(row).tolist() for row in found] == [
        advantages[0, :3].tolist(),
        advantages[1, :2].tolist(),
    ]


def test_the_names_of_folders_are_not_columns(tmp_path):
    write(tmp_path / "seed=1", 1, [make_group()])
    assert read_rollouts(tmp_path / "seed=1").column_names == COLUMNS


def test_a_part_of_another_version_is_refused(tmp_path):
    path = write(tmp_path, 1, [make_group()])
    table = read_rollouts(tmp_path)
    pq.write_table(table.replace_schema_metadata({"schema_version": "9"}), path)
    with pytest.raises(ValueError, match="schema version 9, this jaxgrpo reads 1"):
        read_rollouts(tmp_path)


def test_a_step_written_again_is_replaced(tmp_path):
    write(tmp_path, 1, [make_group()])
    write(tmp_path, 1, [make_group(["new"])])
    assert read_rollouts(tmp_path)["completion"].to_pylist() == ["new"]
    assert [path.name for path in (tmp_path / "rollouts").iterdir()] == [
        "step_000001.parquet"
    ]


def test_later_parts_and_remains_are_dropped(tmp_path):
    for step in (1, 2, 999_999, 1_000_000):
        write(tmp_path, step, [make_group()])
    (tmp_path / "rollouts" / ".step_000003.parquet.tmp").write_bytes(b"PAR1")
    (tmp_path / "rollouts" / "mine.parquet").write_bytes(b"")
    drop_after(tmp_path, 2)
    names = {path.name for path in (tmp_path / "rollouts").iterdir()}
    assert names == {"step_000001.parquet", "step_000002.parquet", "mine.parquet"}


def test_dropping_before_anything_was_written_does_nothing(tmp_path):
    drop_after(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


def test_steps_are_read_in_order(tmp_path):
    for step in (10, 9, 1_000_000):
        write(tmp_path, step, [make_group(["a"])])
    assert read_rollouts(tmp_path)["step"].to_pylist() == [9, 10, 1_000_000]
    assert read_rollouts(tmp_path, [10])["step"].to_pylist() == [10]


def test_a_step_that_is_not_there_is_named(tmp_path):
    write(tmp_path, 3, [make_group()])
    with pytest.raises(ValueError, match=r"no rollouts of steps \[4\] .* last is 3"):
        read_rollouts(tmp_path, [3, 4])


def test_a_run_without_rollouts_reads_as_an_empty_table(tmp_path):
    table = read_rollouts(tmp_path)
    assert table.num_rows == 0 and "completion" in table.column_names


def test_steps_with_other_rewards_read_as_one_table(tmp_path):
    write(tmp_path, 1, [make_group(["a"])])
    write(tmp_path, 2, [make_group(["a"], scores=[make_score(rewards={"new": 2.0})])])
    table = read_rollouts(tmp_path)
    assert table["reward/exact"].to_pylist() == [1.0, None]
    assert table["reward/new"].to_pylist() == [None, 2.0]


def test_a_step_without_rows_keeps_the_types(tmp_path):
    write(tmp_path, 1, [])
    write(tmp_path, 2, [make_group(["a"])])
    assert read_rollouts(tmp_path)["step"].to_pylist() == [2]


def test_too_few_values_for_the_tokens_are_refused(tmp_path):
    short = np.zeros((2, 1), np.float32)
    with pytest.raises(AssertionError, match="1 values for 3 tokens"):
        write(tmp_path, 1, [make_group()], trainer_logprobs=short)


def test_rows_that_do_not_match_the_groups_are_refused(tmp_path):
    with pytest.raises(AssertionError, match="'advantage': 3"):
        write(tmp_path, 1, [make_group()], advantages=[0.0, 1.0, 2.0])


def test_any_reader_takes_the_folder_as_one_table(tmp_path):
    for step in (1, 2):
        write(tmp_path, step, [make_group()])
    table = pq.ParquetDataset(tmp_path / "rollouts").read(columns=["step", "reward"])
    assert table.num_rows == 4
    assert table.schema.field("reward").type == pa.float64()
