"""Which groups can teach: those whose rewards are not all the same."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxgrpo.host.records import Group, Score

_EPSILON = 1e-4
"""As in the advantages; whether a group lives does not hang on it."""
_ROUNDING = 1e-9
"""Of a sum of normalised rewards."""


def total_reward(score: Score, weights: Mapping[str, float]) -> float:
    """Weighted sum of a completion's rewards; NaN abstains.

    Args:
      score: After scoring.
      weights: By reward name; a reward of weight 0 cannot make a row abstain.

    Example:
      >>> total_reward(Score(rewards={"exact": 1.0, "short": math.nan}),
      ...              {"exact": 2.0, "short": 0.0})
      2.0
    """
    used = [weight * score.rewards[name] for name, weight in weights.items() if weight]
    return math.fsum(used) if not any(map(math.isnan, used)) else math.nan


def group_totals(group: Group, weights: Mapping[str, float]) -> np.ndarray:
    """Weighted sums of the rows that do not abstain, float64.

    Args:
      group: After scoring.
      weights: By reward name.
    """
    totals = np.array([total_reward(score, weights) for score in group.scores])
    return totals[~np.isnan(totals)]


def decoupled_totals(group: Group, weights: Mapping[str, float]) -> np.ndarray:
    """Weighted sums of rewards that are normalised one by one (GDPO), float64.

        S_i = sum_n w_n (r_in - mean r_n) / (std r_n + epsilon)

    A reward that a row abstains from adds nothing; rows without any are left out.

    Args:
      group: After scoring.
      weights: By reward name.

    Example:
      >>> scores = (Score(rewards={"a": 1.0, "b": 0.0}),
      ...           Score(rewards={"a": 0.0, "b": 1.0}))
      >>> group = Group(problem=None, prompts=(), completions=(), scores=scores)
      >>> decoupled_totals(group, {"a": 1.0, "b": 1.0}).tolist()
      [0.0, 0.0]
    """
    names = [name for name, weight in weights.items() if weight]
    rewards_BR = np.array([[s.rewards[name] for name in names] for s in group.scores])
    rewards_BR = rewards_BR.reshape(len(group.scores), len(names))
    present_BR = ~np.isnan(rewards_BR)
    totals = np.zeros(len(rewards_BR))
    for column, name in enumerate(names):
        present = present_BR[:, column]
        values = rewards_BR[present, column]
        if len(values) > 1 and np.ptp(values):
            normal = (values - values.mean()) / (values.std(ddof=1) + _EPSILON)
            totals[present] += weights[name] * normal
    return totals[present_BR.any(axis=1)]


def is_live(
    group: Group, weights: Mapping[str, float], *, is_decoupled: bool = False
) -> bool:
    """Whether a group has advantages other than 0.

    Compared are the largest and the smallest reward, not a spread with an epsilon;
    sums of normalised rewards may differ by rounding.

    Args:
      group: After scoring.
      weights: By reward name.
      is_decoupled: Rewards are normalised one by one (GDPO): a group whose summed
        rewards tie may live, and one of opposed rewards be dead.
    """
    totals = _totals(group, weights, is_decoupled)
    least = _ROUNDING if is_decoupled else 0.0
    return len(totals) > 0 and bool(totals.max() - totals.min() > least)


def spread_score(
    group: Group, weights: Mapping[str, float], *, is_decoupled: bool = False
) -> float:
    """How much a group has to teach: sum |A_i| times the rewards' standard deviation.

        A_i = (r_i - mean r) / std r,    so that the product is sum |r_i - mean r|

    Args:
      group: After scoring.
      weights: By reward name.
      is_decoupled: As for `is_live`; r_i is then the sum of normalised rewards.

    Returns:
      At least 0, and 0 for groups that are not live: the mean of equal rewards may be
      rounded away from them.

    Reference:
      TRL, experimental GRPOWithReplayBufferTrainer, priority of a buffered group.
    """
    if not is_live(group, weights, is_decoupled=is_decoupled):
        return 0.0
    totals = _totals(group, weights, is_decoupled)
    return float(np.abs(totals - totals.mean()).sum())


def _totals(
    group: Group, weights: Mapping[str, float], is_decoupled: bool
) -> np.ndarray:
    find = decoupled_totals if is_decoupled else group_totals
    return find(group, weights)


def draws_after(groups: Sequence[Group]) -> dict[str, int]:
    """The first unused draw number of each problem, by id.

    Args:
      groups: Of this step so far.
    """
    numbers: dict[str, int] = {}
    for group in groups:
        highest = max(completion.draw for completion in group.completions)
        number = numbers.get(group.problem.id, 0)
        numbers[group.problem.id] = max(number, highest + 1)
    return numbers
