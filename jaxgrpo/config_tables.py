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


class DataConfig(Table):
    """Which problems are trained on."""

    dataset: Literal["output_prediction"] = "output_prediction"
    """Name of the data set."""
    split: Literal["train", "validation", "test"] = "train"
    """Split that training draws from."""
    cache_dir: str = "~/.cache/jaxgrpo"
    """Folder for prepared data sets."""
    seed: Seed = 0
    """Seed of the generator of built-in data sets (not of the order of training)."""
    num_train: PositiveInt = 20_000
    """Problems to generate for the train split of a built-in data set."""
    num_validation: PositiveInt = 512
    """Problems to generate for the validation split."""
    num_test: PositiveInt = 2_000
    """Problems to generate for the test split."""
    build_workers: NonNegativeInt = 0
    """Processes that prepare the data set; 0 takes one per CPU core."""


class PromptConfig(Table):
    """How a problem becomes tokens."""

    system: str = ""
    """System message; empty for none."""
    enable_thinking: bool = False
    """Passed to the chat template; recorded with the run."""
    max_prompt_tokens: PositiveInt = 96
    """Longer prompts are dropped, with a count, never truncated. Also the width of the
    prompt cache."""


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
    extraction: Literal["last_block", "one_block", "raw"] = "last_block"
    """How a program is found in a completion: the last fenced block of Python; the only
    fenced block, which has to parse; or the whole text. Thinking is skipped."""
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


class RewardConfig(Table):
    """One reward, under its name."""

    weight: float = 1.0
    """Factor in the weighted sum; 0 computes and logs the reward without using it."""


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
    """The k of pass@k; none above samples_per_problem."""
    temperature: PositiveFloat = 1.0
    """Of the samples; the greedy pass has none."""
    every_steps: NonNegativeInt = 0
    """Steps between greedy evaluations on the validation split; 0 for none."""
    num_validation_problems: PositiveInt = 512
    """Problems of the greedy evaluations during training."""
    batch_problems: PositiveInt = 64
    """Problems sampled per dispatch."""
    reference: str = ""
    """Checkpoint that is evaluated on the same problems, and shown beside the result
    (`builtin:NAME`); empty for none."""

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
