"""What a judge is told besides problem and completion."""

from dataclasses import dataclass

from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.records import Limits, ProblemKind

_PROGRAM_KINDS = ("stdin", "call", "assert")


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

    def rule_of(self, kind: ProblemKind) -> str:
        """Returns the rule by which the answer to a problem is found.

        Args:
          kind: Of the problem.
        """
        return self.extraction if kind in _PROGRAM_KINDS else self.literal_extraction
