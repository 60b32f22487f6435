"""Settings of every test: eight fake CPU devices, strict shapes, one thread.

They are made before jax is imported anywhere, also in child processes.
"""

import os
import signal
import tempfile
from importlib.metadata import version

# A shell starts what it runs in the background with interrupts ignored, and children
# inherit that; tests of Ctrl-C need the usual handling.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests' own caches: what is compiled once serves the whole session, and nothing
# is read from or left in the user's folders.
_CACHE_FOLDER = tempfile.TemporaryDirectory(prefix="jaxgrpo-tests-")

os.environ.update(
    JAX_PLATFORMS="cpu",
    JAX_NUM_CPU_DEVICES="8",
    JAX_NUMPY_RANK_PROMOTION="raise",
    JAX_COMPILATION_CACHE_DIR=os.path.join(_CACHE_FOLDER.name, "jax"),
    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0.5",
    OMP_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_NO_ADVISORY_WARNINGS="1",
    TOKENIZERS_PARALLELISM="false",
    WANDB_MODE="offline",
    TF_CPP_MIN_LOG_LEVEL="2",
    # Programs are compiled far more often than run here: this compiles 5 times faster.
    JAX_DISABLE_MOST_OPTIMIZATIONS="1",
)
if version("jaxlib").startswith("0.10."):  # later versions have no such flag
    os.environ["XLA_FLAGS"] = " ".join(
        [os.environ.get("XLA_FLAGS", ""), "--xla_cpu_use_fusion_emitters=false"]
    ).strip()

from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# The same examples in every run: a test passes or fails by the code, not by luck.
# `HYPOTHESIS_PROFILE=explore pytest` draws new ones.
settings.register_profile("repeat", derandomize=True, print_blob=True)
settings.register_profile("explore", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

collect_ignore_glob = ["golden/make_*.py", "golden/check_*.py"]
"""Scripts that need torch or TRL; run by hand, their results are stored."""


@pytest.fixture
def key() -> Any:
    """A random key, the same for every test."""
    import jax

    return jax.random.key(0)


@pytest.fixture(scope="session")
def session_cache() -> Path:
    """A folder for what several tests prepare once, such as a data set."""
    return Path(_CACHE_FOLDER.name)


def pytest_unconfigure() -> None:
    """Removes the session's folders."""
    _CACHE_FOLDER.cleanup()
