"""The steps of a predicted trace, held against those that were recorded.

A trace is text: `NAME: value` on a line of its own, for each anchor in the order in
which a program printed them. What else is said between such lines does not count.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxgrpo.host.records import Problem

COLUMN = "steps"
"""Column of a problem that holds the recorded steps: [[name, value], ...]."""
_LINE = re.compile(r"[ \t]*(?P<name>[^\W\d]\w*)[ \t]*:[ \t]?(?P<value>[^\r\n]*)")
MAX_LINES = 1000
"""Lines of the form `NAME: value` that are looked at; later ones do not count."""


class Anchor(NamedTuple):
    """What a program printed at an anchor."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a completion says of one anchor."""

    is_exact: bool
    start: int
    """Character of the text at which the step begins: where the one before ends."""
    end: int
    """Character at which its line ends. Equal to `start` where it is missing."""

    @property
    def is_missing(self) -> bool:
        """Whether the completion lacks the step, or has it out of its order."""
        return self.start == self.end

    @property
    def reward(self) -> float:
        """1 for the recorded value, else 0."""
        return float(self.is_exact)


def recorded_steps(problem: Problem) -> tuple[Anchor, ...]:
    """Returns what the program of a problem printed at its anchors.

    Args:
      problem: Of any kind; nothing is recorded where the column is missing.
    """
    recorded = problem.columns.get(COLUMN) or ()
    assert isinstance(recorded, list | tuple), "a column of pairs"
    return tuple(Anchor(str(name), str(value)) for name, value in recorded)


def value_start(line: str) -> int:
    """Returns the character at which the value of a line begins.

    Args:
      line: `NAME: value`, or a value alone.

    Example:
      >>> line = "n: [1]"
      >>> line[value_start(line) :], value_start("[1]")
      ('[1]', 0)
    """
    match = _LINE.match(line)
    return 0 if match is None else match.start("value")


def predicted_steps(
    text: str, anchors: Sequence[Anchor], start: int = 0
) -> tuple[Step, ...]:
    r"""Returns one step per recorded anchor.

        r_i = [the value that is predicted for anchor i == the one recorded]

    Lines and anchors are matched by their names: the longest sequence of anchors that
    the text gives in their order, on the earliest lines possible. Whether a value is
    right plays no part in that, so that nothing is gained by listing several. An anchor
    that is missing, or stands where it does not belong, has an empty step and no
    reward. Values are compared as text, white space around them apart.

    Args:
      text: The completion's.
      anchors: As recorded, in the order of execution.
      start: Character at which the answer begins, after any thinking.

    Example:
      >>> anchors = [Anchor("n", "3"), Anchor("xs", "[1, 2]"), Anchor("n", "2")]
      >>> steps = predicted_steps("n: 3\nxs: [1]\nn: 2\n", anchors)
      >>> [step.reward for step in steps], [(step.start, step.end) for step in steps]
      ([1.0, 0.0, 1.0], [(0, 4), (4, 12), (12, 17)])

    Reference:
      StepCodeReasoner, 2026, https://arxiv.org/abs/2605.11922 (Bi-Level GRPO): binary,
      exact rewards per anchor. How predicted lines are found, matched and given spans
      is our reading.
    """
    lines = _lines(text, start)
    matched = _matched([line["name"] for line in lines], [a.name for a in anchors])
    steps = []
    for index, anchor in enumerate(anchors):
        place = matched.get(index)
        if place is None:
            steps.append(Step(is_exact=False, start=start, end=start))
            continue
        line = lines[place]
        is_exact = line["value"].strip() == anchor.value.strip()
        steps.append(Step(is_exact=is_exact, start=start, end=line.end()))
        start = line.end()
    return tuple(steps)


def _lines(text: str, start: int) -> list[re.Match[str]]:
    found = []
    position = start
    while position < len(text) and len(found) < MAX_LINES:
        match = _LINE.match(text, position)
        if match is not None:
            found.append(match)
        ends = [text.find(end, position) for end in "\r\n"]
        position = min((end for end in ends if end >= 0), default=len(text)) + 1
    return found


def _matched(given: Sequence[str], wanted: Sequence[str]) -> dict[int, int]:
    """A longest common subsequence: the place in `given` of each one wanted."""
    # best[i][j]: its length from given[i:] and wanted[j:] on.
    best = [[0] * (len(wanted) + 1) for _ in range(len(given) + 1)]
    for i in reversed(range(len(given))):
        for j in reversed(range(len(wanted))):
            is_same = given[i] == wanted[j]
            both = best[i + 1][j + 1] + 1 if is_same else 0
            best[i][j] = max(both, best[i + 1][j], best[i][j + 1])
    matched = {}
    i = j = 0
    while i < len(given) and j < len(wanted):
        if given[i] == wanted[j] and best[i][j] == best[i + 1][j + 1] + 1:
            matched[j] = i
            i, j = i + 1, j + 1
        elif best[i][j] == best[i][j + 1]:
            j += 1  # an anchor is passed over before a line is: the earliest lines
        else:
            i += 1
    return matched
