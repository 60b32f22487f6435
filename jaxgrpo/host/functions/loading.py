"""Finds the user's function, in the process that calls it."""

import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxgrpo.host.functions.settings import FunctionSettings


class NoFunctionError(ValueError):
    """There is no function to call; the message is one line for the user."""


def loaded_function(settings: FunctionSettings) -> Callable[..., Any]:
    """Returns what the settings name.

    Args:
      settings: Place and name; the name may have dots.

    Raises:
      NoFunctionError: It is not there, fails while it loads, or cannot be called.
    """
    module = _loaded_module(settings.place)
    found: Any = module
    for part in settings.name.split("."):
        if not hasattr(found, part):
            raise NoFunctionError(_no_name(settings, found, part))
        found = getattr(found, part)
    if isinstance(found, type):
        raise NoFunctionError(
            f"{settings.function} is a class. Make an object of it in the file, and "
            "name that."
        )
    if not callable(found):
        raise NoFunctionError(
            f"{settings.function} is {type(found).__name__}, which cannot be called. "
            "Name a function."
        )
    return found


def _loaded_module(place: str) -> ModuleType:
    is_file = place.endswith(".py") or "/" in place
    try:
        return _module_of_file(Path(place)) if is_file else _module_of_name(place)
    except NoFunctionError:
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise NoFunctionError(
            f"{place} does not load: {described(error)}. Mend it."
        ) from None


def _module_of_file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise NoFunctionError(f"{path}: no such file. Correct the path in `function`.")
    # As for a script: what lies beside the file can be imported.
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoFunctionError(f"{path} is no Python file. Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses and pickles look their module up.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _module_of_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise NoFunctionError(
            f"there is no module {error.name!r}. Install it, or write "
            '"path/to/file.py:name".'
        ) from None


def _no_name(settings: FunctionSettings, holder: Any, name: str) -> str:
    names = [
        other
        for other, value in inspect.getmembers(holder)
        if callable(value) and not other.startswith("_")
    ]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{settings.place} has no {name!r}.{hint}"


def described(error: BaseException) -> str:
    """Returns the last line of an exception's traceback, and where it was raised.

    Args:
      error: Being handled.
    """
    line = traceback.format_exception_only(error)[-1].strip()
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return line
    return f"{line} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
