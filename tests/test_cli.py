"""The command line: help, one-line errors, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import jaxgrpo
from jaxgrpo.cli import app
from jaxgrpo.cli_errors import one_line_errors
from jaxgrpo.config_fields import config_fields
from jaxgrpo.config_loading import find_config, shipped_configs

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text('[model]\ncheckpoint = "builtin:base"\n[rewards.exact]\n')
    return path


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jaxgrpo.cli", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def test_misspelt_field_exits_2_with_one_line(config_file: Path):
    done = run_process("train", str(config_file), "optimizer.lerning_rate=1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "optimizer.learning_rate?" in done.stderr


def test_help_loads_neither_jax_nor_pydantic():
    code = (
        "import sys, json\n"
        "from jaxgrpo.cli import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "train" in done.stdout
    loaded = {name.split(".")[0] for name in json.loads(done.stderr)}
    assert not loaded & {"jax", "numpy", "pydantic", "transformers", "wandb"}


def test_help_of_train_fits_and_shows_every_field():
    shown = CliRunner().invoke(app, ["train", "--help"]).output
    assert max(map(len, shown.splitlines())) <= 80
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for field in config_fields():
        default = f"= {field.default}" if field.default else "(required)"
        start = f"{field.key} {default} {field.expected}"
        assert any(line and start.startswith(line[:70]) for line in lines), start


def test_every_field_has_a_meaning():
    for field in config_fields():
        assert len(field.meaning) > 10, field.name


def test_version_is_printed():
    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"jaxgrpo {jaxgrpo.__version__}\n"


def test_unknown_config_exits_2_with_one_line():
    result = CliRunner().invoke(app, ["train", "no-such-config"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("jaxgrpo: no-such-config: no such file.")


def test_configs_lists_the_shipped_ones():
    result = CliRunner().invoke(app, ["configs"])
    assert [line.split()[0] for line in result.output.splitlines()] == list(
        shipped_configs()
    )


def test_two_prompts_are_refused(tmp_path: Path):
    result = CliRunner().invoke(app, ["sample", "x", "hello", "--file", "prompt.txt"])
    assert result.exit_code == 2
    assert "both a prompt and --file" in result.stderr


def test_unreadable_prompt_file_is_one_line(tmp_path: Path):
    absent = str(tmp_path / "absent.txt")
    result = CliRunner().invoke(app, ["sample", "x", "--file", absent])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_interrupt_exits_130_and_says_how_to_go_on(capsys: pytest.CaptureFixture):
    with pytest.raises(typer.Exit) as caught, one_line_errors("Go on so."):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "jaxgrpo: interrupted. Go on so.\n"


def test_own_value_error_becomes_one_line(capsys: pytest.CaptureFixture):
    with pytest.raises(typer.Exit) as caught, one_line_errors(""):
        find_config("no-such-config")
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err.startswith("jaxgrpo: no-such-config")


def test_foreign_value_error_keeps_its_traceback():
    with pytest.raises(ValueError, match="invalid literal"), one_line_errors(""):
        int("x")


def test_own_value_error_keeps_its_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("JAXGRPO_TRACEBACK", "1")
    with pytest.raises(ValueError, match="no such file"), one_line_errors(""):
        find_config("no-such-config")
