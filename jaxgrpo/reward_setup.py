"""From the tables `rewards.NAME` of a configuration to what computes them."""

import difflib
from collections.abc import Mapping

from jaxgrpo.config import Config, RewardConfig
from jaxgrpo.glossary import GLOSSARY, definition, is_timing
from jaxgrpo.host.judge import ERROR_CLASSES
from jaxgrpo.host.judge.literal import LITERAL_CLASSES
from jaxgrpo.host.rewards import RewardSpec
from jaxgrpo.host.rewards.gate import Gate
from jaxgrpo.host.rewards.schedule import RewardWeights


def reward_specs(rewards: Mapping[str, RewardConfig]) -> list[RewardSpec]:
    """Returns the rewards of a run, in config order."""
    return [reward.spec(name) for name, reward in rewards.items()]


def reward_gates(rewards: Mapping[str, RewardConfig]) -> dict[str, Gate]:
    """Returns their gates, by the reward that stands behind one."""
    return {
        name: Gate(of=reward.gate, at=reward.gate_at)
        for name, reward in rewards.items()
        if reward.gate
    }


def reward_weights(config: Config) -> RewardWeights:
    """Returns their weights, step after step.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: A weight waits for a metric that the run will not have.
    """
    for name, reward in config.rewards.items():
        if reward.schedule.when:
            _check_metric(config, reward.schedule.when, f"rewards.{name}.schedule.when")
    return RewardWeights(
        {name: reward.weight_schedule for name, reward in config.rewards.items()}
    )


def _check_metric(config: Config, metric: str, field: str) -> None:
    table, _, rest = metric.partition("/")
    if definition(metric) is None:
        near = difflib.get_close_matches(metric, GLOSSARY, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Take one of metrics.jsonl."
        raise ValueError(f"{field} {metric!r} is no metric of the log. {hint}")
    if is_timing(metric):
        raise ValueError(
            f"{field} {metric!r} depends on the machine, so the run could not be "
            "repeated. Wait for another metric."
        )
    if table in ("eval", "eval_se", "tail") and not config.evaluation.every_steps:
        raise ValueError(
            f"{field} {metric!r} is not measured while evaluation.every_steps is 0. "
            "Set it."
        )
    classes = [*LITERAL_CLASSES, *ERROR_CLASSES]
    if table == "error_class" and rest not in classes:
        near = difflib.get_close_matches(rest, classes, n=1)
        raise ValueError(
            f"{field} {metric!r} is of no class that the judge gives. "
            f"{f'Did you mean {near[0]!r}' if near else 'Take one of docs/scoring.md'}"
            f"{'?' if near else '.'}"
        )
    if table == "rewards" and rest.partition("/")[0] not in config.rewards:
        raise ValueError(
            f"{field} {metric!r} is of no reward of the run. There are: "
            f"{', '.join(config.rewards)}."
        )
