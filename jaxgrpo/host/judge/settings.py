"""What a judge is told besides problem and completion."""

from dataclasses import dataclass

from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.prompt_variants import TRACE
from jaxgrpo.host.records import Limits, ProblemKind

_PROGRAM_KINDS = ("stdin", "call", "assert")
_LAST_LINE = "last_line"
_LAST_VALUE = "last_value"
_TAKE_ALL = ("whole", "raw", "after_thinking")
"""Rules by which what is written before an answer would be part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How answers are found, and how programs are limited and tested."""

    extraction: str = "last_block"
    """Rule by which a program is found in the text: see `extraction.RULES`."""
    literal_extraction: str = "whole"
    """Rule by which a literal is found."""
    markers: Markers = Markers()
    """Between which the rule `markers` looks."""
    limits: Limits = Limits()
    """What one test may use, unless its problem says otherwise."""
    stops_at_failure: bool = False
    """Whether to leave out the tests after the first that did not pass: enough where
    only all or nothing counts, and much cheaper with programs that run out of time."""

    def rule_of(
        self, kind: ProblemKind, variant: str = "", *, has_steps: bool = False
    ) -> str:
        """Returns the rule by which the answer to a problem is found.

        Where the prompt asks for a trace before the answer, that is the last line,
        unless markers, a box or a fence tell it anyway. Where what a program prints is
        asked for, it is the value in the last line.

        Args:
          kind: Of the problem.
          variant: Of the prompt, one of `prompt_variants`.
          has_steps: Whether the problem asks for recorded steps.
        """
        if kind in _PROGRAM_KINDS:
            return self.extraction
        if has_steps and self.literal_extraction in _TAKE_ALL:
            return _LAST_VALUE
        if variant == TRACE and self.literal_extraction in _TAKE_ALL:
            return _LAST_LINE
        return self.literal_extraction
