"""The schema of a run: all tables, and the checks that cross them.

A run is one TOML file. Unknown keys, wrong types and impossible combinations are
refused here, once, in one line that names the field, the value and what to change.
Loading and command-line overrides live in `config_loading.py`.
"""

from typing import Any

from pydantic import Field, field_validator, model_validator

from jaxgrpo.config_combinations import check_combinations
from jaxgrpo.config_credit import CreditConfig, check_credit
from jaxgrpo.config_data import DataConfig
from jaxgrpo.config_distill import DistillConfig, check_distill
from jaxgrpo.config_experimental import ExperimentalConfig, check_experimental
from jaxgrpo.config_guard import GuardConfig, check_guard
from jaxgrpo.config_learning import (
    LoraConfig,
    ObjectiveConfig,
    OptimizerConfig,
    SupervisedConfig,
    SupervisedStage,
)
from jaxgrpo.config_methods import (
    CurriculumConfig,
    DynamicSamplingConfig,
    ReplayConfig,
    ScaffoldConfig,
    TemperatureConfig,
    TruncationMaskConfig,
    check_temperatures,
)
from jaxgrpo.config_redistribution import (
    RedistributionConfig,
    check_redistribution,
)
from jaxgrpo.config_rewards import (
    AnyReward,
    RewardConfig,
    check_rewards,
    check_rewards_apply,
    with_kinds,
)
from jaxgrpo.config_sampling import PromptConfig, SamplingConfig
from jaxgrpo.config_scaffold import check_scaffold
from jaxgrpo.config_tables import (
    CheckpointConfig,
    EvaluationConfig,
    LogConfig,
    MeshConfig,
    ModelConfig,
    RunConfig,
    SandboxConfig,
    ScorerConfig,
    Table,
)
from jaxgrpo.config_toml import toml_value
from jaxgrpo.device.cuts import legal_microbatches

__all__ = [
    "CheckpointConfig",
    "Config",
    "CreditConfig",
    "CurriculumConfig",
    "DataConfig",
    "DistillConfig",
    "DynamicSamplingConfig",
    "EvaluationConfig",
    "ExperimentalConfig",
    "GuardConfig",
    "LogConfig",
    "LoraConfig",
    "MeshConfig",
    "ModelConfig",
    "ObjectiveConfig",
    "OptimizerConfig",
    "PromptConfig",
    "RedistributionConfig",
    "ReplayConfig",
    "RewardConfig",
    "RunConfig",
    "SamplingConfig",
    "SandboxConfig",
    "ScaffoldConfig",
    "ScorerConfig",
    "SupervisedConfig",
    "SupervisedStage",
    "Table",
    "TemperatureConfig",
    "TruncationMaskConfig",
]


class Config(Table):
    """A whole run."""

    run: RunConfig = RunConfig()
    model: ModelConfig
    data: DataConfig = DataConfig()
    prompt: PromptConfig = PromptConfig()
    sampling: SamplingConfig = SamplingConfig()
    scorer: ScorerConfig = ScorerConfig()
    rewards: dict[str, AnyReward] = Field(default_factory=dict)
    """Rewards by name: `[rewards.exact]`."""
    guard: GuardConfig = GuardConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    scaffold: ScaffoldConfig = ScaffoldConfig()
    dynamic_sampling: DynamicSamplingConfig = DynamicSamplingConfig()
    replay: ReplayConfig = ReplayConfig()
    truncation_mask: TruncationMaskConfig = TruncationMaskConfig()
    temperature: TemperatureConfig = TemperatureConfig()
    credit: CreditConfig = CreditConfig()
    redistribution: RedistributionConfig = RedistributionConfig()
    experimental: ExperimentalConfig = ExperimentalConfig()
    distill: DistillConfig = DistillConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    lora: LoraConfig = LoraConfig()
    mesh: MeshConfig = MeshConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    log: LogConfig = LogConfig()
    supervised: SupervisedConfig = SupervisedConfig()

    @field_validator("rewards", mode="before")
    @classmethod
    def _kinds_of_rewards(cls, rewards: Any) -> Any:
        return with_kinds(rewards) if isinstance(rewards, dict) else rewards

    @model_validator(mode="after")
    def _parts_fit(self) -> "Config":
        _check_batch_arithmetic(self)
        _check_problem_counts(self)
        _check_splits(self)
        _check_mode(self)
        _check_warmup(self)
        _check_cache(self)
        check_temperatures(self)
        check_combinations(self)
        check_scaffold(self)
        check_guard(self)
        check_credit(self)
        check_redistribution(self)
        check_experimental(self)
        check_distill(self)
        _check_answer_can_be_written(self)
        _check_nothing_is_idle(self)
        return self

    @property
    def batch_size(self) -> int:
        """B: rows of a step."""
        return self.sampling.problems_per_step * self.sampling.group_size

    @property
    def drawn_problems(self) -> tuple[str, int]:
        """The field that says how many problems are drawn at a time, and its value."""
        if self.run.mode == "supervised":
            number = self.supervised.problems_per_batch
            return "supervised.problems_per_batch", number
        return "sampling.problems_per_step", self.sampling.problems_per_step

    @property
    def num_steps(self) -> int:
        """Steps that a `grpo` run makes: none if it ends before the first."""
        return 0 if self.distill.only else self.run.num_steps

    @property
    def num_updates(self) -> int:
        """Optimiser updates of a `grpo` run."""
        per_step = self.objective.updates_per_rollout * self.objective.minibatches
        return self.run.num_steps * per_step


