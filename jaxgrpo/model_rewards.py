"""Rewards that need a model: computed on the device, joined to scores by name."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.assembly import run_mesh
from jaxgrpo.batching import is_prompt_major, rows_of_completions, update_arrays
from jaxgrpo.config import Config
from jaxgrpo.device.intrinsic import (
    IntrinsicRewards,
    IntrinsicSettings,
    intrinsic_rewards,
)
from jaxgrpo.device.mesh import placed_like
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.objective.preferences import validity_preserving_reward
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.host.records import Group, Problem, Score
from jaxgrpo.host.rewards import RewardSpec
from jaxgrpo.host.rewards.gate import Gate, gated
from jaxgrpo.policy import Policy
from jaxgrpo.reward_model import RewardModel, load_reward_model
from jaxgrpo.reward_setup import reward_gates, reward_specs


@dataclass(frozen=True)
class _Rows:
    """Completions on the device, and what a forward pass over them gives."""

    groups: Sequence[Group]
    place_of: np.ndarray
    """The row of each completion, group after group."""
    batch: Any
    weights: Weights
    temperature: float
    policy: Policy
    settings: IntrinsicSettings

    @cached_property
    def intrinsic(self) -> IntrinsicRewards:
        """How sure the policy is of each row."""
        prompts, rollouts, _ = placed_like(self.batch, self.weights)
        return intrinsic_rewards(
            self.weights,
            prompts,
            rollouts,
            jnp.float32(self.temperature),
            architecture=self.policy.architecture,
            settings=self.settings,
        )

    @property
    def answers(self) -> list[tuple[Problem, str]]:
        """Each completion's problem, and what the judge has extracted from it."""
        return [
            (group.problem, score.extracted)
            for group in self.groups
            for score in group.scores
        ]


class _Column(NamedTuple):
    """What a reward says of each completion, group after group."""

    values: np.ndarray
    numbers: Mapping[str, np.ndarray] = MappingProxyType({})
    """Others by name, to be logged beside the values."""


Compute = Callable[[_Rows, "RewardModel | None"], _Column]


def _self_certainty(rows: _Rows, model: RewardModel | None) -> _Column:
    return _Column(jax.device_get(rows.intrinsic.self_certainty_B)[rows.place_of])


def _entropy(rows: _Rows, model: RewardModel | None) -> _Column:
    return _Column(jax.device_get(rows.intrinsic.entropy_B)[rows.place_of])


def _learned(rows: _Rows, model: RewardModel | None) -> _Column:
    assert model is not None
    scores, is_cut = model.scores(rows.answers)
    is_valid = np.isfinite(scores)
    values = validity_preserving_reward(jnp.asarray(scores), jnp.asarray(is_valid))
    return _Column(jax.device_get(values), {"invalid": ~is_valid, "cut": is_cut})


VALUES: dict[str, Compute] = {
    "self_certainty": _self_certainty,
    "entropy": _entropy,
    "learned": _learned,
}
"""How each kind of reward of scope `device` comes by its values."""


