"""Rewards without a run: which are computed, and what is shown of them."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jaxgrpo.cli import app
from jaxgrpo.host.records import Score
from jaxgrpo.score_rewards import chosen, completions_table, reward_table

CONFIG = """
[model]
checkpoint = "builtin:base"
[guard]
mode = "off"
[rewards.exact]
weight = 0.0
[rewards.near]
kind = "similarity"
gate = "exact"
[rewards.entropy]
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "run.toml"
    path.write_text(CONFIG)
    return str(path)


def test_nothing_is_computed_unasked():
    assert chosen([]).rewards == {}


def test_names_and_functions_are_taken_with_their_defaults():
    choice = chosen(["tests", "a/b.py:Mine.f"], overrides=["rewards.f.timeout_s=3"])
    assert choice.shown == ("tests", "f")
    assert choice.rewards["f"].settings.function == "a/b.py:Mine.f"
    assert choice.rewards["f"].settings.timeout_s == 3.0


def test_overrides_ask_for_the_rewards_they_name():
    choice = chosen(
        [], overrides=["rewards.long.kind=overlong", "scorer.num_workers=3"]
    )
    assert choice.shown == ("long",)
    assert choice.scorer.num_workers == 3


def test_all_rewards_of_a_configuration_are_taken_but_those_of_the_device(config: str):
    choice = chosen([], config)
    assert choice.shown == ("exact", "near")
    assert choice.left_out == ("entropy",)


def test_gate_is_computed_though_it_is_not_shown(config: str):
    choice = chosen(["near"], config)
    assert choice.shown == ("near",)
    assert list(choice.rewards) == ["exact", "near"]


@pytest.mark.parametrize(
    ("names", "overrides", "message"),
    [
        (["exct"], [], "--reward exct: no such reward. Did you mean exact?"),
        (["entropy"], [], "--reward entropy needs a model"),
        (["exact"], ["rewards.exact.wieght=1"], "Did you mean rewards.exact.weight?"),
        (["exact"], ["run.seed=1"], "'run.seed=1' has no effect on scoring"),
    ],
)
def test_what_cannot_be_had_is_refused(
    names: list[str], overrides: list[str], message: str
):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        chosen(names, overrides=overrides)
    assert message in str(caught.value)


def test_tables_show_values_and_failures():
    scores = [
        Score(rewards={"a": 1.0}),
        Score(rewards={"a": 0.0}),
        Score(rewards={"a": math.nan}, failures={"a": "no"}, abstain_reason="a: no"),
    ]
    header, (row,) = reward_table(scores, ["a"])
    assert dict(zip(header, row, strict=True)) == {
        "reward": "a", "mean": "0.5", "std": "0.7071", "min": "0", "max": "1",
        "abstained": "1", "failed": "1", "ms each": "0",
    }  # fmt: skip
    _, rows = completions_table(scores, ["x | y", "long " * 20, "z"], ["a"])
    assert rows[0] == ("1", "x ¦ y", "")
    assert rows[1][1].endswith("...")
    assert rows[2] == ("-", "z", "a: no")


def test_completions_of_a_problem_are_one_group(tmp_path: Path):
    # Of ten answers seven agree: with groups of eight another one would win.
    texts = ["1"] * 5 + ["2"] * 3 + ["1"] * 2
    problem = {"id": "p", "kind": "output", "reference": "3"}
    rows = [{"problem_id": "p", "text": text} for text in texts]
    (tmp_path / "p.jsonl").write_text(json.dumps(problem) + "\n")
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out.parquet"
    done = CliRunner().invoke(
        app,
        [
            *("score", str(tmp_path / "p.jsonl"), str(tmp_path / "c.jsonl")),
            *("--reward", "empo", "--out", str(out)),
        ],
    )
    assert done.exit_code == 0, done.output
    from pyarrow import parquet

    found = parquet.read_table(out).to_pylist()
    shares = [dict(row["rewards"])["empo"] for row in found]
    assert shares == pytest.approx([0.7] * 5 + [0.3] * 3 + [0.7] * 2)
    assert "answer_entropy" in found[0]["extra"]
