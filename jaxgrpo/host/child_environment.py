"""The environment of the processes that ours start."""

import os
import sysconfig
from pathlib import Path

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]


def child_environment() -> dict[str, str]:
    """Returns our environment for a child: one thread, and the same jaxgrpo."""
    environment = dict(os.environ)
    # Processes share the cores among themselves; NumPy is to start no threads of its
    # own.
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if str(_PACKAGE_ROOT) not in installed:
        paths = [str(_PACKAGE_ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    return environment
