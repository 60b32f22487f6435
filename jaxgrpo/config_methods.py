"""The tables of methods that change which groups are learned from.

Each is off by default, and then nothing of it is in the run: not a program, not a
metric. Which of them go together is in `config_combinations.py`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    Fraction,
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Table,
)

if TYPE_CHECKING:
    from jaxgrpo.config import Config


class ReplayConfig(Table):
    """Earlier completions that are learned from again."""

    method: Literal["none", "groups", "samples"] = "none"
    """`groups` puts stored live groups in the place of dead ones (TRL's replay buffer);
    `samples` adds what a problem's earlier samples were to its new ones (RePO)."""
    max_staleness: PositiveInt = 100
    """Updates that a stored completion may be behind the policy."""
    capacity: PositiveInt = 64
    """Groups stored at most (`groups`)."""
    strategy: Literal["random", "highest", "recent", "max_variance", "all"] = "highest"
    """Which stored samples of a problem to take (`samples`)."""
    num_replays: PositiveInt = 8
    """Samples taken for a problem at most (`samples`; `all` takes all)."""
    min_stored: PositiveInt = 16
    """Samples that a problem must have stored before any is taken (`samples`)."""
    max_stored: PositiveInt = 16
    """Samples stored for a problem; the oldest make room (`samples`)."""
    normalization: Literal["split", "mixed"] = "split"
    """Whether replayed samples have a baseline of their own or share that of the new
    ones (`samples`)."""
    factor: PositiveFloat = 1.0
    """Of the advantages of replayed samples (`samples`)."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "ReplayConfig":
        readers = {
            "max_staleness": ("groups", "samples"),
            "capacity": ("groups",),
            **dict.fromkeys(
                ("strategy", "num_replays", "min_stored", "max_stored",
                 "normalization", "factor"), ("samples",),
            ),
        }  # fmt: skip
        for name, methods in readers.items():
            value = getattr(self, name)
            default = type(self).model_fields[name].default
            if self.method not in methods and value != default:
                raise ValueError(
                    f"replay.{name} {value!r} has no effect while replay.method is "
                    f"{self.method!r}. Set replay.method to {methods[-1]!r} or remove "
                    "it."
                )
        if self.min_stored > self.max_stored:
            raise ValueError(
                f"replay.min_stored {self.min_stored} is more than replay.max_stored "
                f"{self.max_stored}, so nothing would ever be replayed. Lower it."
            )
        if self.method == "samples" and self.strategy != "all":
            if self.num_replays > self.max_stored:
                raise ValueError(
                    f"replay.num_replays {self.num_replays} is more than "
                    f"replay.max_stored {self.max_stored}, so that fewer would always "
                    "be replayed. Lower it or raise replay.max_stored."
                )
        return self

    @property
    def most_replays(self) -> int:
        """Samples that a problem may get at most."""
        if self.method != "samples":
            return 0
        return self.max_stored if self.strategy == "all" else self.num_replays


class DynamicSamplingConfig(Table):
    """Drop groups of equal rewards, and draw others in their place (DAPO)."""

    max_tries: NonNegativeInt = 0
    """Times that a step draws more groups; 0 keeps dead groups and draws none."""
    when_short: Literal["smaller", "fill"] = "smaller"
    """What to do when the tries are used up: learn from a smaller batch, or let dead
    groups fill it."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "DynamicSamplingConfig":
        if not self.max_tries and self.when_short != "smaller":
            raise ValueError(
                f"dynamic_sampling.when_short {self.when_short!r} has no effect while "
                "dynamic_sampling.max_tries is 0. Raise max_tries or remove it."
            )
        return self


class ScaffoldConfig(Table):
    """Hints for problems whose samples are all wrong (Scaf-GRPO)."""

    tiers: Annotated[
        tuple[Literal["trace", "two_stage", "knowledge", "planning", "solution"], ...],
        Field(strict=False),
    ] = ()
    """Kinds of hints that are tried, from the weakest on; empty tries none. The right
    sample under the first that helps replaces one failed sample. `trace` asks for the
    values of variables before the answer, `two_stage` does so in two prompts; both are
    for problems that ask for a value. Hints of the data that bear no tier count as of
    each of the other three."""
    source: Literal["data", "reference"] = "data"
    """Whose hints the tiers `knowledge`, `planning` and `solution` are of: those that a
    problem brings along, or those that its reference's syntax tree gives."""
    exempt_share: Fraction = 0.15
    """Share of the steps, at the beginning, without hints."""
    after_failures: PositiveInt = 1
    """Times in a row that a problem's samples must have been all wrong."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "ScaffoldConfig":
        if len(set(self.tiers)) < len(self.tiers):
            raise ValueError(
                f"scaffold.tiers {list(self.tiers)} names a tier twice. Name each once."
            )
        for name in ("source", "exempt_share", "after_failures"):
            value = getattr(self, name)
            default = type(self).model_fields[name].default
            if not self.tiers and value != default:
                raise ValueError(
                    f"scaffold.{name} {value!r} has no effect while scaffold.tiers is "
                    "empty. List tiers or remove it."
                )
        if self.tiers and self.exempt_share == 1.0:
            raise ValueError(
                f"scaffold.exempt_share {self.exempt_share} leaves no step with hints, "
                f"so that scaffold.tiers {list(self.tiers)} has no effect. Lower it."
            )
        return self


class TruncationMaskConfig(Table):
    """Spare some truncated completions their advantage (MicroCoder-GRPO)."""

    probability: Fraction = 0.0
    """Chance of a truncated completion that qualifies to have no advantage; it stays in
    its group's statistics. 0 masks none."""
    condition: Literal["non_incorrect", "correct", "incorrect", "any"] = "non_incorrect"
    """Which qualify: those not judged wrong (rewarded, or cut off before an answer),
    the correct, those judged wrong, or any. Its source's texts disagree."""
    repeat_tokens: PositiveInt = 128
    """A completion whose last so many tokens repeat those before them never does."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "TruncationMaskConfig":
        for name in ("condition", "repeat_tokens"):
            value = getattr(self, name)
            default = type(self).model_fields[name].default
            if not self.probability and value != default:
                raise ValueError(
                    f"truncation_mask.{name} {value!r} has no effect while "
                    "truncation_mask.probability is 0. Raise it or remove this."
                )
        return self


class TemperatureConfig(Table):
    """Raise the sampling temperature in stages, when diversity declines."""

    then: Annotated[tuple[PositiveFloat, ...], Field(strict=False)] = ()
    """Temperatures of the stages after the first, which is sampling.temperature;
    ascending. Empty keeps it constant."""
    calibration_problems: NonNegativeInt = 0
    """Problems that are sampled at every temperature before the first step, to begin
    with the lowest that reaches the target; 0 begins with the first."""
    target: Fraction = 0.7
    """Diversity to hold: the share of different 4-grams among a group's."""
    slope: NonNegativeFloat = 0.0005
    """Decline of diversity a step that counts as one."""
    window: Annotated[int, Field(ge=2)] = 20
    """Steps over which mean and slope are taken."""
    min_stage_steps: PositiveInt = 50
    """Steps that a stage lasts at least."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "TemperatureConfig":
        names = ("calibration_problems", "target", "slope", "window", "min_stage_steps")
        for name in names:
            value = getattr(self, name)
            default = type(self).model_fields[name].default
            if not self.then and value != default:
                raise ValueError(
                    f"temperature.{name} {value!r} has no effect while "
                    "temperature.then is empty. List later temperatures or remove it."
                )
        return self


class CurriculumConfig(Table):
    """Begin with some kinds of problems, and go on to others by success."""

    order: Annotated[tuple[NonEmptyText, ...], Field(strict=False)] = ()
    """Values of the tag, from the first level on; problems of other values are not
    taken. Empty takes problems as they come."""
    tag: NonEmptyText = "difficulty"
    """Tag that is a problem's level, such as `difficulty` or `output_type`."""
    open_at: Fraction = 0.7
    """Share of correct completions of the newest level at which the next one opens."""
    min_groups: PositiveInt = 32
    """Groups of a level that must have been seen before."""
    rate: Annotated[float, Field(gt=0.0, le=1.0)] = 0.05
    """Weight of a new group in a level's moving average."""
    floor: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Least chance of a problem of an open level: the more its level's success p is
    near 0 or 1, the nearer to it, else 4 p (1 - p). 1 takes all."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "CurriculumConfig":
        if len(set(self.order)) < len(self.order):
            raise ValueError(
                f"curriculum.order {list(self.order)} names a level twice. Name each "
                "once."
            )
        for name in ("tag", "open_at", "min_groups", "rate", "floor"):
            value = getattr(self, name)
            default = type(self).model_fields[name].default
            if not self.order and value != default:
                raise ValueError(
                    f"curriculum.{name} {value!r} has no effect while curriculum.order "
                    "is empty. List levels or remove it."
                )
        return self


def check_temperatures(config: "Config") -> None:
    """Refuses stages that do not ascend, are never reached, or cannot be calibrated.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Says what to change.
    """
    stages = (config.sampling.temperature, *config.temperature.then)
    if list(stages) != sorted(set(stages)):
        raise ValueError(
            f"sampling.temperature and temperature.then are {list(stages)}, which does "
            "not ascend. List ever higher temperatures."
        )
    _check_stages_can_change(config)
    _check_calibration(config)


def _check_stages_can_change(config: "Config") -> None:
    """Refuses a first stage that lasts as long as the run."""
    t, num_steps = config.temperature, config.run.num_steps
    name = "min_stage_steps" if t.min_stage_steps >= t.window else "window"
    first = getattr(t, name)
    # A calibration may begin with any stage, and stay there.
    if t.then and not t.calibration_problems and first >= num_steps:
        raise ValueError(
            f"temperature.{name} {first} is not less than run.num_steps {num_steps}, "
            f"so that temperature.then {list(t.then)} is never reached. Lower it."
        )


def _check_calibration(config: "Config") -> None:
    """Refuses to calibrate on more problems than there are."""
    number = config.temperature.calibration_problems
    sizes = {
        "evaluation.num_validation_problems": config.evaluation.num_validation_problems,
        "data.num_validation": config.data.limit_of("validation"),
    }
    for name, available in sizes.items():
        if available and number > available:
            raise ValueError(
                f"temperature.calibration_problems {number} is more than {name} "
                f"{available}, the problems there are for it. Lower it or raise {name}."
            )
