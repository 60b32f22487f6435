"""The tables `rewards.NAME`: one schema per kind, made from its reward's settings."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_origin,
    get_type_hints,
)

from pydantic import Field, create_model, model_validator

from jaxgrpo.config_tables import NonNegativeInt, Table
from jaxgrpo.host.rewards import (
    RewardSpec,
    format,
    overlong,
    reward_names,
    reward_summary,
    settings_class,
    tests,
)
from jaxgrpo.host.rewards.schedule import Schedule


class ScheduleConfig(Table):
    """How the weight of a reward changes during the run."""

    shape: Literal["constant", "linear", "switch"] = "constant"
    """`constant` keeps `weight`; `linear` moves it to `to` between two steps; `switch`
    changes it at once, at a step or when a metric first reaches a value."""
    to: float = 0.0
    """The weight afterwards."""
    begin: NonNegativeInt = 0
    """Steps made before the weight changes, or begins to."""
    end: NonNegativeInt = 0
    """Steps made before a `linear` change is complete."""
    when: str = ""
    """Metric of the log, such as `exact_match`, that a `switch` waits for."""
    reaches: float = 0.0
    """Its value from which on, in a step, the weight is `to` in all steps after."""
    falling: bool = False
    """The metric has to come down to that value, and not up to it."""

    @model_validator(mode="after")
    def _shape_fits(self) -> "ScheduleConfig":
        used = {
            "constant": (),
            "linear": ("to", "begin", "end"),
            "switch": (
                ("to", "when", "reaches", "falling") if self.when else ("to", "begin")
            ),
        }[self.shape]
        for name in ("to", "begin", "end", "when", "reaches", "falling"):
            value = getattr(self, name)
            if name not in used and value != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} {value!r} has no effect with shape "
                    f"{self.shape!r}{' and when' if self.when else ''}. Remove it or "
                    "change shape."
                )
        if self.shape == "linear" and self.end <= self.begin:
            raise ValueError(
                f"end {self.end} is not after begin {self.begin}. Raise it."
            )
        if self.shape == "switch" and not (self.begin or self.when):
            raise ValueError(
                "shape is 'switch' and nothing says when. Set begin to a step, or when "
                "and reaches to a metric and its value."
            )
        return self


class RewardConfig(Table):
    """One reward, under its name."""

    weight: float = 1.0
    """Factor in the weighted sum; 0 computes and logs the reward without using it."""
    kind: str = ""
    """Which reward it is; the name of the table may then be any. Without it, the name
    says it, or `function` does."""
    gate: str = ""
    """Name of another reward: where that is below `gate_at` this one counts 0. It keeps
    an easy reward from being learnt instead of a hard one."""
    gate_at: float = 1.0
    """Value of the other reward from which on this one counts."""
    schedule: ScheduleConfig = ScheduleConfig()
    """How the weight changes during the run."""

    @property
    def settings(self) -> Any:
        """What the reward itself may be told."""
        settings = settings_class(self.kind)
        names = [field.name for field in dataclasses.fields(settings)]
        return settings(**{name: getattr(self, name) for name in names})

    @property
    def weight_schedule(self) -> Schedule:
        """The weight of every step."""
        return Schedule(weight=self.weight, **self.schedule.model_dump())

    def spec(self, name: str) -> RewardSpec:
        """Returns the reward as the scorer takes it."""
        return RewardSpec(name=name, kind=self.kind, settings=self.settings)

    @model_validator(mode="after")
    def _makes_sense(self) -> "RewardConfig":
        if self.kind:
            _ = self.settings  # refuses values that do not fit
        if not self.gate and self.gate_at != 1.0:
            raise ValueError(
                f"gate_at {self.gate_at} has no effect without gate. Name a gate or "
                "remove it."
            )
        if self.schedule.shape != "constant" and self.schedule.to == self.weight:
            raise ValueError(
                f"schedule.to {self.schedule.to} is the weight already. Change one of "
                "them or remove the schedule."
            )
        return self


def _field_docs(cls: type) -> dict[str, str]:
    """The text below each field of a dataclass. Python itself forgets it."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            docs[field.target.id] = inspect.cleandoc(ast.literal_eval(text.value))
    return docs


