"""The wheel, built for real: what it carries, and that it works without the clone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import jaxgrpo
from jaxgrpo.config_loading import shipped_configs

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    done = subprocess.run(
        [*command, "--outdir", str(folder), str(REPOSITORY)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_wheel_has_the_version_of_the_package(wheel: Path):
    assert wheel.name.startswith(f"jaxgrpo-{jaxgrpo.__version__}-py3-none-any")


def test_wheel_carries_every_config(names: list[str]):
    in_clone = {
        f"jaxgrpo/{path.relative_to(REPOSITORY).as_posix()}"
        for path in REPOSITORY.glob("configs/**/*.toml")
    }
    assert in_clone
    assert in_clone <= set(names)


def test_wheel_carries_every_asset_and_module(names: list[str]):
    package = REPOSITORY / "jaxgrpo"
    in_clone = {
        path.relative_to(REPOSITORY).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.startswith("jaxgrpo/assets/") for name in in_clone)
    assert in_clone <= set(names)


def test_wheel_carries_nothing_but_the_package(names: list[str]):
    folders = {name.split("/")[0] for name in names}
    assert folders == {"jaxgrpo", f"jaxgrpo-{jaxgrpo.__version__}.dist-info"}


def test_wheel_carries_the_licence(names: list[str]):
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)


def test_unpacked_wheel_finds_its_configs(wheel: Path, tmp_path: Path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-m", "jaxgrpo.cli", "configs"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(shipped_configs())
    assert all(str(tmp_path / "site") in line for line in lines)