@dataclass(frozen=True, kw_only=True)
class ModelRewards:
    """Adds to scores what a device computes, and lets gates have their say."""

    config: Config
    policy: Policy
    specs: tuple[RewardSpec, ...]
    """Rewards of scope `device`."""
    gates: dict[str, Gate]
    """By the reward that stands behind one."""
    models: Mapping[str, RewardModel] = field(default_factory=dict)
    """Those that rewards are learned by, by the reward's name."""

    def completed(
        self,
        groups: Sequence[Group],
        weights: Weights,
        *,
        step: int,
        temperature: float,
    ) -> list[Group]:
        """Groups whose scores have all rewards of the run, in config order.

        Args:
          groups: With the rewards that the scorer computes.
          weights: The policy's as it learns.
          step: Steps made before.
          temperature: Of the sampling.
        """
        if not self.specs and not self.gates:
            return list(groups)
        joined = [
            group
            for chunk in self._chunks(groups)
            for group in self._joined(chunk, weights, step, temperature)
        ]
        return [
            replace(group, scores=tuple(map(self._in_order, group.scores)))
            for group in joined
        ]

    def _in_order(self, score: Score) -> Score:
        rewards = gated(score.rewards, self.gates)
        return replace(score, rewards={n: rewards[n] for n in self.config.rewards})

    def _chunks(self, groups: Sequence[Group]) -> Iterator[list[Group]]:
        """Groups in parts that fit the arrays of a step."""
        num_prompts, num_rows = self._shape
        chunk: list[Group] = []
        for group in groups:
            chunk.append(group)
            if (
                sum(len(g.prompts) for g in chunk) > num_prompts
                or sum(len(g.completions) for g in chunk) > num_rows
            ):
                yield chunk[:-1]
                chunk = [group]
        if chunk:
            yield chunk

    @property
    def _shape(self) -> tuple[int, int]:
        return self.config.sampling.problems_per_step, self.config.batch_size

    def _joined(
        self,
        groups: Sequence[Group],
        weights: Weights,
        step: int,
        temperature: float,
    ) -> list[Group]:
        if not self.specs:
            return list(groups)
        rows = self._rows(groups, weights, step, temperature)
        columns: dict[str, _Column] = {}
        timings: dict[str, float] = {}
        num_rows = len(rows.place_of)
        for spec in self.specs:
            started_s = time.monotonic()
            columns[spec.name] = VALUES[spec.kind](rows, self.models.get(spec.name))
            seconds = (time.monotonic() - started_s) / num_rows
            timings[f"reward/{spec.name}"] = seconds
        numbers = iter(range(num_rows))
        return [
            replace(
                group,
                scores=tuple(
                    _with(score, columns, next(numbers), timings)
                    for score in group.scores
                ),
            )
            for group in groups
        ]

    def _rows(
        self,
        groups: Sequence[Group],
        weights: Weights,
        step: int,
        temperature: float,
    ) -> _Rows:
        config, o = self.config, self.config.objective
        num_prompts, num_rows = self._shape
        batch = update_arrays(
            groups,
            (),
            seed=config.run.seed,
            purpose=PURPOSE_TRAIN,
            step=step,
            num_prompts=num_prompts,
            num_rows=num_rows,
            num_positions=config.prompt.max_prompt_tokens,
            num_columns=config.sampling.max_new_tokens,
        )
        settings = IntrinsicSettings(
            num_tokens=self.policy.num_tokens,
            num_parts=o.minibatches * o.microbatches,
            forward=self.policy.forward,
            logprob_chunk=o.logprob_chunk,
            is_prompt_major=is_prompt_major(batch[1], num_prompts),
        )
        place_of = rows_of_completions(groups)
        return _Rows(
            groups, place_of, batch, weights, temperature, self.policy, settings
        )


def model_rewards(config: Config, policy: Policy) -> ModelRewards:
    """What a run adds to scores.

    Args:
      config: Of a `grpo` run.
      policy: The model.

    Raises:
      ValueError: A reward is learned by what is no reward model.
    """
    specs = [spec for spec in reward_specs(config.rewards) if spec.scope == "device"]
    return ModelRewards(
        config=config,
        policy=policy,
        specs=tuple(specs),
        gates=reward_gates(config.rewards),
        models={s.name: _model(s, config) for s in specs if s.kind == "learned"},
    )


def _model(spec: RewardSpec, config: Config) -> RewardModel:
    try:
        return load_reward_model(spec.settings.checkpoint, run_mesh(config))
    except ValueError as error:
        raise ValueError(f"rewards.{spec.name}.checkpoint: {error}") from None


def _with(
    score: Score, columns: dict[str, _Column], row: int, timings: dict[str, float]
) -> Score:
    """The score with a row of the columns; an INFRA verdict leaves them out."""
    if score.verdict is not None and score.verdict.status == "INFRA":
        nothing = dict.fromkeys(columns, math.nan)
        return replace(score, rewards=score.rewards | nothing)
    values = {name: float(column.values[row]) for name, column in columns.items()}
    numbers = {
        f"{name}/{number}": float(rows[row])
        for name, column in columns.items()
        for number, rows in column.numbers.items()
    }
    return replace(
        score,
        rewards=score.rewards | values,
        timings=score.timings | timings,
        extra=score.extra | numbers,
    )
