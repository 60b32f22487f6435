"""The table `[experimental]`: methods of which a formula is published in part or not.

They may change, or go, without notice.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Table,
)

if TYPE_CHECKING:
    from jaxgrpo.config import Config

TOKEN_PRESETS = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo")
"""Objectives with a ratio a token, which a trace can take the place of."""
CREDITED_PRESETS = (*TOKEN_PRESETS, "gspo_token")
"""Objectives that give each token a gradient of its own."""
Share = Annotated[float, Field(gt=0.0, le=1.0)]


class ExperimentalConfig(Table):
    """Methods that are not published in full: a reading of each. May change."""

    method: Literal["none", "oar", "sc_grpo", "s_trace"] = "none"
    """`oar` weighs tokens by their influence on the answer; `sc_grpo` by how far the
    policy parts from itself when it is shown a right completion; `s_trace` carries
    ratios along in traces of the tokens of high entropy."""
    form: Literal["gradient", "perturbation"] = "gradient"
    """How influence is measured (`oar`): by the slope of the embeddings, two forward
    passes and a backward one, or by masking each token in turn, a pass a token."""
    threshold: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.25
    """Influence, of the largest in the completion, that weighs 1 (`oar`)."""
    boost: NonNegativeFloat = 1.0
    """Extra weight of the largest (`oar`)."""
    within_answer: bool = False
    """Weigh the answer's tokens too, by their influence on the rest of it (`oar`):
    without it a completion that is all answer, such as a bare program, is uniform."""
    noise: PositiveFloat = 1e-3
    """Standard deviation of the noise on embeddings (`oar`, `gradient`)."""
    masked_at_once: PositiveInt = 8
    """Tokens masked side by side, each in a copy of its row: more memory and fewer
    passes over the prompts (`oar`, `perturbation`)."""
    reference_tokens: PositiveInt = 512
    """Most tokens of a prompt that shows a completion; groups whose prompts are longer
    are plain (`sc_grpo`)."""
    exploration: NonNegativeFloat = 1.0
    """Factor of the advantages by unlikeness in all-wrong groups; 0 for none
    (`sc_grpo`)."""
    scale_floor: PositiveFloat = 1e-6
    """Least divergence, nats, that is weighed by a half (`sc_grpo`)."""
    trace_decay: Fraction = 0.95
    """Decay of a trace a token (`s_trace`)."""
    trace_share: Share = 0.2
    """Share of tokens, those of highest entropy, that are traced (`s_trace`)."""

    @model_validator(mode="after")
    def _nothing_is_idle(self) -> "ExperimentalConfig":
        for name, method in _READERS.items():
            if self.method != method:
                self._refuse(name, f"experimental.method is {self.method!r}")
        for name, form in {
            "noise": "gradient",
            "masked_at_once": "perturbation",
        }.items():
            if self.form != form:
                self._refuse(name, f"experimental.form is {self.form!r}")
        return self

    def _refuse(self, name: str, reason: str) -> None:
        value, default = getattr(self, name), type(self).model_fields[name].default
        if value != default:
            raise ValueError(
                f"experimental.{name} {value!r} has no effect while {reason}. Remove "
                "one of them."
            )


_READERS = {
    **dict.fromkeys(
        ("form", "threshold", "boost", "within_answer", "noise", "masked_at_once"),
        "oar",
    ),
    **dict.fromkeys(("reference_tokens", "exploration", "scale_floor"), "sc_grpo"),
    **dict.fromkeys(("trace_decay", "trace_share"), "s_trace"),
}


def check_experimental(config: "Config") -> None:
    """Refuses a method that the rest of the run leaves no room for.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Says what to change.
    """
    method, preset = config.experimental.method, config.objective.preset
    if method == "none" or config.run.mode == "supervised":
        return
    fitting = TOKEN_PRESETS if method == "s_trace" else CREDITED_PRESETS
    if preset not in fitting:
        reason = "moves all tokens of a completion alike, whatever their credit"
        if method == "s_trace":
            reason = "has ratios of its own, which traces would replace"
        raise ValueError(
            f"experimental.method is {method!r}, and objective.preset {preset!r} "
            f"{reason}. Set objective.preset to one of {', '.join(fitting)}."
        )
    if method == "s_trace" and preset == "cispo":
        _refuse_constant_ratios(config)
    if method == "sc_grpo" and config.sampling.group_size < 3:
        raise ValueError(
            "experimental.method is 'sc_grpo', which weighs groups with two right "
            "completions and one that is wrong, and sampling.group_size is "
            f"{config.sampling.group_size}. Raise it to 3 or more."
        )


def _refuse_constant_ratios(config: "Config") -> None:
    """Refuses traces without effect: CISPO's ratios are weights without a gradient.

    They are 1 in the first update, but for completions of earlier policies.
    """
    o = config.objective
    if o.updates_per_rollout * o.minibatches == 1 and config.replay.method == "none":
        raise ValueError(
            "experimental.method 's_trace' has no effect with objective.preset 'cispo' "
            "and one update per step: its ratios are all 1 and have no gradient. Raise "
            "objective.updates_per_rollout or objective.minibatches, or set another "
            "preset."
        )
