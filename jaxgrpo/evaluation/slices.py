"""Results by tag: the same metrics over the problems that share a tag."""

from collections.abc import Mapping, Sequence

import numpy as np

RARE = "(rare)"
"""Where problems are pooled whose value of a tag few share."""
ABSENT = "(none)"
"""Value of problems without the tag."""

Slices = dict[str, dict[str, np.ndarray]]
"""Places of the problems, by tag and value."""


def slices_by_tag(tags: Sequence[Mapping[str, str]], rare: int) -> Slices:
    """Returns which problems have each value of each tag.

    Values that fewer than `rare` problems share are pooled. A tag that then tells
    nothing apart (one value for all problems, or rare ones only) is left out.

    Args:
      tags: Of each problem.
      rare: Fewest problems that stand alone; 1 pools nothing.

    Example:
      >>> problems = [{"level": "easy"}, {"level": "easy"}, {"level": "odd"}, {}]
      >>> {value: places.tolist()
      ...  for value, places in slices_by_tag(problems, rare=2)["level"].items()}
      {'easy': [0, 1], '(rare)': [2, 3]}
    """
    slices: Slices = {}
    for name in dict.fromkeys(name for own in tags for name in own):
        places: dict[str, list[int]] = {}
        for place, own in enumerate(tags):
            places.setdefault(own.get(name, ABSENT), []).append(place)
        kept = {value: found for value, found in places.items() if len(found) >= rare}
        pooled = [p for value, found in places.items() if value not in kept
                  for p in found]  # fmt: skip
        ordered = {value: kept[value] for value in sorted(kept, key=_by_number)}
        if pooled:
            ordered[RARE] = sorted(pooled)
        if len(ordered) > 1:
            slices[name] = {v: np.array(found) for v, found in ordered.items()}
    return slices


def _by_number(value: str) -> tuple[int, float, str]:
    """Orders values that are numbers by size, and before the others."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
