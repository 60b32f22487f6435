"""Settings of the process, seen by jax in a fresh one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgrpo.process import prepare_process

REPOSITORY = Path(__file__).parents[1]
SHOW = "import jax; print(jax.config.jax_compilation_cache_dir)"


def cache_seen_by_jax(code: str, **variables: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env=kept | {"JAX_PLATFORMS": "cpu"} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_compiled_programs_are_cached_by_default(tmp_path: Path):
    code = f"from jaxgrpo.process import prepare_process; prepare_process(); {SHOW}"
    folder = cache_seen_by_jax(code, HOME=str(tmp_path))
    assert folder == str(tmp_path / ".cache" / "jaxgrpo" / "jax")


def test_the_users_own_setting_is_kept(tmp_path: Path):
    code = f"from jaxgrpo.process import prepare_process; prepare_process(); {SHOW}"
    folder = cache_seen_by_jax(code, JAX_COMPILATION_CACHE_DIR=str(tmp_path))
    assert folder == str(tmp_path)


def test_coming_too_late_is_noticed():
    import jax  # noqa: F401

    with pytest.raises(AssertionError, match="before jax is imported"):
        prepare_process()
