"""`jaxgrpo evaluate` from the command line: what it leaves, and what a kill changes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.measure import measure
from jaxgrpo.rollout_table import read_part
from tests.problems.conftest import SIZES
from tests.test_train import ended, killed_at

REPOSITORY = Path(__file__).parents[1]
BASE = "builtin:output_prediction_base"
CLEAN = "builtin:output_prediction_clean"

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def start(session_cache: Path) -> Command:
    """Returns a function that starts an evaluation of a few problems."""
    sizes = [f"data.{name}={number}" for name, number in SIZES.items()]
    changes = [
        *sizes, f"data.cache_dir={session_cache}", "data.build_workers=1",
        "scorer.num_workers=1", "evaluation.num_problems=16",
        "evaluation.samples_per_problem=4", "evaluation.pass_at=[1,4]",
        "evaluation.batch_problems=2", "evaluation.rare_tag=3",
        "evaluation.resamples=200", "log.console=plain",
    ]  # fmt: skip
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": str(REPOSITORY),
    }

    def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
        folder.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "jaxgrpo.cli", "evaluate", *arguments, *changes],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


OUTPUTS = ("--out", "result.json", "--markdown", "table.md")


@pytest.fixture(scope="module")
def whole(start: Command, tmp_path_factory: Any) -> tuple[Path, str]:
    """An evaluation of two checkpoints that nothing disturbed, and what it printed."""
    folder = tmp_path_factory.mktemp("whole")
    output = ended(start(folder, BASE, "--against", CLEAN, *OUTPUTS))
    return folder, output


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def rows_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The generations of the first checkpoint, without what a clock decides."""
    (kept,) = (folder / "evaluations").glob("builtin-output_prediction_base-*")
    rows = [
        row
        for part in sorted((kept / kind).glob("*.parquet"))
        for row in read_part(part).to_pylist()
    ]
    for row in rows:
        # Order and place in a part depend on which group ended first.
        del row["timings"], row["group_id"]
    return sorted(rows, key=lambda row: (row["problem_id"], row["sample"]))


def test_the_result_holds_both_checkpoints_and_their_difference(whole):
    result = result_of(whole[0])
    own, other = result["evaluation"], result["against"]["evaluation"]
    assert own["num_problems"] == other["num_problems"] == 16
    for entry in (own["exact_match"], own["pass@4"], own["majority@4"]):
        assert entry["low"] <= entry["value"] <= entry["high"]
    difference = result["comparison"]["differences"]["exact_match"]["value"]
    expected = own["exact_match"]["value"] - other["exact_match"]["value"]
    assert difference == pytest.approx(expected)
    flips = result["comparison"]["flips"]
    num_turned = len(flips["wrong_to_right"]) + len(flips["right_to_wrong"])
    assert num_turned + flips["both_right"] + flips["both_wrong"] == 16
    sizes = [e["num_problems"] for e in result["by_tag"]["output_type"].values()]
    assert sum(sizes) == 16


def test_tables_are_printed_and_written(whole):
    folder, output = whole
    page = (folder / "table.md").read_text()
    for text in ("difference", "p, McNemar exact", "by output_type", "majority@4"):
        assert text in output and text in page
    assert f"evaluating {BASE}: 32/32, " in output
    assert "Traceback" not in output and "Warning" not in output


def test_every_generation_is_kept(whole):
    assert len(rows_of(whole[0], "greedy")) == 16
    sampled = rows_of(whole[0], "sampled")
    assert len(sampled) == 16 * 4
    assert {row["sample"] for row in sampled} == {0, 1, 2, 3}


def test_a_killed_evaluation_goes_on_and_ends_with_the_same_bits(
    start, whole, tmp_path
):
    process = start(tmp_path, BASE, "--against", CLEAN, *OUTPUTS)
    # The name of the folder is decided by what is evaluated, and by nothing else.
    (kept,) = (whole[0] / "evaluations").glob("builtin-output_prediction_base-*")
    part = kept.relative_to(whole[0]) / "sampled" / "part_000000.parquet"
    killed_at(process, tmp_path / part)
    num_kept = len(rows_of(tmp_path, "sampled"))
    assert 0 < num_kept
    output = ended(start(tmp_path, BASE, "--against", CLEAN, *OUTPUTS))
    assert (tmp_path / "result.json").read_bytes() == (
        whole[0] / "result.json"
    ).read_bytes()
    assert (tmp_path / "table.md").read_bytes() == (whole[0] / "table.md").read_bytes()
    for kind in ("greedy", "sampled"):
        assert rows_of(tmp_path, kind) == rows_of(whole[0], kind)
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": BASE}, "--against .* Name another one"),
        ({"out": Path("nowhere/result.json")}, "--out .* there is no folder"),
        ({"overrides": ["evaluation.confidence=1.5"]}, "evaluation.confidence = 1.5"),
    ],
)
def test_impossible_wishes_are_refused_before_anything_is_loaded(arguments, message):
    with pytest.raises(ValueError, match=message):
        measure(BASE, **{"overrides": []} | arguments)
