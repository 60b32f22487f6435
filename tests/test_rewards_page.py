"""docs/rewards.md against the registry, and its examples as a user would run them."""

import dataclasses
import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jaxgrpo.cli import app
from jaxgrpo.config import Config
from jaxgrpo.host.rewards import reward_names, settings_class

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "rewards.md").read_text(encoding="utf-8")
EXAMPLE = REPOSITORY / "examples" / "reward_functions.py"
_ROW = re.compile(r"^\| `(\w+)` \|.*\| ((?:`\w+`(?:, )?)*) ?\| [^|]*\|$", re.MULTILINE)
TABLES = [
    block
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    if "[rewards." in block
]
FIELDS = {name: re.findall(r"\w+", fields) for name, fields in _ROW.findall(PAGE)}


@pytest.mark.parametrize("name", reward_names())
def test_every_reward_has_its_row_and_fields(name: str):
    fields = [field.name for field in dataclasses.fields(settings_class(name))]
    assert FIELDS[name] == fields


@pytest.mark.parametrize("block", TABLES)
def test_tables_of_the_page_load(block: str):
    data = tomllib.loads(block)
    data["rewards"].setdefault("exact", {})
    model = {"checkpoint": "builtin:base"}
    config = Config.model_validate({"model": model, "run": {"num_steps": 500}, **data})
    assert config.rewards.keys() == data["rewards"].keys()


def test_schedules_of_the_page_load():
    lines = re.findall(r"^schedule = .*$", PAGE, re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        rewards = {"exact": tomllib.loads(line) | {"weight": 0.5}}
        Config.model_validate(
            {
                "model": {"checkpoint": "builtin:base"},
                "run": {"num_steps": 500},
                "rewards": rewards,
            }
        )


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    problem = {"id": "a", "kind": "output", "prompt": "6 * 7?", "reference": "42"}
    texts = ("42", "It is 42.", "41")
    rows = [{"problem_id": "a", "text": text} for text in texts]
    (tmp_path / "p.jsonl").write_text(json.dumps(problem) + "\n")
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(tmp_path / "p.jsonl"), str(tmp_path / "c.jsonl")


def test_example_functions_say_what_they_promise(
    files: tuple[str, str], tmp_path: Path
):
    out = tmp_path / "scores.jsonl"
    done = CliRunner().invoke(
        app,
        [
            *("score", *files, "--out", str(out)),
            *("--reward", f"{EXAMPLE}:mentions_the_answer"),
            *("--reward", f"{EXAMPLE}:compute_score"),
            *("--reward", "exact", "rewards.compute_score.style=verl"),
        ],
    )
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    rewards = [row["rewards"] for row in rows]
    assert [r["mentions_the_answer"] for r in rewards] == [1.0, 1.0, 0.0]
    assert [r["compute_score"] for r in rewards] == [1.0, 0.0, 0.0]
    assert [r["exact"] for r in rewards] == [1.0, 0.0, 0.0]
    assert rows[1]["extra"] == {"mentions_it": True, "last_line": "It is 42."}
    assert "| mentions_the_answer |" in done.output
