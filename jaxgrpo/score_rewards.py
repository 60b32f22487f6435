"""Rewards for `jaxgrpo score`: which to compute, and what they came to."""

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxgrpo.config import Config, RewardConfig, ScorerConfig
from jaxgrpo.config_loading import config_of_checkpoint, find_config, load_config
from jaxgrpo.config_toml import toml_value
from jaxgrpo.host.records import Score
from jaxgrpo.host.rewards import REWARDS
from jaxgrpo.report.evaluation_table import TextTable

MOST_SHOWN = 20
"""Completions whose rewards are shown one by one."""
_SHOWN_CHARACTERS = 32
_NO_RUN = ("guard.mode=off", f"sampling.max_new_tokens={10**6}")
"""Without a run, rewards are not to be held against what it would sample."""


class Choice(NamedTuple):
    """How `jaxgrpo score` judges, and what it computes besides."""

    scorer: ScorerConfig
    rewards: dict[str, RewardConfig]
    """Those that are shown, and those that their gates look at."""
    shown: tuple[str, ...]
    """Names of the ones that were asked for."""
    left_out: tuple[str, ...]
    """Names of the configuration's rewards that only a device computes."""


def chosen(
    names: Sequence[str], config_name: str = "", overrides: Sequence[str] = ()
) -> Choice:
    """Returns what the options of the command line ask for.

    Args:
      names: Rewards by name, or functions as `path/to/file.py:name`.
      config_name: Configuration whose `scorer` and `rewards` are taken; empty for the
        defaults. Without names, all its rewards are computed.
      overrides: Changes to the tables `scorer` and `rewards`.

    Raises:
      ValueError: An option is wrong, or a reward can only be had in a run.
    """
    for override in overrides:
        if not override.startswith(("scorer.", "rewards.")):
            raise ValueError(
                f"{override!r} has no effect on scoring. Override scorer.FIELD=VALUE "
                "or rewards.NAME.FIELD=VALUE."
            )
    # A name that the configuration lacks gets a table of its own.
    own = {_name_of(name): name for name in names}
    in_config: Mapping[str, object] = {}
    if config_name:
        in_config = load_config(find_config(config_name)).rewards
    extra = [_table_of(own[name]) for name in own if name not in in_config]
    changes = [*extra, *overrides]
    config = (
        load_config(find_config(config_name), changes)
        if config_name
        else config_of_checkpoint("none", [*_NO_RUN, *changes])
    )
    asked = list(own) or _all_rewards(config, config_name, overrides)
    left_out = [n for n in asked if REWARDS[config.rewards[n].kind] == "device"]
    if left_out and own:
        raise ValueError(_only_in_a_run(f"--reward {left_out[0]}"))
    shown = tuple(name for name in asked if name not in left_out)
    gates = [config.rewards[name].gate for name in shown if config.rewards[name].gate]
    for gate in gates:
        if REWARDS[config.rewards[gate].kind] == "device":
            raise ValueError(_only_in_a_run(f"the gate rewards.{gate}"))
    wanted = {*shown, *gates}
    return Choice(
        scorer=config.scorer,
        rewards={n: reward for n, reward in config.rewards.items() if n in wanted},
        shown=shown,
        left_out=tuple(left_out),
    )


def _name_of(reward: str) -> str:
    return reward.rpartition(":")[2].rpartition(".")[2]


def _table_of(reward: str) -> str:
    """The override that makes a table for a reward with its default settings."""
    name = _name_of(reward)
    if ":" in reward:
        return f"rewards.{name}.function={toml_value(reward)}"
    if reward not in REWARDS:
        near = difflib.get_close_matches(reward, REWARDS, n=1)
        hint = f"Did you mean {near[0]}?" if near else "Choose another."
        raise ValueError(
            f"--reward {reward}: no such reward. {hint} The rewards are "
            f"{', '.join(REWARDS)}; one of your own is FILE.py:NAME."
        )
    if REWARDS[reward] == "device":
        raise ValueError(_only_in_a_run(f"--reward {reward}"))
    return f"rewards.{name}.kind={toml_value(reward)}"


def _only_in_a_run(what: str) -> str:
    return (
        f"{what} needs a model on the device, and is only computed in a run. Leave it "
        "out."
    )


def _all_rewards(
    config: Config, config_name: str, overrides: Sequence[str]
) -> list[str]:
    if config_name:
        return list(config.rewards)
    named = {text.split(".")[1] for text in overrides if text.startswith("rewards.")}
    return [name for name in config.rewards if name in named]


def reward_table(scores: Sequence[Score], names: Sequence[str]) -> TextTable:
    """Returns what each reward came to, a row each.

    Args:
      scores: Of all completions.
      names: Of the rewards.
    """
    rows = []
    for name in names:
        values = np.array([score.rewards[name] for score in scores])
        present = values[~np.isnan(values)]
        failed = sum(name in score.failures for score in scores)
        numbers = (
            [
                f"{present.mean():.4g}",
                f"{present.std(ddof=min(1, len(present) - 1)):.4g}",
            ]
            + [f"{present.min():.4g}", f"{present.max():.4g}"]
            if len(present)
            else ["-"] * 4
        )
        seconds = sum(score.timings.get(f"reward/{name}", 0.0) for score in scores)
        rows.append(
            (name, *numbers, f"{len(values) - len(present):,}", f"{failed:,}")
            + (f"{seconds / len(scores) * 1e3:.2g}",)
        )
    header = ("reward", "mean", "std", "min", "max", "abstained", "failed", "ms each")
    return TextTable(header, tuple(rows))


def _summary(values: np.ndarray) -> tuple[float, float, float, float]:
    """Mean, standard deviation, least and greatest."""
    std = values.std(ddof=1) if len(values) > 1 else 0.0
    return float(values.mean()), float(std), float(values.min()), float(values.max())


def completions_table(
    scores: Sequence[Score], texts: Sequence[str], names: Sequence[str]
) -> TextTable:
    """Returns the rewards of the first completions, a row each.

    Args:
      scores: Of all completions.
      texts: Of the same.
      names: Of the rewards.
    """
    rows = [
        (
            *(_number(score.rewards[name]) for name in names),
            _shown(text),
            _shown(score.abstain_reason, 2 * _SHOWN_CHARACTERS),
        )
        for score, text in zip(scores[:MOST_SHOWN], texts, strict=False)
    ]
    return TextTable((*names, "completion", "abstains because"), tuple(rows))


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _shown(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    line = " ".join(text.split()).replace("|", "¦")
    return line if len(line) <= most else f"{line[: most - 3]}..."
