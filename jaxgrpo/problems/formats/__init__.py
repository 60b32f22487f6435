"""Published data sets: a module for each, and one for files of any shape."""

import difflib
import importlib

from jaxgrpo.problems.formats.format import Format

FORMATS: dict[str, str] = {
    name: f"jaxgrpo.problems.formats.{name}"
    for name in (
        *("humaneval", "humaneval_plus", "mbpp", "mbpp_sanitized", "mbpp_plus"),
        *("cruxeval", "cruxeval_input", "cruxeval_trace", "cruxeval_steps", "codeio"),
        *("livecodebench", "apps", "taco", "codecontests"),
        *("deepcoder", "primeintellect", "kodcode", "file"),
    )
}
"""The module of each format, by the name that the configuration gives it."""


def load_format(name: str) -> Format:
    """Returns a format.

    Args:
      name: One of FORMATS.

    Raises:
      ValueError: There is no such format; names the nearest.

    Example:
      >>> load_format("mbpp").kind
      'assert'
    """
    if name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Use {', '.join(FORMATS)}."
        raise ValueError(f"no format is named {name!r}. {hint}")
    return importlib.import_module(FORMATS[name]).FORMAT
