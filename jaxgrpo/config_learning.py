"""The tables of a configuration that say how to learn: loss, optimiser, imitation."""

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from jaxgrpo.config_tables import (
    Decay,
    FolderName,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Table,
)


class ObjectiveConfig(Table):
    """From rewards to the loss."""

    preset: Literal[
        "grpo", "dr_grpo", "dapo", "bnpo", "cispo", "gspo", "gspo_token", "luspo",
        "sapo", "rloo",
    ] = "dapo"  # fmt: skip
    """Named combination of ratio, clip, aggregation, scale and baseline; see
    docs/objective.md."""
    advantage_scale: Literal["preset", "group", "batch", "none"] = "preset"
    """What centred rewards are divided by; `preset` leaves it to the preset."""
    advantage_baseline: Literal["preset", "mean", "leave_one_out"] = "preset"
    """What rewards are centred on; `preset` leaves it to the preset."""
    combine: Literal["sum_then_normalize", "normalize_then_sum"] = "sum_then_normalize"
    """Weighted sum of rewards before normalisation, or GDPO's order."""
    ddof: Annotated[int, Field(ge=0, le=1)] = 1
    """Delta degrees of freedom of the standard deviation."""
    epsilon: NonNegativeFloat = 1e-4
    """Added to the standard deviation."""
    clip_low: Literal["preset"] | Fraction = "preset"
    """Ratios below 1 - clip_low are clipped; `preset` leaves it to the preset."""
    clip_high: Literal["preset"] | NonNegativeFloat = "preset"
    """Ratios above 1 + clip_high are clipped; `preset` leaves it to the preset."""
    kl_coef: NonNegativeFloat = 0.0
    """Factor of the divergence from the reference in the loss; the reference is a
    frozen copy of the first weights, or with [lora] the base itself. 0 keeps none."""
    divergence: Literal["k1", "k2", "k3", "k3_corrected"] = "k3"
    """Estimator of that divergence."""
    ref_sync_steps: NonNegativeInt = 0
    """Updates between moves of the reference towards the policy; 0 never moves it."""
    ref_mixup: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the policy in the reference after a move."""
    mask_dead_groups: bool = False
    """Leave groups of equal rewards out of loss and denominator."""
    updates_per_rollout: PositiveInt = 1
    """Passes over each batch of rollouts."""
    minibatches: PositiveInt = 1
    """Optimiser updates per pass; must divide sampling.problems_per_step."""
    microbatches: PositiveInt = 1
    """Gradient-accumulation parts of an update: less memory, same result. More than
    there are problems cut the completions of each: its prompt runs once a part."""
    correction: Literal[
        "none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask",
        "geometric_truncate", "geometric_mask",
    ] = "none"  # fmt: skip
    """Weights tokens by trainer over sampler probability, of the token, of the whole
    completion or by their mean, kept within bounds or left out beyond them; see
    docs/objective.md."""
    correction_max: PositiveFloat = 2.0
    """Largest such weight."""
    correction_min: NonNegativeFloat = 0.0
    """Smallest such weight."""
    logprob_chunk: PositiveInt = 128
    """Tokens whose logits exist at a time."""

    @property
    def loss_parts(self) -> dict[str, float]:
        """Parts of the loss that replace the preset's."""
        chosen = {"clip_low": self.clip_low, "clip_high": self.clip_high}
        return {name: v for name, v in chosen.items() if not isinstance(v, str)}

    @property
    def correction_parts(self) -> dict[str, str | float]:
        """How sampler and trainer are reconciled; empty where they are not."""
        if self.correction == "none":
            return {}
        return {
            "correction": self.correction,
            "correction_max": self.correction_max,
            "correction_min": self.correction_min,
        }

    @property
    def advantage_parts(self) -> dict[str, str]:
        """Parts of the advantages that replace the preset's."""
        chosen = {"scale": self.advantage_scale, "baseline": self.advantage_baseline}
        return {name: v for name, v in chosen.items() if v != "preset"}

    @property
    def is_decoupled(self) -> bool:
        """Whether rewards are normalised one by one (GDPO)."""
        return self.combine == "normalize_then_sum"

    @model_validator(mode="after")
    def _no_idle_clip(self) -> "ObjectiveConfig":
        for name, value in self.loss_parts.items():
            if self.preset in ("cispo", "sapo"):
                raise ValueError(
                    f"objective.{name} {value} has no effect with preset "
                    f"{self.preset!r}, which bounds ratios otherwise. Remove it."
                )
        return self

    @model_validator(mode="after")
    def _reference_is_used(self) -> "ObjectiveConfig":
        if self.kl_coef:
            return self
        idle = {"divergence": "k3", "ref_sync_steps": 0, "ref_mixup": 1.0}
        for name, default in idle.items():
            if getattr(self, name) != default:
                raise ValueError(
                    f"objective.{name} {getattr(self, name)!r} has no effect while "
                    "objective.kl_coef is 0. Raise kl_coef or remove it."
                )
        return self

    @model_validator(mode="after")
    def _correction_is_bounded(self) -> "ObjectiveConfig":
        bounds = {"correction_max": 2.0, "correction_min": 0.0}
        for name, default in bounds.items():
            if self.correction == "none" and getattr(self, name) != default:
                raise ValueError(
                    f"objective.{name} {getattr(self, name)!r} has no effect while "
                    "objective.correction is 'none'. Choose a correction or remove it."
                )
        if self.correction_min >= self.correction_max:
            raise ValueError(
                f"objective.correction_min {self.correction_min} is not below "
                f"correction_max {self.correction_max}. Lower it."
            )
        return self

    @model_validator(mode="after")
    def _dead_groups_are_of_sums(self) -> "ObjectiveConfig":
        if self.mask_dead_groups and self.is_decoupled:
            raise ValueError(
                "objective.mask_dead_groups is true and objective.combine is "
                "'normalize_then_sum', where equal sums of rewards do not make a group "
                "dead. Set one of them back."
            )
        return self

    @model_validator(mode="after")
    def _decoupled_by_group(self) -> "ObjectiveConfig":
        scale, baseline = self.advantage_scale, self.advantage_baseline
        is_defined = scale not in ("batch", "none") and baseline != "leave_one_out"
        if self.is_decoupled and not is_defined:
            raise ValueError(
                "objective.combine is 'normalize_then_sum', which is defined by mean "
                f"and spread of the group, but advantage_scale is {scale!r} and "
                f"advantage_baseline {baseline!r}. Set them to 'group' and 'mean'."
            )
        return self


