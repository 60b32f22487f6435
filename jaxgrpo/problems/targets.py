"""Ways of writing what the supervised mode imitates, by data set and name."""

import difflib
import importlib

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.lesson import Lesson, TargetStyle

REFERENCE = "reference"
"""The style that every data set has: what it gives as the answer."""

STYLES: dict[str, dict[str, str]] = {
    "output_prediction": {
        "mixed": "jaxgrpo.problems.output_prediction.notation",
    },
    "step_prediction": {
        "lines": "jaxgrpo.problems.step_prediction.targets",
    },
    "mini_programs": {
        "varied": "jaxgrpo.problems.mini_programs.targets",
        "careless": "jaxgrpo.problems.mini_programs.targets",
    },
}
"""Module of each style that a data set offers; it holds a function of its name."""


def target_style(dataset: str, name: str) -> TargetStyle:
    """Returns the style of a name.

    Args:
      dataset: Name of the data set.
      name: `reference`, or a style that this data set offers.

    Raises:
      ValueError: The data set has no such style.
    """
    if name == REFERENCE:
        return reference
    styles = STYLES.get(dataset, {})
    if name not in styles:
        known = [REFERENCE, *styles]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise ValueError(
            f"the data set {dataset!r} has no targets named {name!r}. Did you mean "
            f"{nearest[0]!r}? There are: {', '.join(known)}."
        )
    return getattr(importlib.import_module(styles[name]), name)


def reference(problem: Problem, share: float) -> Lesson:
    """Returns the problem with its reference, whatever the share."""
    del share
    return Lesson(problem=problem, target=problem.reference)
