"""The table of harvest, distil, resume: short supervised passes on a run's own hits."""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    Fraction,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Table,
)

if TYPE_CHECKING:
    from jaxgrpo.config import Config


class DistillConfig(Table):
    """Imitate right samples of problems that are answered wrong, then go on."""

    at_steps: Annotated[tuple[NonNegativeInt, ...], Field(strict=False)] = ()
    """Steps after which a phase runs: problems are answered greedily, those answered
    wrong are sampled, and what is right among the samples is imitated. 0 is before the
    first step; empty runs none."""
    only: bool = False
    """End after the phase before the first step, with evaluations and an export."""
    num_problems: PositiveInt = 256
    """Training problems that a phase looks at, the next ones of the run."""
    temperatures: Annotated[tuple[PositiveFloat, ...], Field(strict=False)] = (
        0.7,
        1.0,
        1.3,
    )
    """Temperatures of the samples, an equal part of them each."""
    samples_per_problem: PositiveInt = 24
    """Samples of each problem answered wrong, at all temperatures together."""
    max_hits: PositiveInt = 4
    """Right samples of a problem that are imitated at most, no two alike: those drawn
    most often, then the shortest. Samples cut off at their budget never are."""
    epochs: PositiveInt = 2
    """Passes over what is imitated."""
    hits_per_batch: PositiveInt = 32
    """Samples of a supervised update at most."""
    learning_rate: PositiveFloat = 1e-5
    """Of the supervised updates: AdamW, constant, with moments of its own in each phase
    and betas, decay and clipping of [optimizer]. That one's moments are kept."""
    tail_share: Fraction = 0.5
    """Share of the problems of later steps that are taken from the problems looked at
    that are still answered wrong; 0 takes problems as they come."""
    measure_samples: bool = True
    """Measure pass@k before and after a phase too, with the samples of [evaluation]; if
    not, greedy answers alone."""

    @model_validator(mode="after")
    def _fits(self) -> "DistillConfig":
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if not self.at_steps and value != field.default:
                raise ValueError(
                    f"distill.{name} {value!r} has no effect while distill.at_steps is "
                    "empty. List steps or remove it."
                )
        if list(self.at_steps) != sorted(set(self.at_steps)):
            raise ValueError(
                f"distill.at_steps is {list(self.at_steps)}, which does not ascend. "
                "List ever later steps."
            )
        if self.only and self.at_steps != (0,):
            raise ValueError(
                "distill.only (--only) ends the run before its first step, and "
                f"distill.at_steps is {list(self.at_steps)}. Set distill.at_steps=[0]."
            )
        number = len(self.temperatures)
        if not number or len(set(self.temperatures)) < number:
            raise ValueError(
                f"distill.temperatures is {list(self.temperatures)}. List at least "
                "one, and each once."
            )
        if self.samples_per_problem % number:
            raise ValueError(
                f"distill.samples_per_problem {self.samples_per_problem} does not "
                f"divide by the {number} temperatures. Make it a multiple of {number}."
            )
        return self


def check_distill(config: "Config") -> None:
    """Refuses phases that never run, and more problems than there are.

    Args:
      config: Of a run.

    Raises:
      ValueError: Says what to change.
    """
    d, num_steps = config.distill, config.run.num_steps
    if not d.at_steps:
        return
    if d.at_steps[-1] > num_steps:
        raise ValueError(
            f"distill.at_steps {list(d.at_steps)} goes beyond run.num_steps "
            f"{num_steps}, so that a phase would never run. Leave the step out."
        )
    available = config.data.limit_of(config.data.split)
    if available and d.num_problems > available:
        raise ValueError(
            f"distill.num_problems {d.num_problems} is more than "
            f"data.num_{config.data.split} {available}, all the problems there are. "
            "Lower it."
        )