class OptimizerConfig(Table):
    """How gradients become updates."""

    name: Literal["adamw", "muon"] = "adamw"
    """`muon` orthogonalises the updates of matrices and uses AdamW for the rest."""
    learning_rate: PositiveFloat = 1e-6
    """Peak learning rate of AdamW."""
    muon_learning_rate: PositiveFloat = 2e-2
    """Peak learning rate of the matrices under `muon`."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Shape of the decay that follows the warm-up."""
    warmup_steps: NonNegativeInt = 0
    """Updates of linear warm-up from 0."""
    decay_fraction: Fraction = 1.0
    """Share of the run, at its end, over which `linear` or `cosine` decays."""
    final_scale: Fraction = 0.0
    """Learning rate at the end, relative to the peak."""
    beta1: Decay = 0.9
    """Decay of the first moment."""
    beta2: Decay = 0.99
    """Decay of the second moment."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay, on matrices only (chosen by name)."""
    clip_norm: PositiveFloat = 1.0
    """Global gradient norm above which gradients are scaled down."""


Target = Literal["q", "k", "v", "o", "gate", "up", "down"]
"""A kernel of each layer that can have an adapter."""


class LoraConfig(Table):
    """Low-rank adapters: train two thin matrices beside each frozen kernel."""

    rank: NonNegativeInt = 0
    """Rank of the adapters; 0 has none and trains all weights."""
    alpha: PositiveFloat = 32.0
    """What the adapters add is scaled by alpha / rank."""
    targets: Annotated[tuple[Target, ...], Field(strict=False)] = get_args(Target)
    """Kernels that have an adapter: of attention `q`, `k`, `v`, `o`, of the MLP
    `gate`, `up`, `down`."""

    @model_validator(mode="after")
    def _targets_differ(self) -> "LoraConfig":
        if not self.targets or len(set(self.targets)) < len(self.targets):
            raise ValueError(
                f"lora.targets is {list(self.targets)}. List at least one target, and "
                "each target once."
            )
        return self


class SupervisedStage(Table):
    """One phase of a supervised run, exported under its name when it ends."""

    name: FolderName
    """Folder under RUN/export that receives the checkpoint."""
    num_steps: PositiveInt
    """Updates of this phase."""
    targets: str = "reference"
    """What is imitated: the answers that the data set gives, or another style that it
    offers. `output_prediction` has `mixed` (a foreign notation), `step_prediction` has
    `lines` (all that is printed), `mini_programs` has `varied` (comprehensions, prompts
    with hints) and `careless` (misreadings too)."""
    share: Fraction = 0.0
    """Share of the targets that such a style writes in its own way."""
    learning_rate_scale: PositiveFloat = 1.0
    """Factor on the optimiser's learning rates in this phase."""

    @model_validator(mode="after")
    def _share_fits_targets(self) -> "SupervisedStage":
        if (self.targets == "reference") != (self.share == 0):
            raise ValueError(
                f"supervised.stages {self.name!r}: targets is {self.targets!r} and "
                f"share is {self.share}. Set share above 0 with targets other than "
                "'reference', and only then."
            )
        return self


class SupervisedConfig(Table):
    """The supervised mode of the trainer."""

    stages: Annotated[tuple[SupervisedStage, ...], Field(strict=False)] = ()
    """Phases in order; weights carry over, the optimiser starts afresh."""
    problems_per_batch: PositiveInt = 96
    """Examples of one update."""

    @model_validator(mode="after")
    def _names_differ(self) -> "SupervisedConfig":
        names = [stage.name for stage in self.stages]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"supervised.stages repeats the name {repeated[0]!r}; each stage is "
                "exported under its name. Give every stage a name of its own."
            )
        return self
