"""The table `[guard]`: when a run that rewards itself has collapsed."""

from typing import TYPE_CHECKING, Literal

from jaxgrpo.config_tables import Fraction, NonNegativeInt, PositiveInt, Table
from jaxgrpo.host.collapse_guard import Limits

if TYPE_CHECKING:
    from jaxgrpo.config import Config

INTRINSIC_KINDS = ("self_certainty", "entropy", "empo", "ttrl")
"""Rewards that the policy gives itself, without a look at what is right."""


class GuardConfig(Table):
    """When to stop a run that collapses under rewards it gives itself."""

    mode: Literal["auto", "on", "off"] = "auto"
    """`auto` watches runs in which an intrinsic reward (self_certainty, entropy, empo,
    ttrl) has weight. `off` never stops a run; it warns where `auto` would watch."""
    window_steps: PositiveInt = 5
    """Steps averaged over, at the start and now."""
    min_length_ratio: Fraction = 0.5
    """Stop where the mean completion length is below this share of the start's; 0 does
    not look at it."""
    min_entropy_ratio: Fraction = 0.0
    """Stop where the mean entropy is below this share of the start's; 0 does not look
    at it. Intrinsic rewards lower it by design."""
    max_falling: NonNegativeInt = 3
    """Stop where the pass rate on validation problems has fallen so many evaluations in
    a row; 0 does not look at it. Needs evaluation.every_steps."""
    min_fall: Fraction = 0.03
    """How far the pass rate must have fallen over these evaluations together: a level
    one falls three times in a row by chance, too."""

    @property
    def limits(self) -> Limits:
        """What the run must not fall below."""
        return Limits(
            window_steps=self.window_steps,
            min_length_ratio=self.min_length_ratio,
            min_entropy_ratio=self.min_entropy_ratio,
            max_falling=self.max_falling,
            min_fall=self.min_fall,
        )


def intrinsic_rewards(config: "Config") -> list[str]:
    """Returns the names of the rewards that the policy gives itself and learns from.

    Args:
      config: Of a run.
    """
    return [
        name
        for name, reward in config.rewards.items()
        if reward.kind in INTRINSIC_KINDS and (reward.weight or reward.schedule.to)
    ]


def guard_limits(config: "Config") -> Limits | None:
    """Returns what the run must not fall below; None where nobody watches.

    Args:
      config: Of a run.
    """
    mode = config.guard.mode
    is_watched = mode == "on" or (mode == "auto" and intrinsic_rewards(config))
    return config.guard.limits if is_watched else None


def guard_warnings(config: "Config") -> list[str]:
    """Returns what a user of intrinsic rewards should know of the run, a line each.

    Args:
      config: Of a run.
    """
    intrinsic = intrinsic_rewards(config)
    if not intrinsic:
        return []
    warnings = []
    names = ", ".join(intrinsic)
    if config.guard.mode == "off":
        warnings.append(
            f"{names}: rewards that the policy gives itself, and guard.mode is 'off'. "
            "Nothing stops the run where it collapses."
        )
    others = [
        name
        for name, reward in config.rewards.items()
        if name not in intrinsic and (reward.weight or reward.schedule.to)
    ]
    if others:
        warnings.append(
            f"{names}: rewards that the policy gives itself, summed with "
            f"{', '.join(others)}. A rising total need not mean better answers."
        )
    return warnings


def check_guard(config: "Config") -> None:
    """Refuses a guard that watches nothing, or what is never measured.

    Args:
      config: Of a run.

    Raises:
      ValueError: Says what to change.
    """
    guard = config.guard
    if config.run.mode == "supervised" and guard.mode == "on":
        raise ValueError(
            "guard.mode 'on' has no effect while run.mode is 'supervised'. Remove it."
        )
    if guard_limits(config) is None:
        for name, field in GuardConfig.model_fields.items():
            value = getattr(guard, name)
            if name != "mode" and value != field.default:
                raise ValueError(
                    f"guard.{name} {value!r} has no effect: guard.mode is "
                    f"{guard.mode!r} and no intrinsic reward has weight. Set "
                    "guard.mode = 'on' or remove it."
                )
        return
    if not (guard.min_length_ratio or guard.min_entropy_ratio or guard.max_falling):
        raise ValueError(
            "guard.min_length_ratio, min_entropy_ratio and max_falling are all 0, so "
            "the guard would look at nothing. Set one of them, or guard.mode = 'off'."
        )
    default = GuardConfig.model_fields["min_fall"].default
    if not guard.max_falling and guard.min_fall != default:
        raise ValueError(
            f"guard.min_fall {guard.min_fall!r} has no effect while guard.max_falling "
            "is 0. Remove it."
        )
    if guard.max_falling and not config.evaluation.every_steps:
        why = ", ".join(intrinsic_rewards(config)) or "guard.mode 'on'"
        raise ValueError(
            f"the guard ({why}) watches the pass rate on validation problems, and "
            "evaluation.every_steps is 0, so that it is never measured. Set "
            "evaluation.every_steps, or guard.max_falling = 0."
        )
    every = config.evaluation.every_steps
    num_passes = (config.run.num_steps - 1) // every if every else 0
    is_idle = not (guard.min_length_ratio or guard.min_entropy_ratio)
    if is_idle and num_passes <= guard.max_falling:
        raise ValueError(
            f"the guard looks at the pass rate alone, and guard.max_falling "
            f"{guard.max_falling} needs {guard.max_falling + 1} evaluations, of which "
            f"run.num_steps {config.run.num_steps} and evaluation.every_steps {every} "
            f"leave {num_passes}. Lower guard.max_falling or evaluation.every_steps."
        )
