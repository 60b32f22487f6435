"""The tables of a configuration, checked each on its own.

Every field has a meaning, a unit and a default. The tables that say how to learn stand
in `config_learning.py`; `config.py` joins all, and checks what crosses them.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
NonNegativeFloat = Annotated[float, Field(ge=0.0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Decay = Annotated[float, Field(ge=0.0, lt=1.0)]
NonEmptyText = Annotated[str, Field(min_length=1)]
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Table(BaseModel):
    """A table of the configuration: frozen, strict, and closed to unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class RunConfig(Table):
    """What kind of run, how long, and from which seed."""

    mode: Literal["grpo", "supervised"] = "grpo"
    """`grpo` learns from scored samples; `supervised` imitates reference answers."""
    seed: Seed = 0
    """Every random choice of the run derives from it."""
    num_steps: PositiveInt = 100
    """Steps of a `grpo` run, one batch of problems each. Supervised stages have their
    own."""


class ModelConfig(Table):
    """Where the weights come from and how they are computed with."""

    checkpoint: str = ""
    """Folder in Hugging Face layout (config.json, *.safetensors, tokenizer), or
    `builtin:NAME` for a checkpoint shipped with the package."""
    preset: str = ""
    """Architecture to initialise at random instead of loading `checkpoint`."""
    tokenizer: str = ""
    """Folder or `builtin:NAME` of the tokenizer. Only with `preset`; a checkpoint
    brings its own."""
    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the forward pass; weights and moments stay float32. `auto` is
    bfloat16 on accelerators and float32 on CPU."""
    attention: Literal["auto", "xla", "chunked", "splash", "cudnn"] = "auto"
    """How whole sequences attend. `auto` is `splash` on TPU, `cudnn` on GPU in
    bfloat16, and otherwise `xla`, or `chunked` where its scores would be large."""
    remat: Literal["none", "dots", "attention", "full"] = "none"
    """What the backward pass recomputes: nothing; all but matrix products and
    attention (`dots`); the MLP and all that is cheap (`attention`: keeps what
    attention reads and returns); whole layers (`full`). Less memory, more time."""
    unroll_layers: bool = False
    """Unroll the scan over layers: faster for small models on CPU, slower to compile
    for deep ones."""

    @model_validator(mode="after")
    def _one_source(self) -> "ModelConfig":
        if bool(self.checkpoint) == bool(self.preset):
            raise ValueError(
                f"model.checkpoint is {self.checkpoint!r} and model.preset is "
                f"{self.preset!r}. Set exactly one of the two."
            )
        if bool(self.preset) != bool(self.tokenizer):
            raise ValueError(
                f"model.preset is {self.preset!r} and model.tokenizer is "
                f"{self.tokenizer!r}. Set model.tokenizer together with model.preset, "
                "and only then."
            )
        return self


class SandboxConfig(Table):
    """How untrusted programs are confined and limited."""

    level: Literal["auto", "A", "B", "C", "D"] = "auto"
    """A: namespaces + Landlock + seccomp + rlimits; B: A without namespaces; C: B
    without Landlock; D: rlimits only. `auto` takes the best available."""
    minimum_level: Literal["A", "B", "C", "D"] = "B"
    """Refuse to run below this level."""
    allow_unsafe: bool = False
    """Must be true to run at level D."""
    cpu_s: PositiveFloat = 2.0
    """CPU seconds per program."""
    wall_s: PositiveFloat = 10.0
    """Wall-clock seconds per program."""
    memory_mb: PositiveInt = 512
    """Mebibytes per program."""
    output_kb: PositiveInt = 1024
    """Kibibytes of standard output per program."""
    packages: Annotated[tuple[str, ...], Field(strict=False)] = ("numpy",)
    """Installed packages that programs may import; loaded once, before any of them."""

    @model_validator(mode="after")
    def _levels_agree(self) -> "SandboxConfig":
        unsafe = "D" in (self.level, self.minimum_level)
        if unsafe and not self.allow_unsafe:
            raise ValueError(
                f"scorer.sandbox.level is {self.level!r}, minimum_level "
                f"{self.minimum_level!r} and allow_unsafe false, but level D does not "
                "confine programs. Choose level C or better, or set "
                "scorer.sandbox.allow_unsafe = true."
            )
        if self.level != "auto" and self.level > self.minimum_level:
            raise ValueError(
                f"scorer.sandbox.level {self.level!r} is weaker than minimum_level "
                f"{self.minimum_level!r}. Set scorer.sandbox.minimum_level = "
                f"{self.level!r} or choose a stronger scorer.sandbox.level."
            )
        return self

    @model_validator(mode="after")
    def _wall_covers_cpu(self) -> "SandboxConfig":
        if self.wall_s < self.cpu_s:
            raise ValueError(
                f"scorer.sandbox.wall_s {self.wall_s} is shorter than cpu_s "
                f"{self.cpu_s}, so the CPU limit could never be reached. Raise wall_s "
                "or lower cpu_s."
            )
        return self


class ScorerConfig(Table):
    """The worker processes that judge completions."""

    num_workers: NonNegativeInt = 0
    """Worker processes; 0 takes one per CPU core, at most 8."""
    deadline_s: PositiveFloat = 120.0
    """A group that takes longer abstains as an infrastructure error."""
    extraction: Literal[
        "last_block", "one_block", "raw", "after_thinking", "markers"
    ] = "last_block"
    """How a program is found in a completion: the last fenced block of Python; the only
    fenced block, which has to parse; all of it; all that follows `</think>`, which has
    to be there; or what stands between two markers. Thinking is skipped."""
    literal_extraction: Literal[
        "whole", "after_thinking", "last_line", "last_value", "last_block", "markers",
        "boxed",
    ] = "whole"  # fmt: skip
    """How a literal is found, where that is the answer: the whole text, thinking and
    white space included; all that follows `</think>`; the last line, also without
    the name in `NAME: value`; the last fenced block; or what stands between two
    markers, or in LaTeX's box. Lines that a program prints end with a value anyway."""
    answer_opening: NonEmptyText = "[ANSWER]"
    """For `markers`: text after which the answer begins."""
    answer_closing: str = "[/ANSWER]"
    """For `markers`: text, or stop string, at which it ends; empty takes all to the
    end of the completion."""
    stop_at_failure: bool = False
    """Leave out a program's tests after the first that it does not pass. Cheaper, where
    no reward counts the tests passed."""
    max_error_share: Fraction = 0.5
    """A step in which a larger share of rows failed to be scored stops the run."""
    sandbox: SandboxConfig = SandboxConfig()
    """Confinement of the programs that workers run."""

    @model_validator(mode="after")
    def _deadline_covers_a_program(self) -> "ScorerConfig":
        if self.deadline_s < self.sandbox.wall_s:
            raise ValueError(
                f"scorer.deadline_s {self.deadline_s} is shorter than "
                f"scorer.sandbox.wall_s {self.sandbox.wall_s}, so one slow program "
                "would fail its group. Raise deadline_s or lower sandbox.wall_s."
            )
        return self