def _check_batch_arithmetic(config: Config) -> None:
    axes = config.mesh
    check_cuts(config, axes.fsdp * (1 if axes.data == "auto" else axes.data))


def check_cuts(config: Config, num_shards: int) -> None:
    """Refuses updates and microbatches that do not come out even.

    Args:
      config: Of a `grpo` run.
      num_shards: Devices along the mesh axes that split rows.

    Raises:
      ValueError: If whole prompts cannot be split over the shards, or their rows into
        equal microbatches.
    """
    problems, minibatches = (
        config.sampling.problems_per_step,
        config.objective.minibatches,
    )
    if problems % minibatches:
        raise ValueError(
            f"sampling.problems_per_step {problems} does not divide by "
            f"objective.minibatches {minibatches}. Set sampling.problems_per_step to a "
            f"multiple of {minibatches}."
        )
    per_update = problems // minibatches
    if per_update % num_shards:
        raise ValueError(
            f"an update of {per_update} problems (sampling.problems_per_step "
            f"{problems} / objective.minibatches {minibatches}) does not divide by "
            f"mesh.data * mesh.fsdp = {num_shards}. Set sampling.problems_per_step to "
            f"a multiple of {minibatches * num_shards}."
        )
    if config.sampling.slots % num_shards:
        raise ValueError(
            f"sampling.slots {config.sampling.slots} does not divide by mesh.data * "
            f"mesh.fsdp = {num_shards}. Set it to a multiple of {num_shards}."
        )
    group_size, parts = config.sampling.group_size, config.objective.microbatches
    legal = legal_microbatches(per_update, group_size, num_shards)
    if parts not in legal:
        raise ValueError(
            f"objective.microbatches {parts} does not cut {per_update} problems of "
            f"{group_size} completions on {num_shards} shards of the batch into equal "
            f"parts. Set it to one of {legal}."
        )


def _check_problem_counts(config: Config) -> None:
    """Refuses to draw more problems from a split than it holds."""
    evaluation = config.evaluation
    wanted = [
        (*config.drawn_problems, config.data.split),
        ("evaluation.num_problems", evaluation.num_problems, evaluation.split),
    ]
    if evaluation.every_steps:
        number = evaluation.num_validation_problems
        wanted.append(("evaluation.num_validation_problems", number, "validation"))
    for name, number, split in wanted:
        available = config.data.limit_of(split)
        if available and number > available:
            raise ValueError(
                f"{name} {number} is more than data.num_{split} {available}, all the "
                f"problems there are. Lower {name} or raise data.num_{split}."
            )


def _check_splits(config: Config) -> None:
    if config.data.split == config.evaluation.split:
        raise ValueError(
            f"data.split and evaluation.split are both {config.data.split!r}: the "
            "result would be measured on training problems. Change one of them."
        )
    if config.evaluation.every_steps and config.data.split == "validation":
        raise ValueError(
            "data.split is 'validation', on which evaluation.every_steps "
            f"{config.evaluation.every_steps} measures progress. Train on another "
            "split or set evaluation.every_steps = 0."
        )


def _check_mode(config: Config) -> None:
    mode, stages = config.run.mode, config.supervised.stages
    if mode == "grpo" and not config.rewards:
        raise ValueError(
            "no reward is configured. Add a table such as [rewards.exact] with "
            "weight = 1.0."
        )
    if mode == "grpo":
        check_rewards(
            config.rewards,
            num_steps=config.run.num_steps,
            deadline_s=config.scorer.deadline_s,
        )
        check_rewards_apply(config)
    if mode == "grpo" and stages:
        raise ValueError(
            f"run.mode is 'grpo' and supervised.stages has {len(stages)} stages that "
            "would not run. Remove them or set run.mode = 'supervised'."
        )
    if mode == "supervised" and not stages:
        raise ValueError(
            "run.mode is 'supervised' and supervised.stages is empty. "
            "Add at least one [[supervised.stages]] with name and num_steps."
        )


