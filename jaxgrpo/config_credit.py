"""The table `[credit]`: which tokens of a completion its advantage falls on."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Table,
)
from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.credit.steps import StepSettings
from jaxgrpo.host.functions.settings import FunctionSettings
from jaxgrpo.host.records import Limits
from jaxgrpo.host.rewards import REWARDS

if TYPE_CHECKING:
    from jaxgrpo.config import Config

Constraint = Literal[
    "entry_point", "imports", "containers", "recursion", "loop_nesting", "sorting"
]
CREDITED_PRESETS = ("grpo", "gspo_token", "sapo")
"""Objectives that divide a completion's loss by its length and give each token a
gradient of its own: in these the credits of its tokens add up to its advantage."""
PROGRAM_KINDS = ("stdin", "call", "assert", "any")
STEP_PRESETS = ("grpo", "bnpo", "dapo", "cispo", "gspo_token", "sapo")
"""Objectives that measure advantages by mean and spread of the group, as those of steps
are, and give each token a gradient of its own."""
STEP_DATASETS = ("step_prediction", "cruxeval_steps", "file")
"""Data sets whose problems may have recorded steps."""
STEP_FIELDS = ("intra_coef", "step_dropout")
"""Fields that `bilevel` reads, and it alone."""


class CreditConfig(Table):
    """Which tokens of a completion its advantage falls on."""

    method: Literal["uniform", "egca", "bilevel"] = "uniform"
    """`uniform` gives all tokens the same; `egca` blames a failing program's tokens at
    the statement where it first does something else than the reference; `bilevel` gives
    each predicted step an advantage of its own, at its tokens."""
    localization: Literal["earliest", "last", "random", "none"] = "earliest"
    """What is blamed of a program that runs and fails a test: its first or its last
    divergence from the reference, any statement that it executed (a control), or the
    whole."""
    constraints: Annotated[tuple[Constraint, ...], Field(strict=False)] = (
        "entry_point", "imports", "recursion", "loop_nesting",
    )  # fmt: skip
    """What a program has to keep to, read off the reference: one that does not is
    blamed as a whole. Empty for nothing."""
    min_similarity: Fraction = 0.5
    """Likeness of its control flow to the reference's below which a program is blamed
    as a whole; 0 compares all."""
    prompt_constraints: bool = False
    """Whether training prompts tell the constraints; evaluations never do."""
    trace_events: PositiveInt = 2000
    """Statements of a program's execution that are compared at most."""
    trace_kb: PositiveInt = 1024
    """KiB of its trace at most."""
    trace_cpu_s: PositiveFloat = 1.0
    """CPU seconds of a traced program, whose trace ends there."""
    extractor: str = ""
    """The user's own constraints instead: `path/to/file.py:function`, given a problem,
    returns sentences, each alone or with a function that checks a program's source."""
    localizer: str = ""
    """The user's own localisation instead: `path/to/file.py:function`, given problem,
    program and both traces, returns the characters of the program to blame, or None."""

    intra_coef: NonNegativeFloat = 0.3
    """With `bilevel`: factor of what a right step adds for the right steps after it."""
    step_dropout: Fraction = 0.0
    """With `bilevel`: share of the steps before the last whose credit is left out;
    their tokens have the advantage of the next step."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "CreditConfig":
        read = {
            "uniform": set(),
            "egca": set(type(self).model_fields) - set(STEP_FIELDS),
            "bilevel": set(STEP_FIELDS),
        }[self.method]
        unread = set(type(self).model_fields) - read
        self._refuse(f"credit.method is {self.method!r}", unread)
        if self.localizer:
            self._refuse("credit.localizer is set", {"localization"})
        if self.extractor:
            self._refuse("credit.extractor is set", {"constraints"})
        if self.localization == "none":
            names = {"trace_events", "trace_kb", "trace_cpu_s"}
            self._refuse("credit.localization is 'none'", names)
        return self

    @model_validator(mode="after")
    def _functions_are_named(self) -> "CreditConfig":
        for name in ("extractor", "localizer"):
            value = getattr(self, name)
            if value:
                try:
                    FunctionSettings(function=value)
                except ValueError as error:
                    raise ValueError(f"credit.{name}: {error}") from None
        return self

    @model_validator(mode="after")
    def _prompts_tell_something(self) -> "CreditConfig":
        if self.prompt_constraints and not (self.constraints or self.extractor):
            raise ValueError(
                "credit.prompt_constraints true has no effect while credit.constraints "
                "is empty. List constraints or remove it."
            )
        if len(set(self.constraints)) < len(self.constraints):
            raise ValueError(
                f"credit.constraints {list(self.constraints)} names one twice. Name "
                "each once."
            )
        return self

    def _refuse(self, reason: str, names: set[str]) -> None:
        for name in type(self).model_fields:
            value, default = getattr(self, name), type(self).model_fields[name].default
            if name in names and name != "method" and value != default:
                raise ValueError(
                    f"credit.{name} {value!r} has no effect while {reason}. Remove one "
                    "of them."
                )


def blame_settings(config: "Config") -> BlameSettings | None:
    """Returns how to find blame; None where nothing is blamed.

    Args:
      config: Of a `grpo` run.
    """
    credit, box = config.credit, config.scorer.sandbox
    if credit.method != "egca":
        return None
    return BlameSettings(
        localization=credit.localization,
        constraints=credit.constraints,
        min_similarity=credit.min_similarity,
        limits=Limits(
            cpu_s=credit.trace_cpu_s,
            wall_s=box.wall_s,
            memory_bytes=box.memory_mb * 2**20,
            output_bytes=box.output_kb * 2**10,
            trace_events=credit.trace_events,
            trace_bytes=credit.trace_kb * 2**10,
        ),
        extractor=credit.extractor,
        localizer=credit.localizer,
        skips_tied=_ties_are_dead(config),
        seed=config.run.seed,
    )


def step_settings(config: "Config") -> StepSettings | None:
    """Returns how predicted steps are credited; None where they are not.

    Args:
      config: Of a `grpo` run.
    """
    if config.credit.method != "bilevel":
        return None
    return StepSettings(dropout=config.credit.step_dropout, seed=config.run.seed)


def _ties_are_dead(config: "Config") -> bool:
    """Whether completions with all their host rewards equal have no advantage.

    Not where a device adds to the rewards, nor where others may join their group.
    """
    scopes = {REWARDS[reward.kind] for reward in config.rewards.values()}
    may_be_joined = config.scaffold.tiers or config.replay.method == "samples"
    return "device" not in scopes and not may_be_joined


def check_credit(config: "Config") -> None:
    """Refuses credit that the loss would not keep, or that nothing could be found for.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Says what to change.
    """
    if config.run.mode == "supervised":
        return
    if config.credit.method == "egca":
        _check_egca(config)
    elif config.credit.method == "bilevel":
        _check_steps(config)


def _check_egca(config: "Config") -> None:
    credit, preset = config.credit, config.objective.preset
    if preset not in CREDITED_PRESETS:
        raise ValueError(
            f"credit.method is {credit.method!r}, and with objective.preset {preset!r} "
            "the credits of a completion's tokens would not add up to its advantage: "
            "its loss depends on the length, or on all tokens alike. Set "
            f"objective.preset to one of {', '.join(CREDITED_PRESETS)}."
        )
    kinds = config.data.kinds
    if not set(kinds.split(", ")) & set(PROGRAM_KINDS):
        raise ValueError(
            f"credit.method is {credit.method!r}, which runs programs, and "
            f"data.dataset {config.data.dataset!r} asks for none (kind {kinds!r}). Set "
            "credit.method = 'uniform'."
        )
    if credit.prompt_constraints and "{prompt}" not in config.prompt.template:
        raise ValueError(
            "credit.prompt_constraints are told after {prompt}, which prompt.template "
            "does not have. Put it in, or turn prompt_constraints off."
        )
    num_traced = config.sampling.group_size + 1
    if num_traced * credit.trace_cpu_s >= config.scorer.deadline_s:
        raise ValueError(
            f"credit.trace_cpu_s {credit.trace_cpu_s} for the {num_traced} programs of "
            "a group and its reference is not below scorer.deadline_s "
            f"{config.scorer.deadline_s}, by which the whole group has to be scored. "
            "Lower it or raise the deadline."
        )


def _check_steps(config: "Config") -> None:
    o = config.objective
    if o.preset not in STEP_PRESETS:
        raise ValueError(
            f"credit.method is 'bilevel', and objective.preset {o.preset!r} measures "
            "advantages otherwise than steps do, or gives all tokens of a completion "
            f"the same gradient. Set objective.preset to one of "
            f"{', '.join(STEP_PRESETS)}."
        )
    for name in ("advantage_scale", "advantage_baseline"):
        if getattr(o, name) != "preset":
            raise ValueError(
                f"objective.{name} {getattr(o, name)!r} has no effect while "
                "credit.method is 'bilevel': steps are measured by mean and spread of "
                "their group. Remove it."
            )
    if config.data.dataset not in STEP_DATASETS:
        raise ValueError(
            f"credit.method is 'bilevel', and data.dataset {config.data.dataset!r} "
            f"records no steps. Set it to one of {', '.join(STEP_DATASETS)}, or "
            "credit.method = 'uniform'."
        )
    for name, reward in config.rewards.items():
        is_final_step = reward.kind == "exact" and reward.weight == 1.0
        is_constant = reward.schedule.shape == "constant" and not reward.gate
        if not is_constant or not (is_final_step or reward.weight == 0.0):
            raise ValueError(
                f"rewards.{name}, of kind {reward.kind!r} and weight {reward.weight}, "
                "would teach nothing while credit.method is 'bilevel': completions "
                "learn from their steps, the answer among them. Set its weight to 0 to "
                "log it, without schedule and gate; `exact` may keep weight 1."
            )