class MeshConfig(Table):
    """How devices are arranged. The product of the axes is the number of devices."""

    data: Literal["auto"] | PositiveInt = "auto"
    """Replicas that split the batch; `auto` takes the devices that are left."""
    fsdp: PositiveInt = 1
    """Replicas that split batch and weights."""
    tensor: PositiveInt = 1
    """Devices that split heads, MLP and vocabulary."""


class EvaluationConfig(Table):
    """What is measured before, during and after training."""

    split: Literal["validation", "test"] = "test"
    """Split of the evaluations before and after."""
    num_problems: NonNegativeInt = 0
    """Problems of the split to use; 0 takes all."""
    samples_per_problem: PositiveInt = 8
    """Samples for pass@k and dead groups."""
    pass_at: Annotated[tuple[PositiveInt, ...], Field(strict=False)] = (1, 4, 8)
    """The k of pass@k and majority@k; none above samples_per_problem."""
    temperature: PositiveFloat = 1.0
    """Of the samples; the greedy pass has none."""
    every_steps: NonNegativeInt = 0
    """Steps between greedy evaluations on the validation split; 0 for none."""
    num_validation_problems: PositiveInt = 512
    """Problems of the greedy evaluations during training."""
    tail_problems: NonNegativeInt = 0
    """Most problems of the tail: those whose greedy answer was wrong before training.
    They are measured, with samples, together with the evaluations during training;
    nothing learns from them. 0 for none."""
    batch_problems: PositiveInt = 64
    """Problems sampled per dispatch."""
    reference: str = ""
    """Checkpoint that is evaluated on the same problems, and shown beside the result
    (`builtin:NAME`); empty for none."""
    rare_tag: PositiveInt = 20
    """`jaxgrpo evaluate` pools the problems of tags that fewer have."""
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.95
    """Of the intervals that `jaxgrpo evaluate` gives."""
    resamples: Annotated[int, Field(ge=100)] = 2_000
    """Bootstrap samples behind these intervals."""

    @model_validator(mode="after")
    def _enough_samples(self) -> "EvaluationConfig":
        if not self.pass_at or len(set(self.pass_at)) < len(self.pass_at):
            raise ValueError(
                f"evaluation.pass_at is {list(self.pass_at)}. List at least one k, "
                "and each k once."
            )
        if max(self.pass_at) > self.samples_per_problem:
            raise ValueError(
                f"evaluation.pass_at {list(self.pass_at)} needs {max(self.pass_at)} "
                f"samples, samples_per_problem is {self.samples_per_problem}. Raise "
                "evaluation.samples_per_problem or lower evaluation.pass_at."
            )
        return self


class CheckpointConfig(Table):
    """When the run is saved."""

    every_steps: PositiveInt = 20
    """Steps between checkpoints; the last step is always saved."""
    keep: PositiveInt = 2
    """Newest checkpoints kept."""


class LogConfig(Table):
    """Where numbers go."""

    wandb: Literal["auto", "offline", "online", "disabled"] = "auto"
    """`auto` is online where a login exists and offline elsewhere; never prompts."""
    wandb_project: NonEmptyText = "jaxgrpo"
    """Project name in Weights & Biases."""
    console: Literal["auto", "rich", "plain", "quiet"] = "auto"
    """Progress display; `auto` is `rich` on a terminal and `plain` elsewhere."""
    sampler_gap_warning: PositiveFloat = 1e-2
    """Mean |log-prob sampler - trainer| in nats above which a step warns."""
