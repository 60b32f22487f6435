"""What a judge is told besides problem and completion."""

from dataclasses import dataclass

from jaxgrpo.host.records import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """How programs are found, limited and tested."""

    extraction: str = "last_block"
    """Rule by which the program is found in the text: see `extraction.RULES`."""
    limits: Limits = Limits()
    """What one test may use, unless its problem says otherwise."""
    stops_at_failure: bool = False
    """Whether to leave out the tests after the first that did not pass: enough where
    only all or nothing counts, and much cheaper with programs that run out of time."""
