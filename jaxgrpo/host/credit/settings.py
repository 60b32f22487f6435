"""What finding blame is told."""

from dataclasses import dataclass

from jaxgrpo.host.records import Limits

EARLIEST, LAST, RANDOM, NONE = "earliest", "last", "random", "none"
LOCALIZATIONS = (EARLIEST, LAST, RANDOM, NONE)
"""The first or the last divergence; any boundary executed, the control for these; or
no localisation at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameSettings:
    """How blame is found."""

    localization: str = EARLIEST
    """One of LOCALIZATIONS."""
    constraints: tuple[str, ...] = ("entry_point", "imports", "recursion",
                                    "loop_nesting")  # fmt: skip
    """Kinds of constraints that are derived from the reference; empty for none."""
    min_similarity: float = 0.5
    """Likeness of control flows below which programs are not compared."""
    limits: Limits = Limits()
    """What a traced program may use."""
    extractor: str = ""
    """The user's function that gives constraints, instead of `constraints`."""
    localizer: str = ""
    """The user's function that gives spans, instead of `localization`."""
    skips_tied: bool = False
    """Do not trace the programs of groups whose rewards are all equal, where these
    alone decide: they have no advantage that could fall anywhere."""
    seed: int = 0
    """Of what is drawn at random."""
