"""Which groups can teach: those whose rewards are not all the same."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxgrpo.host.records import Group, Score


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


def is_live(
    group: Group, weights: Mapping[str, float], *, is_decoupled: bool = False
) -> bool:
    """Whether a group has advantages other than 0.

    Compared are the largest and the smallest reward, not a spread with an epsilon.

    Args:
      group: After scoring.
      weights: By reward name.
      is_decoupled: Rewards are normalised one by one (GDPO), so that a group is live
        if any of them is, also where their sums tie.
    """
    if is_decoupled:
        parts = [{name: weight} for name, weight in weights.items() if weight]
        return any(is_live(group, part) for part in parts)
    totals = group_totals(group, weights)
    return len(totals) > 0 and bool(totals.max() > totals.min())


def spread_score(group: Group, weights: Mapping[str, float]) -> float:
    """How much a group has to teach: sum |A_i| times the rewards' standard deviation.

        A_i = (r_i - mean r) / std r,    so that the product is sum |r_i - mean r|

    Args:
      group: After scoring.
      weights: By reward name.

    Returns:
      At least 0; 0 for groups that are not live.

    Reference:
      TRL, experimental GRPOWithReplayBufferTrainer, priority of a buffered group.
    """
    totals = group_totals(group, weights)
    return float(np.abs(totals - totals.mean()).sum()) if len(totals) else 0.0


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
