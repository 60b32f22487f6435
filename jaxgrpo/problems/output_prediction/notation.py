"""Answers as a model with other habits would write them.

A base model often knows an answer and writes it in another notation: as JSON does, or
with a word around it. Training on such targets makes a base model of that kind.
"""

import random
import re

from jaxgrpo.host.records import Problem
from jaxgrpo.problems.lesson import Lesson

PREFIXES = ("Answer: ", "The result is ", "Output: ")

_COMPACT = 0.5
_PROSE = 0.3

_JSON_WORDS = {"True": "true", "False": "false", "None": "null"}
_PARTS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|True|False|None|, |: |.""", re.DOTALL
)


def foreign_notation(answer: str, problem_id: str, share: float) -> str:
    """Returns the answer, for a share of the problems in a foreign notation.

    A rewritten answer has double quotes and JSON's true, false and null. Half of them,
    and those that would look no different, also lose the blanks after commas and
    colons. Three in ten gain a word of prose in front or a full stop at the end. An
    integer without prose is the same in either notation.

    Args:
      answer: A `repr` of plain data.
      problem_id: Decides everything random, so a problem always gets one answer.
      share: Probability that the answer is rewritten, in [0, 1].

    Example:
      >>> foreign_notation("{'a': [1, 2]}", "any", 0.0)
      "{'a': [1, 2]}"
      >>> foreign_notation("{'a': [1, 2]}", "output_prediction/0/train/000007", 1.0)
      '{"a":[1,2]}'
    """
    draw = random.Random(f"notation/{problem_id}").random
    if draw() >= share:
        return answer
    foreign = _json_like(answer, is_compact=False)
    if draw() < _COMPACT or foreign == answer:
        foreign = _json_like(answer, is_compact=True)
    if draw() >= _PROSE:
        return foreign
    if draw() < 0.5:
        return f"{foreign}."
    return PREFIXES[int(draw() * len(PREFIXES))] + foreign


def mixed(problem: Problem, share: float) -> Lesson:
    """Returns the problem with its answer, perhaps in a foreign notation.

    Args:
      problem: Of this data set.
      share: Probability that the answer is rewritten.
    """
    target = foreign_notation(problem.reference, problem.id, share)
    return Lesson(problem=problem, target=target)


def _json_like(answer: str, *, is_compact: bool) -> str:
    """Rewrites quotes, words and perhaps blanks, but no character of a string."""
    parts = []
    for part in _PARTS.findall(answer):
        if part[0] == "'" and len(part) > 1:
            inside = part[1:-1].replace('"', '\\"').replace("\\'", "'")
            part = f'"{inside}"'
        elif is_compact and part in (", ", ": "):
            part = part[0]
        parts.append(_JSON_WORDS.get(part, part))
    return "".join(parts)