def _model_of(kind: str) -> type[RewardConfig]:
    """The table of one kind of reward: what all have, and what its settings add."""
    settings = settings_class(kind)
    docs, hints = _field_docs(settings), get_type_hints(settings)
    kind_field = Field(
        default=kind, description=RewardConfig.model_fields["kind"].description
    )
    fields: dict[str, Any] = {"kind": (Literal[kind], kind_field)}
    for field in dataclasses.fields(settings):
        assert field.name not in RewardConfig.model_fields, (
            f"{kind}.Settings.{field.name} is what every reward has"
        )
        has_default = field.default is not dataclasses.MISSING
        fields[field.name] = (
            hints[field.name],
            Field(
                default=field.default if has_default else ...,
                description=docs[field.name],
                strict=False if get_origin(hints[field.name]) is tuple else None,
            ),
        )
    return create_model(
        f"{kind.title().replace('_', '')}Reward",
        __base__=RewardConfig,
        __doc__=reward_summary(kind),
        **fields,
    )


REWARD_TABLES: dict[str, type[RewardConfig]] = {
    kind: _model_of(kind) for kind in reward_names()
}
"""The table of each kind."""

if TYPE_CHECKING:
    from jaxgrpo.config import Config

    AnyReward = RewardConfig
else:
    AnyReward = Annotated[
        Union[tuple(REWARD_TABLES.values())],  # noqa: UP007 (there is no other way)
        Field(discriminator="kind"),
    ]


def with_kinds(rewards: Mapping[str, Any]) -> dict[str, Any]:
    """Returns tables of rewards, each with the kind that it leaves to its name.

    Args:
      rewards: As written, by name.
    """
    return {name: _with_kind(name, table) for name, table in rewards.items()}


def _with_kind(name: str, table: Any) -> Any:
    if type(table) is RewardConfig:
        table = table.model_dump(exclude_unset=True)
    if not isinstance(table, Mapping):
        return table
    return {"kind": "function" if "function" in table else name} | dict(table)


def check_rewards(
    rewards: Mapping[str, RewardConfig], *, num_steps: int, deadline_s: float
) -> None:
    """Refuses rewards that contradict each other, or would never do anything.

    Args:
      rewards: By name.
      num_steps: Of the run.
      deadline_s: Seconds that scoring a group may take.
    """
    for name, reward in rewards.items():
        if name in REWARD_TABLES and reward.kind != name:
            raise ValueError(
                f"rewards.{name} is of kind {reward.kind!r}, but {name!r} is the name "
                "of another reward. Rename the table."
            )
        if reward.gate and (reward.gate == name or reward.gate not in rewards):
            others = ", ".join(other for other in rewards if other != name)
            raise ValueError(
                f"rewards.{name}.gate {reward.gate!r} is no other reward of the run. "
                f"{f'There are: {others}' if others else 'Add its table'}."
            )
        if reward.schedule.begin >= num_steps:
            raise ValueError(
                f"rewards.{name}.schedule.begin {reward.schedule.begin} is never "
                f"reached: run.num_steps is {num_steps}. Lower it."
            )
        limit_s = getattr(reward, "timeout_s", 0.0)
        if limit_s >= deadline_s:
            raise ValueError(
                f"rewards.{name}.timeout_s {limit_s} is not below scorer.deadline_s "
                f"{deadline_s}, by which the whole group has to be scored. Lower it or "
                "raise the deadline."
            )
    if rewards and not any(r.weight or r.schedule.to for r in rewards.values()):
        raise ValueError(
            f"every reward ({', '.join(rewards)}) has weight 0, so nothing "
            "would be learnt. Set one rewards.<name>.weight to another value."
        )


def check_rewards_apply(config: "Config") -> None:
    """Refuses settings of rewards that what else is configured leaves without effect.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Says what to change.
    """
    extraction, longest = config.scorer.extraction, config.sampling.max_new_tokens
    for name, reward in config.rewards.items():
        settings = reward.settings
        if isinstance(settings, tests.Settings) and settings.mode != "binary":
            if config.scorer.stop_at_failure:
                raise ValueError(
                    f"rewards.{name}.mode {settings.mode!r} counts the tests passed, "
                    "and scorer.stop_at_failure leaves out those after the first "
                    "failure. Set scorer.stop_at_failure = false."
                )
        if isinstance(settings, overlong.Settings):
            start = settings.max_tokens - settings.buffer_tokens
            if start >= longest:
                raise ValueError(
                    f"rewards.{name} punishes completions of more than {start} tokens "
                    "(max_tokens - buffer_tokens), and none has more than "
                    f"sampling.max_new_tokens {longest}. Set rewards.{name}.max_tokens "
                    f"to {longest} and rewards.{name}.buffer_tokens to a part of it."
                )
        if isinstance(settings, format.Settings) and settings.only_block:
            if extraction in ("raw", "whole"):
                raise ValueError(
                    f"rewards.{name}.only_block asks for a fenced block, and "
                    f"scorer.extraction is {extraction!r}: programs stand in none. "
                    f"Set rewards.{name}.only_block = false."
                )
