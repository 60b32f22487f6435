"""The gated ladder for literals: a step for each thing that can be got right."""

import math
from dataclasses import dataclass

from jaxgrpo.host.judge.literal import EXACT, WRONG_REPR, WRONG_VALUE
from jaxgrpo.host.records import Verdict
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.rewards.similarity import ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Heights of the steps. All of them together stay below 1, the exact answer's."""

    literal: float = 0.1
    """For an answer that is one literal, whatever its value. Above 0."""
    value: float = 0.6
    """In addition, for the right value. Above 0."""
    shaping: float = 0.2
    """Largest addition for a spelling close to the reference, paid only where the value
    is right. 0 or more."""

    def __post_init__(self) -> None:
        if not (self.literal > 0 and self.value > 0 and self.shaping >= 0):
            raise ValueError(
                f"literal {self.literal}, value {self.value}, shaping {self.shaping}: "
                "steps of the ladder would fall together. Set literal and value above "
                "0, and shaping to 0 or more."
            )
        total = self.literal + self.value + self.shaping
        if not total < 1:
            raise ValueError(
                f"literal + value + shaping is {total:g}, and an exact answer earns 1. "
                "Lower them to less than 1 together."
            )


def ladder(judged: Judged, settings: Settings) -> list[float]:
    """Returns a reward that climbs from no literal to the exact answer.

        r = 0                                   not exactly one literal
        r = literal                             one literal, wrong value
        r = literal + value + shaping * sim     right value, spelled otherwise
        r = 1                                   exact

    with sim in [0, 1] the share of characters in common with the reference. The order
    is strict whatever the texts are: no text can buy with its looks what it lacks in
    value.

    Args:
      judged: Of a problem whose answer is a literal. For programs it abstains.
      settings: Heights of the steps.

    Returns:
      Each in [0, 1], or NaN to abstain.

    Reference:
      The gated ladder of a practitioner's thread on stalled exact match. The gates and
      their order are theirs; the heights are our reading. Ratcliff and Metzener, 1988,
      for sim, see `similarity`; where the texts are too long to be compared, sim is 0.
    """
    if judged.problem.kind not in ("output", "trace"):
        return [math.nan] * len(judged.verdicts)
    reference = judged.problem.reference
    return [_height(verdict, reference, settings) for verdict in judged.verdicts]


def _height(verdict: Verdict, reference: str, settings: Settings) -> float:
    if verdict.error_class == EXACT:
        return 1.0
    if verdict.error_class == WRONG_REPR:
        alike = ratio(verdict.extracted, reference)
        shaped = settings.shaping * (0.0 if math.isnan(alike) else alike)
        return settings.literal + settings.value + shaped
    return settings.literal if verdict.error_class == WRONG_VALUE else 0.0
