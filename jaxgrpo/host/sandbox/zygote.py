"""The zygote: a clean, preloaded interpreter that forks once per program.

Started by the owner as `python -S -s -P zygote.py OPTIONS` with an environment of its
own, never forked from the trainer. It needs the standard library alone and does not
import jaxgrpo: its siblings are loaded under the package name `sandbox`. It runs no
program itself, reads none, and never learns an expected value.
"""

import importlib
import json
import os
import sys
import types


def load_siblings() -> None:
    """Makes the modules beside this file importable as the package `sandbox`."""
    package = types.ModuleType("sandbox")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["sandbox"] = package


if __name__ == "__main__":
    load_siblings()
    importlib.import_module("sandbox.serving").main(json.loads(sys.argv[1]))
