import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.problems.pass_rates import (
    PassRate,
    Provenance,
    read_pass_rates,
    row_of,
    write_parquet,
)

PROVENANCE = Provenance(
    source="runs/a",
    step=40,
    weights=7,
    dataset="mbpp",
    split="train",
    num_samples=8,
    temperature=0.6,
    max_new_tokens=512,
    seed=3,
    settings="abc",
)
RATES = [
    PassRate(
        problem_id=f"mbpp/{i}",
        num_judged=8 if i else 0,
        num_passed=i,
        num_cut=1,
        mean_tokens=12.5,
    )
    for i in range(3)
]


def lines_of(rates: list[PassRate], **changes: Any) -> str:
    provenance = replace(PROVENANCE, **changes)
    rows = [row_of(rate, provenance) for rate in rates]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_row_says_all_about_itself():
    assert row_of(RATES[2], PROVENANCE) == {
        "problem_id": "mbpp/2",
        "num_judged": 8,
        "num_passed": 2,
        "num_cut": 1,
        "mean_tokens": 12.5,
        "pass_rate": 0.25,
        "source": "runs/a",
        "step": 40,
        "weights": 7,
        "dataset": "mbpp",
        "split": "train",
        "num_samples": 8,
        "temperature": 0.6,
        "max_new_tokens": 512,
        "seed": 3,
        "settings": "abc",
    }
    assert row_of(RATES[0], PROVENANCE)["pass_rate"] is None


def test_files_of_both_kinds_read_back(tmp_path: Path):
    lines, table = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    lines.write_text(lines_of(RATES))
    write_parquet([row_of(rate, PROVENANCE) for rate in RATES], table)
    assert read_pass_rates(lines) == (RATES, PROVENANCE)
    assert read_pass_rates(table) == (RATES, PROVENANCE)


def test_line_that_was_not_written_to_its_end_is_left_out(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text(lines_of(RATES)[:-20])
    assert read_pass_rates(path)[0] == RATES[:-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no pass rates. Measure some"),
        ("{\n", "line 1: no JSON"),
        ("[]\n", "line 1: list, not an object"),
        ('{"problem_id": "a"}\n', "row 1: no 'source'"),
        (lines_of(RATES[:1]).replace("num_cut", "cut"), "row 1: no 'num_cut'"),
        (lines_of(RATES[:1]) * 2, "row 2: problem 'mbpp/0' came before"),
        (lines_of(RATES[:1]) + lines_of(RATES[1:], seed=4), "row 2 was measured with"),
    ],
)
def test_file_of_something_else_is_refused(tmp_path: Path, text: str, words: str):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        read_pass_rates(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="no such file. Measure pass rates first"):
        read_pass_rates(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match=r"ends in neither .jsonl nor .parquet"):
        read_pass_rates(tmp_path / "a.csv")
    (tmp_path / "a.parquet").write_text("?")
    with pytest.raises(ValueError, match="no Parquet"):
        read_pass_rates(tmp_path / "a.parquet")
