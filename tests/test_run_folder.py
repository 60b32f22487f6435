import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import jaxgrpo.run_folder
from jaxgrpo.run_folder import RunFolder, environment

CONFIG: dict[str, Any] = {
    "run": {"mode": "grpo", "num_steps": 100},
    "optimizer": {"learning_rate": 1e-6},
    "evaluation": {"pass_at": (1, 4, 8)},
    "supervised": {"stages": ({"name": "a", "num_steps": 5}, {"name": "b"})},
}


def changed(table: str, **fields: Any) -> dict[str, Any]:
    return CONFIG | {table: CONFIG[table] | fields}


def test_creates_the_folder_and_keeps_the_config(tmp_path):
    with RunFolder(tmp_path / "runs" / "new") as folder:
        folder.adopt_config(CONFIG)
    stored = tomllib.loads((tmp_path / "runs" / "new" / "config.toml").read_text())
    assert stored["optimizer"] == {"learning_rate": 1e-6}
    assert stored["evaluation"]["pass_at"] == [1, 4, 8]


def test_the_same_config_continues(tmp_path):
    for _ in range(2):
        with RunFolder(tmp_path) as folder:
            folder.adopt_config(CONFIG)


def test_a_run_that_was_refused_before_it_began_makes_room(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "kept_problems.json").write_text("{}")
    for rate in (1e-6, 3e-4):
        with RunFolder(tmp_path) as folder:
            assert not folder.has_begun
            folder.adopt_config(changed("optimizer", learning_rate=rate))
    stored = tomllib.loads((tmp_path / "config.toml").read_text())
    assert stored["optimizer"] == {"learning_rate": 3e-4}
    assert not (tmp_path / "kept_problems.json").exists()


def begin(path: Path) -> None:
    (path / "metrics.jsonl").write_text("{}\n")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            changed("optimizer", learning_rate=3e-4),
            "holds a run with optimizer.learning_rate = 1e-06, and now it is 0.0003",
        ),
        (changed("run", num_steps=99), "run.num_steps = 100, and now it is 99"),
        (
            changed("run", num_steps=200, mode="x"),
            'run.mode = "grpo", and now it is "x"',
        ),
        (changed("run", extra=True), "with no run.extra, and now it is true"),
        (
            changed(
                "supervised", stages=({"name": "a", "num_steps": 6}, {"name": "b"})
            ),
            "supervised.stages.0.num_steps = 5, and now it is 6",
        ),
        (
            {name: CONFIG[name] for name in CONFIG if name != "optimizer"},
            "optimizer.learning_rate = 1e-06, and now it is absent",
        ),
        (
            changed("evaluation", pass_at=(1, 4)),
            r"pass_at = [1, 4, 8], and now it is [1",
        ),
    ],
)
def test_another_config_is_refused_naming_the_field(tmp_path, config, message):
    with RunFolder(tmp_path) as folder:
        folder.adopt_config(CONFIG)
        begin(tmp_path)
        with pytest.raises(ValueError) as caught:
            folder.adopt_config(config)
    assert message in str(caught.value)
    assert tomllib.loads((tmp_path / "config.toml").read_text())["run"] == CONFIG["run"]


def test_the_number_of_steps_may_grow(tmp_path):
    with RunFolder(tmp_path) as folder:
        folder.adopt_config(CONFIG)
        begin(tmp_path)
        folder.adopt_config(changed("run", num_steps=300))
    stored = tomllib.loads((tmp_path / "config.toml").read_text())
    assert stored["run"]["num_steps"] == 300


def test_fields_that_change_no_result_may_differ(tmp_path):
    first = CONFIG | {"log": {"wandb": "offline"}, "checkpoint": {"keep": 2}}
    second = CONFIG | {"log": {"wandb": "disabled"}, "checkpoint": {"keep": 3}}
    with RunFolder(tmp_path) as folder:
        folder.adopt_config(first)
        begin(tmp_path)
        folder.adopt_config(second)
    stored = tomllib.loads((tmp_path / "config.toml").read_text())
    assert stored["log"] == {"wandb": "disabled"}
    assert stored["checkpoint"] == {"keep": 3}


def test_the_summary_finishes_the_run(tmp_path):
    with RunFolder(tmp_path) as folder:
        assert not folder.is_finished
        folder.write_summary({"exact_match": 0.5})
        assert folder.is_finished
        assert folder.read_summary() == {"exact_match": 0.5}


def test_a_finished_run_that_grows_keeps_its_first_summary(tmp_path):
    with RunFolder(tmp_path) as folder:
        folder.adopt_config(CONFIG)
        folder.write_summary({"exact_match": 0.5})
        folder.adopt_config(changed("run", num_steps=300))
        assert not folder.is_finished
    kept = json.loads((tmp_path / "summary_100_steps.json").read_text())
    assert kept == {"exact_match": 0.5}


def test_a_summary_that_cannot_be_written_leaves_the_run_unfinished(tmp_path):
    with RunFolder(tmp_path) as folder:
        with pytest.raises(TypeError):
            folder.write_summary({"exact_match": object()})
        assert not folder.is_finished


def test_numbers_that_json_lacks_are_null_in_the_summary(tmp_path):
    with RunFolder(tmp_path) as folder:
        folder.write_summary({"a": [float("nan"), 1.0], "b": {"c": float("inf")}})
        assert folder.read_summary() == {"a": [None, 1.0], "b": {"c": None}}


def test_two_holders_at_once_are_refused_naming_the_first(tmp_path):
    with RunFolder(tmp_path):
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()}"):
            RunFolder(tmp_path)
    RunFolder(tmp_path).close()


def test_a_killed_holder_lets_go(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from jaxgrpo.run_folder import RunFolder\n"
        "folder = RunFolder(Path(sys.argv[1])); print('held', flush=True)\n"
        "time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(ValueError, match=f"in use by process {child.pid}"):
        RunFolder(tmp_path)
    child.kill()
    child.wait()
    child.stdout.close()
    RunFolder(tmp_path).close()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        RunFolder(tmp_path / "run")


def test_the_environment_is_plain_data(tmp_path):
    found = environment(["cpu:0"])
    assert json.loads(json.dumps(found)) == found
    assert found["devices"] == ["cpu:0"]
    assert found["versions"]["jax"][0].isdigit()
    assert found["num_cpu_cores"] >= 1


def test_the_commit_is_that_of_the_clone(tmp_path, monkeypatch):
    package = tmp_path / "jaxgrpo"
    package.mkdir()
    monkeypatch.setattr(jaxgrpo.run_folder, "__file__", str(package / "run_folder.py"))
    assert environment([])["git_commit"] is None

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout

    git("init")
    (package / "run_folder.py").write_text("a")
    git("add", ".")
    git("commit", "-m", "first")
    assert environment([])["git_commit"] == git("rev-parse", "HEAD").strip()
    assert environment([])["git_is_clean"] is True
    (package / "run_folder.py").write_text("b")
    assert environment([])["git_is_clean"] is False
