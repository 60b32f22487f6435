"""The numbers of one step that groups and scores tell, under the field's names."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxgrpo.host.records import Group, Score


def total_rewards(groups: Sequence[Group], weights: Mapping[str, float]) -> np.ndarray:
    """Weighted sum of rewards per row, group after group; NaN abstains.

    Args:
      groups: After scoring.
      weights: By reward name; a reward of weight 0 cannot make a row abstain.
    """
    return np.array(
        [_total(score, weights) for group in groups for score in group.scores],
        np.float64,
    )


def group_metrics(
    groups: Sequence[Group], weights: Mapping[str, float]
) -> dict[str, float]:
    """Rewards, dead groups, kinds of error and lengths of a step's groups.

    Shares of dead groups are per group whatever the advantages are scaled by, and from
    the rows that did not abstain.

    Args:
      groups: After scoring, before regrouping.
      weights: By reward name.
    """
    metrics = reward_metrics(groups, weights)
    metrics |= dead_group_metrics(groups, weights)
    metrics |= completion_metrics(groups)
    scores = [score for group in groups for score in group.scores]
    judged = [score for score in scores if score.error_class]
    for name in sorted({score.error_class for score in judged}):
        share = np.mean([score.error_class == name for score in scores])
        metrics[f"error_class/{name}"] = float(share)
    is_correct = [s.verdict is not None and s.verdict.is_correct for s in scores]
    metrics["exact_match"] = float(np.mean(is_correct))
    infra = [s.verdict is not None and s.verdict.status == "INFRA" for s in scores]
    metrics["errored_rollouts"] = float(np.sum(infra))
    return metrics


def reward_metrics(
    groups: Sequence[Group], weights: Mapping[str, float]
) -> dict[str, float]:
    """Mean and spread of each reward and of the weighted sum; NaN-aware."""
    metrics: dict[str, float] = {}
    scores = [score for group in groups for score in group.scores]
    for name in weights:
        values = np.array([score.rewards[name] for score in scores])
        present = values[~np.isnan(values)]
        metrics[f"rewards/{name}/mean"] = _mean(present)
        metrics[f"rewards/{name}/std"] = _std(present)
        metrics[f"rewards/{name}/abstained"] = 1.0 - len(present) / len(values)
    totals = total_rewards(groups, weights)
    metrics["reward"] = _mean(totals[~np.isnan(totals)])
    metrics["abstained_rollouts"] = float(np.isnan(totals).sum())
    spreads = [_std(kept) for kept in _kept_totals(groups, weights) if len(kept)]
    metrics["reward_std"] = _mean(np.array(spreads))
    return metrics


def dead_group_metrics(
    groups: Sequence[Group], weights: Mapping[str, float]
) -> dict[str, float]:
    """Shares of groups that cannot teach: all rewards equal, all zero, all full.

    Full is the sum of the positive weights, what rewards of at most 1 add up to.
    """
    # Summed as a row's rewards are: rounded once.
    full = math.fsum(weight for weight in weights.values() if weight > 0)
    kept = _kept_totals(groups, weights)
    return {
        "frac_reward_zero_std": _share(
            [len(k) == 0 or float(np.ptp(k)) == 0.0 for k in kept]
        ),
        "frac_reward_all_zero": _share([len(k) > 0 and not k.any() for k in kept]),
        "frac_reward_all_one": _share(
            [len(k) > 0 and bool(np.all(k == full)) for k in kept]
        ),
    }


def completion_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Lengths in tokens, of all completions and of those that ended by themselves."""
    completions = [c for group in groups for c in group.completions]
    lengths = np.array([len(c.token_ids) for c in completions])
    is_clipped = np.array([c.finish_reason == "length" for c in completions])
    ended = lengths[~is_clipped]
    ended = ended if len(ended) else np.zeros(1)
    return {
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/mean_terminated_length": float(ended.mean()),
        "completions/min_terminated_length": float(ended.min()),
        "completions/max_terminated_length": float(ended.max()),
        "completions/clipped_ratio": float(is_clipped.mean()),
    }


def error_share(groups: Sequence[Group]) -> float:
    """Share of rows that could not be scored."""
    scores = [score for group in groups for score in group.scores]
    infra = [s.verdict is not None and s.verdict.status == "INFRA" for s in scores]
    return _share(infra)


def _kept_totals(
    groups: Sequence[Group], weights: Mapping[str, float]
) -> list[np.ndarray]:
    """Each group's totals, without the rows that abstain."""
    rows = [
        np.array([_total(score, weights) for score in group.scores]) for group in groups
    ]
    return [totals[~np.isnan(totals)] for totals in rows]


def _total(score: Score, weights: Mapping[str, float]) -> float:
    used = [weight * score.rewards[name] for name, weight in weights.items() if weight]
    return math.fsum(used) if not any(map(math.isnan, used)) else math.nan


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _std(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _share(flags: Sequence[bool]) -> float:
    return float(np.mean(flags)) if len(flags) else math.nan
