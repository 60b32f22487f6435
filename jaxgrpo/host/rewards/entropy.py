"""Minus the mean entropy of the tokens' distributions: RENT's reward.

    r = -1/T sum_t H(p_t)

in nats, at the sampling temperature. It needs logits, and is computed on the device:
`jaxgrpo/device/intrinsic.py` has the formula, source and departures.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """There is nothing to set."""
