"""What a model that predicts steps is taught to write: all lines, or the answer."""

import random

from jaxgrpo.host.records import Problem
from jaxgrpo.host.trace.steps import recorded_steps
from jaxgrpo.problems.lesson import Lesson
from jaxgrpo.problems.step_prediction.anchors import written


def lines(problem: Problem, share: float) -> Lesson:
    r"""Returns the problem with all lines that its program prints, or its answer alone.

    Args:
      problem: Of this data set.
      share: Of the problems that have all lines.

    Example:
      >>> problem = Problem(id="p", kind="trace", prompt="", reference="[2]",
      ...                   columns={"steps": [["y", "2"], ["result", "[2]"]]})
      >>> lines(problem, 1.0).target
      'y: 2\nresult: [2]'
    """
    if random.Random(f"lines/{problem.id}").random() >= share:
        return Lesson(problem=problem, target=problem.reference)
    return Lesson(problem=problem, target=written(recorded_steps(problem)))
