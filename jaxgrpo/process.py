"""Settings of the whole process, made before jax and transformers are imported."""

import os
import sys
from pathlib import Path

CACHE_FOLDER = Path("~/.cache/jaxgrpo").expanduser()


def prepare_process() -> None:
    """Sets what libraries read once, at import. What the user has set is kept.

    Compiled programs are cached on disk, so that a second run, or a resumed one,
    starts without compiling. Nothing is fetched from a model hub: checkpoints and
    tokenizers are folders.

    Raises:
      AssertionError: jax is loaded already, and would not see the settings.
    """
    assert "jax" not in sys.modules, "prepare_process must run before jax is imported"
    defaults = {
        "JAX_COMPILATION_CACHE_DIR": str(CACHE_FOLDER / "jax"),
        # Below this the disk is slower than the compiler.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
        "HF_HUB_OFFLINE": "1",
        # "PyTorch was not found": jaxgrpo has models of its own.
        "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # Tokenizers fork-safety notice; workers are exec'd, not forked.
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
