"""Where an answer stands in a text: what is looked through, and what is found."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from jaxgrpo.host.judge import error_classes

LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
"""As Python ends lines; `splitlines` also does at form feeds and the like."""


class Markers(NamedTuple):
    """Texts between which an answer stands."""

    opening: str = "[ANSWER]"
    closing: str = "[/ANSWER]"
    """Empty where the answer goes on to the end of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A text in which an answer is looked for."""

    text: str
    """With the stop string that ended it, which may close a marker or a fence."""
    start: int
    """Character at which the answer may begin."""
    end: int
    """Character at which the completion ends; only a stop string follows."""
    markers: Markers = Markers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The answer found in a text, a program or a literal; or the kind of failure."""

    answer: str = ""
    error_class: str = ""
    """Empty where there is an answer."""
    line_starts: tuple[int, ...] = ()
    """Character of the text at which each line of the answer begins."""
    end: int = 0
    """Character of the text at which the answer ends."""

    @property
    def start(self) -> int:
        """Character of the text at which the answer begins."""
        return self.line_starts[0] if self.line_starts else self.end

    def character_of(self, line: int, column: int = 0) -> int:
        """Returns the character of the text that a place in the answer stands at.

        Args:
          line: From 1, as Python counts.
          column: Characters from the beginning of the line.
        """
        return self.line_starts[line - 1] + column

    def stripped(self) -> "Extraction":
        r"""Returns the same answer without the white space around it.

        Example:
          >>> found = content("= 42\n", 1, 5).stripped()
          >>> found.answer, found.start, found.end
          ('42', 2, 4)
        """
        answer = self.answer.strip()
        if not answer or answer == self.answer:
            return self
        lines = LINE.findall(self.answer)
        ends = list(accumulate(map(len, lines)))
        first = len(self.answer) - len(self.answer.lstrip())
        last = first + len(answer) - 1
        first_line = next(i for i, end in enumerate(ends) if first < end)
        last_line = next(i for i, end in enumerate(ends) if last < end)

        def place(index: int, line: int) -> int:
            return self.line_starts[line] + index - (ends[line] - len(lines[line]))

        starts = self.line_starts[first_line + 1 : last_line + 1]
        return Extraction(
            answer=answer,
            line_starts=(place(first, first_line), *starts),
            end=place(last, last_line) + 1,
        )


Rule = Callable[[Written], Extraction]
"""A way to find the answer."""


def failure(error_class: str) -> Extraction:
    """Returns that there is no answer, and why."""
    return Extraction(error_class=error_class)


def content(text: str, start: int, end: int, indent: str = "") -> Extraction:
    """Returns a part of a text as the answer, or that it is blank.

    Args:
      text: The whole.
      start: Character at which the part begins.
      end: Character at which it ends.
      indent: What is taken off the beginning of each line that has it.
    """
    lines: list[str] = []
    starts: list[int] = []
    for line in LINE.finditer(text, start, end):
        shorter = line[0].removeprefix(indent)
        lines.append(shorter)
        starts.append(line.end() - len(shorter))
    answer = "".join(lines)
    if not answer.strip():
        return failure(error_classes.EMPTY_CODE)
    return Extraction(answer=answer, line_starts=tuple(starts), end=end)
