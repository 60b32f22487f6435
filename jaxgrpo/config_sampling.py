"""The tables that say how problems become prompts, and prompts completions."""

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    NonEmptyText,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Table,
)
from jaxgrpo.host.user_message import PLAIN_TEMPLATE, checked_template


class PromptExample(Table):
    """A question with its answer, shown before the problem."""

    user: NonEmptyText
    """The user's message, as it is; `prompt.template` is not applied."""
    assistant: NonEmptyText
    """What is answered. In plain format it follows the message at once."""


class PromptConfig(Table):
    """How a problem becomes tokens."""

    format: Literal["chat", "plain"] = "chat"
    """`chat` renders messages by the tokenizer's chat template; `plain` writes them one
    after the other, for base models that have none."""
    system: str = ""
    """System message; empty for none."""
    template: NonEmptyText = PLAIN_TEMPLATE
    """The user's message: {prompt} and the columns of the data by name, such as {code};
    {{ and }} are braces."""
    examples: Annotated[tuple[PromptExample, ...], Field(strict=False)] = ()
    """Answered questions before the problem, in order."""
    enable_thinking: bool = False
    """Passed to the chat template, recorded with the run. Where the template does not
    heed it, the run says so as it begins."""
    max_prompt_tokens: PositiveInt = 96
    """Longer prompts are dropped, with a count, never truncated. Also the width of the
    prompt cache."""

    @model_validator(mode="after")
    def _template_can_be_filled(self) -> "PromptConfig":
        checked_template(self.template)
        return self

    @model_validator(mode="after")
    def _plain_text_has_no_thinking(self) -> "PromptConfig":
        if self.format == "plain" and self.enable_thinking:
            raise ValueError(
                "prompt.enable_thinking true has no effect while prompt.format is "
                "'plain', which uses no chat template. Remove one of them."
            )
        return self


class SamplingStage(Table):
    """First steps of training with a smaller token budget than max_new_tokens."""

    num_steps: PositiveInt
    """Steps that it lasts."""
    max_new_tokens: PositiveInt
    """Token budget of a completion meanwhile."""


class SamplingConfig(Table):
    """How completions are drawn during training."""

    problems_per_step: PositiveInt = 64
    """Q: problems in a step."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """G: completions of each problem."""
    temperature: PositiveFloat = 1.0
    """Softmax temperature, of the sampler and of the trained log-probs alike."""
    max_new_tokens: PositiveInt = 24
    """T: token budget of a completion, the end-of-sequence token included."""
    stages: Annotated[tuple[SamplingStage, ...], Field(strict=False)] = ()
    """Smaller budgets for the first steps of training, growing from one to the next;
    `max_new_tokens` holds after them, and in evaluations. Programs have the shape of
    `max_new_tokens` throughout: a stage compiles nothing."""
    top_k: Annotated[int, Field(ge=0, le=256)] = 0
    """Draw from the so many most likely tokens; 0 draws from all. The ids are kept with
    the rollouts, and the trainer's log-probs are of the same renormalised policy."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Of those, draw from the fewest most likely whose probability reaches this."""
    min_p: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Of those, draw from the ones at least this times as likely as the likeliest."""
    stop: Annotated[tuple[NonEmptyText, ...], Field(strict=False)] = ()
    """Texts that end a completion, besides its end-of-sequence tokens. The text is cut
    before them, the tokens after the one that completes them."""
    constraint: str = ""
    """Form that completions must have: `python_literal`, `json`, `regex:PATTERN` or
    `choice:ONE|TWO`; empty for none. Tokens that leave it cannot be drawn."""
    constraint_after: str = ""
    """Text or special token after which that form begins; before it everything may be
    written. Empty constrains the whole completion."""
    constraint_until: str = ""
    """Text that must follow the form before the completion ends."""
    slots: NonNegativeInt = 0
    """Problems in flight at a time; a problem that is complete makes room for the next.
    0 takes all problems of a step."""
    rows_per_problem: NonNegativeInt = 0
    """Completions of a problem drawn at a time; one that ends makes room for the
    problem's next. 0 draws all at once."""
    segment_tokens: PositiveInt = 64
    """Most tokens drawn in one dispatch, after which stop strings are looked for."""
    cache_dtype: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    """How keys and values are kept; `auto` as they are computed. `int8` halves the
    memory and needs objective.correction, as it samples from another policy."""
    gather_weights: bool = True
    """Make weights that mesh.fsdp splits whole while sampling; false gathers a layer at
    a time for every token: slow, but each device holds only its part."""

    def budget_at(self, step: int) -> int:
        """Returns the token budget of a completion in a training step.

        Args:
          step: Steps made before it.
        """
        for stage in self.stages:
            if step < stage.num_steps:
                return stage.max_new_tokens
            step -= stage.num_steps
        return self.max_new_tokens

    def stages_text(self) -> str:
        """Returns in a line how the token budget grows."""
        parts, step = [], 0
        for stage in self.stages:
            step += stage.num_steps
            parts.append(f"{stage.max_new_tokens} up to step {step}")
        return f"tokens per completion: {', '.join(parts)}, then {self.max_new_tokens}."

    @model_validator(mode="after")
    def _stages_grow(self) -> "SamplingConfig":
        budgets = [stage.max_new_tokens for stage in self.stages]
        budgets.append(self.max_new_tokens)
        for earlier, later in pairwise(budgets):
            if earlier >= later:
                raise ValueError(
                    f"sampling.stages have the budgets {budgets[:-1]}, and "
                    f"sampling.max_new_tokens {budgets[-1]} follows them: {later} is "
                    f"not more than {earlier}. Let each budget exceed the one before."
                )
        return self

    @model_validator(mode="after")
    def _truncation_is_bounded(self) -> "SamplingConfig":
        if (self.top_p < 1.0 or self.min_p > 0.0) and not self.top_k:
            raise ValueError(
                f"sampling.top_p is {self.top_p} and min_p {self.min_p}, but "
                "sampling.top_k is 0: the ids kept for the trainer would have no "
                "bound. Set sampling.top_k, to 64 for instance."
            )
        if self.top_k == 1:
            raise ValueError(
                "sampling.top_k is 1: all completions of a problem would be the same. "
                "Set it to 0 or to 2 or more."
            )
        return self

    @model_validator(mode="after")
    def _markers_mark_something(self) -> "SamplingConfig":
        for name in ("constraint_after", "constraint_until"):
            if getattr(self, name) and not self.constraint:
                raise ValueError(
                    f"sampling.{name} {getattr(self, name)!r} has no effect without "
                    "sampling.constraint. Name a constraint or remove it."
                )
        return self

    @model_validator(mode="after")
    def _constraint_is_known(self) -> "SamplingConfig":
        if self.constraint:
            # Imported late: few configurations have one.
            from jaxgrpo.host.constraints import check_pattern, parse_constraint

            check_pattern(
                parse_constraint(
                    self.constraint,
                    after=self.constraint_after,
                    until=self.constraint_until,
                )
            )
        return self

    @model_validator(mode="after")
    def _rows_are_used(self) -> "SamplingConfig":
        limits = {
            "slots": ("problems_per_step", self.problems_per_step),
            "rows_per_problem": ("group_size", self.group_size),
        }
        for name, (other, limit) in limits.items():
            if getattr(self, name) > limit:
                raise ValueError(
                    f"sampling.{name} {getattr(self, name)} is more than "
                    f"sampling.{other} {limit}, all there are. Lower it, or set it to "
                    "0 to take all."
                )
        return self