def _check_warmup(config: Config) -> None:
    warmup = config.optimizer.warmup_steps
    updates, name = config.num_updates, "the run"
    if config.run.mode == "supervised":
        shortest = min(config.supervised.stages, key=lambda stage: stage.num_steps)
        updates, name = shortest.num_steps, f"stage {shortest.name!r}"
    if warmup > updates:
        raise ValueError(
            f"optimizer.warmup_steps {warmup} is longer than {name}, which makes "
            f"{updates} updates. Lower optimizer.warmup_steps to {updates} or less."
        )


def _check_cache(config: Config) -> None:
    if config.sampling.cache_dtype == "int8" and config.objective.correction == "none":
        raise ValueError(
            "sampling.cache_dtype is 'int8', which samples from a policy that is not "
            "quite the trainer's, and objective.correction is 'none'. Set "
            "objective.correction, to 'token_truncate' for instance."
        )


def _check_answer_can_be_written(config: Config) -> None:
    scorer, stop = config.scorer, config.sampling.stop
    if "markers" not in (scorer.extraction, scorer.literal_extraction):
        return
    for text in stop:
        if text in scorer.answer_opening:
            raise ValueError(
                f"sampling.stop {text!r} ends completions at scorer.answer_opening "
                f"{scorer.answer_opening!r}, before any answer. Stop at "
                f"scorer.answer_closing {scorer.answer_closing!r} instead."
            )


_GRPO_ONLY = (
    "run.num_steps",
    "sampling.problems_per_step",
    "sampling.group_size",
    "sampling.temperature",
    "sampling.stages",
    "sampling.slots",
    "sampling.rows_per_problem",
    "sampling.cache_dtype",
    "dynamic_sampling.max_tries",
    "curriculum.order",
    "replay.method",
    "scaffold.tiers",
    "truncation_mask.probability",
    "temperature.then",
    "credit.method",
    "redistribution.graders",
    "experimental.method",
    "distill.at_steps",
    "evaluation.reference",
    "evaluation.tail_problems",
    *(
        f"objective.{name}"
        for name in ObjectiveConfig.model_fields
        if name != "logprob_chunk"
    ),
)
"""Fields that the supervised mode does not read."""


def _check_nothing_is_idle(config: Config) -> None:
    """Refuses a field that was changed and would have no effect."""
    if config.run.mode == "supervised":
        _refuse_changed(config, _GRPO_ONLY, "run.mode is 'supervised'")
        if config.rewards:
            raise ValueError(
                f"rewards.{next(iter(config.rewards))} has no effect while run.mode is "
                "'supervised'. Remove the table."
            )
    else:
        names = ("supervised.problems_per_batch",)
        _refuse_changed(config, names, "run.mode is 'grpo'")
    if not (config.evaluation.every_steps or config.temperature.calibration_problems):
        names = ("evaluation.num_validation_problems",)
        _refuse_changed(config, names, "evaluation.every_steps is 0")
    if "markers" not in (config.scorer.extraction, config.scorer.literal_extraction):
        names = ("scorer.answer_opening", "scorer.answer_closing")
        _refuse_changed(config, names, "no extraction of scorer is 'markers'")
    if not config.lora.rank:
        names = ("lora.alpha", "lora.targets")
        _refuse_changed(config, names, "lora.rank is 0")
    elif config.objective.ref_sync_steps:
        raise ValueError(
            f"objective.ref_sync_steps {config.objective.ref_sync_steps} would move "
            f"the reference, which with lora.rank {config.lora.rank} is the frozen "
            "base. Set one of them to 0."
        )
    if config.mesh.fsdp == 1:
        names = ("sampling.gather_weights",)
        _refuse_changed(config, names, "mesh.fsdp is 1")
    if config.objective.kl_coef and not config.objective.ref_sync_steps:
        names = ("objective.ref_mixup",)
        _refuse_changed(config, names, "objective.ref_sync_steps is 0")
    if config.optimizer.name == "adamw":
        names = ("optimizer.muon_learning_rate",)
        _refuse_changed(config, names, "optimizer.name is 'adamw'")
    if config.optimizer.schedule == "constant":
        names = ("optimizer.decay_fraction", "optimizer.final_scale")
        _refuse_changed(config, names, "optimizer.schedule is 'constant'")


def _refuse_changed(config: Config, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        table_name, field = name.split(".")
        table = getattr(config, table_name)
        default = type(table).model_fields[field].default
        value = getattr(table, field)
        if value != default:
            raise ValueError(
                f"{name} {value!r} has no effect while {reason}. Remove it or set "
                f"{name}={toml_value(default)}, its default."
            )
