"""The table `[redistribution]`: advantage moved among passing completions."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from jaxgrpo.config_tables import Table
from jaxgrpo.host.quality import QualitySettings

if TYPE_CHECKING:
    from jaxgrpo.config import Config

Grader = Literal["ruff", "length", "complexity"]
_OF_PROGRAMS = ("ruff", "complexity")
_PROGRAM_KINDS = {"stdin", "call", "assert", "any"}


class RedistributionConfig(Table):
    """Advantage that moves from poorer to better passing completions of a group."""

    graders: Annotated[tuple[Grader, ...], Field(strict=False)] = ()
    """What passing completions are graded by: `ruff` (what it finds), `length` (tokens,
    against the group's shortest), `complexity` (decisions, against its simplest);
    averaged. Empty for none."""
    floor: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Quality of a completion that all graders give 0. At 1 / cap or more the group's
    positive advantage is always kept."""
    cap: Annotated[float, Field(ge=1.0)] = 2.0
    """Largest scale by which what was taken is given back."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "RedistributionConfig":
        for name in ("floor", "cap"):
            value, default = getattr(self, name), type(self).model_fields[name].default
            if not self.graders and value != default:
                raise ValueError(
                    f"redistribution.{name} {value!r} has no effect while "
                    "redistribution.graders is empty. List graders or remove it."
                )
        if self.graders and self.floor == 1.0:
            raise ValueError(
                "redistribution.floor 1.0 gives all passing completions the same "
                "quality, so that redistribution.graders has no effect. Lower it."
            )
        if len(set(self.graders)) < len(self.graders):
            raise ValueError(
                f"redistribution.graders {list(self.graders)} names one twice. Name "
                "each once."
            )
        return self


def quality_settings(config: "Config") -> QualitySettings | None:
    """Returns how passing completions are graded; None where they are not.

    Args:
      config: Of a `grpo` run.
    """
    table = config.redistribution
    if not table.graders:
        return None
    return QualitySettings(graders=table.graders, floor=table.floor)


def check_redistribution(config: "Config") -> None:
    """Refuses graders that could not grade anything.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Says what to change.
    """
    graders = config.redistribution.graders
    if not graders or config.run.mode == "supervised":
        return
    kinds = config.data.kinds
    for name in graders:
        if name in _OF_PROGRAMS and not set(kinds.split(", ")) & _PROGRAM_KINDS:
            raise ValueError(
                f"redistribution.graders has {name!r}, which reads programs, and "
                f"data.dataset {config.data.dataset!r} asks for none (kind {kinds!r}). "
                "Leave it out."
            )
    if config.sampling.group_size < 3:
        raise ValueError(
            "redistribution.graders grade groups with two passing completions and one "
            f"that fails, and sampling.group_size is {config.sampling.group_size}. "
            "Raise it to 3 or more."
        )
