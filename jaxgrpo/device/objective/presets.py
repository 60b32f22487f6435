"""Names for combinations of advantage, ratio, surrogate and aggregation."""

import dataclasses
import difflib
from typing import Any

from jaxgrpo.device.objective.aggregation import AGGREGATIONS
from jaxgrpo.device.objective.choices import require_one_of
from jaxgrpo.device.objective.divergences import DIVERGENCES

RATIO_LEVELS = ("token", "sequence", "sequence_token", "trajectory", "trace")
SURROGATES = ("clip", "cispo", "cispo_band", "sapo")
CORRECTIONS = (
    "none",
    "token_truncate",
    "token_mask",
    "sequence_truncate",
    "sequence_mask",
    "geometric_truncate",
    "geometric_mask",
)


def _require(is_met: bool, name: str, value: object, rule: str) -> None:
    if not is_met:
        raise ValueError(f"{name} is {value}. Set it {rule}.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The parts of a loss. Hashable, so it may be a static argument of `jit`."""

    ratio_level: str = "token"
    """`token`, `sequence` (GSPO), `sequence_token` (GSPO-token), `trajectory` (the
    product over tokens) or `trace` (experimental: eligibility traces)."""
    surrogate: str = "clip"
    """`clip` (PPO), `cispo`, `cispo_band` (verl's cispo) or `sapo`."""
    aggregation: str = "sequence_mean"
    """`sequence_mean`, `token_mean`, `constant` or `sequence_sum`."""
    clip_low: float = 0.2
    """Ratios below 1 - clip_low are clipped; in [0, 1]. For `clip`, `cispo_band`."""
    clip_high: float = 0.2
    """Ratios above 1 + clip_high are clipped; >= 0. For `clip`, `cispo_band`."""
    dual_clip: float | None = None
    """Loss bound for negative advantages, > 1; None leaves it out. For `clip`."""
    delta: float | None = None
    """Bound of the unclipped ratio, > 1 + clip_high; None: none. For `clip`."""
    ratio_cap: float = 5.0
    """Largest weight, absolute. For `cispo`."""
    temperature_positive: float = 1.0
    """Gate steepness for positive advantages. For `sapo`."""
    temperature_negative: float = 1.05
    """Gate steepness for the others. For `sapo`."""
    trace_decay: float = 1.0
    """Decay of eligibility traces a token; in [0, 1]. For `trace`."""
    length_cap: int | None = None
    """The constant length, tokens. Needed by aggregation `constant`."""
    divergence: str = "k3"
    """`k1`, `k2`, `k3` or `k3_corrected`. Used where kl_coef is not 0."""
    kl_coef: float = 0.0
    """Factor of the divergence to the reference; 0 leaves it out of the loss."""
    entropy_coef: float = 0.0
    """Factor of the entropy bonus; 0 leaves it out of the loss."""
    correction: str = "none"
    """How sampler/trainer weights are bounded: `none`, or `token`, `sequence` or
    `geometric` followed by `_truncate` or `_mask`."""
    correction_max: float = 2.0
    """Largest sampler/trainer weight."""
    correction_min: float = 0.0
    """Smallest sampler/trainer weight."""
    off_policy_threshold: float | None = None
    """Drift, nats per token, beyond which a row with a negative advantage loses its
    policy term; None leaves it out."""

    def __post_init__(self) -> None:
        require_one_of("ratio_level", self.ratio_level, RATIO_LEVELS)
        require_one_of("surrogate", self.surrogate, SURROGATES)
        require_one_of("aggregation", self.aggregation, AGGREGATIONS)
        require_one_of("divergence", self.divergence, tuple(DIVERGENCES))
        require_one_of("correction", self.correction, CORRECTIONS)
        _require(0 <= self.clip_low <= 1, "clip_low", self.clip_low, "in [0, 1]")
        _require(self.clip_high >= 0, "clip_high", self.clip_high, "at least 0")
        if self.dual_clip is not None:
            _require(self.dual_clip > 1, "dual_clip", self.dual_clip, "above 1")
        if self.delta is not None:
            is_above = self.delta > 1 + self.clip_high
            _require(is_above, "delta", self.delta, "above 1 + clip_high")
        _require(self.ratio_cap > 0, "ratio_cap", self.ratio_cap, "above 0")
        is_ordered = 0 <= self.correction_min < self.correction_max
        _require(
            is_ordered, "correction_min", self.correction_min,
            f"in [0, correction_max = {self.correction_max})",
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A published method: how its advantages are made, and its loss."""

    objective: Objective
    """The loss."""
    scale: str = "group"
    """The `scale` of `group_advantages`."""
    baseline: str = "mean"
    """The `baseline` of `group_advantages`."""


PRESETS: dict[str, Preset] = {
    "grpo": Preset(objective=Objective()),
    "dr_grpo": Preset(objective=Objective(aggregation="constant"), scale="none"),
    "dapo": Preset(objective=Objective(aggregation="token_mean", clip_high=0.28)),
    "bnpo": Preset(objective=Objective(aggregation="token_mean")),
    "cispo": Preset(objective=Objective(surrogate="cispo", aggregation="token_mean")),
    "gspo": Preset(
        objective=Objective(ratio_level="sequence", clip_low=3e-4, clip_high=4e-4)
    ),
    "gspo_token": Preset(
        objective=Objective(ratio_level="sequence_token", clip_low=3e-4, clip_high=4e-4)
    ),
    "luspo": Preset(
        objective=Objective(
            ratio_level="sequence",
            aggregation="sequence_sum",
            clip_low=3e-4,
            clip_high=4e-4,
        )  # fmt: skip
    ),
    "sapo": Preset(objective=Objective(surrogate="sapo")),
    "rloo": Preset(
        objective=Objective(ratio_level="trajectory"),
        scale="none",
        baseline="leave_one_out",
    ),
}
"""Preset by name. The table in docs/objective.md gives each one's formula."""


def resolve_objective(preset: str | Objective, **parts: Any) -> Objective:
    """Returns a preset's objective with some parts replaced.

    Args:
      preset: A name in PRESETS, or an objective.
      **parts: Fields of `Objective`.

    Returns:
      The objective, checked.

    Example:
      >>> resolve_objective("dapo", clip_high=0.3).clip_high
      0.3
    """
    if isinstance(preset, str):
        require_one_of("preset", preset, tuple(PRESETS))
        preset = PRESETS[preset].objective
    known = [field.name for field in dataclasses.fields(Objective)]
    for name in parts:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {nearest[0]!r}?" if nearest else f"Parts are {known}."
            raise ValueError(f"objective part {name!r} is unknown. {hint}")
    return dataclasses.replace(preset, **parts)
