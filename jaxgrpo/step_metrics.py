"""The numbers of one step that groups and scores tell, under the field's names."""

import builtins
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxgrpo.host.judge.error_classes import EXCEPTION
from jaxgrpo.host.records import Group, Prompt, Score
from jaxgrpo.host.regroup.liveness import group_totals, is_live, total_reward
from jaxgrpo.host.rewards.histogram import Histogram, histogram_of


@dataclass(kw_only=True)
class Counters:
    """Totals since the run began; saved with every checkpoint."""

    num_tokens: int = 0
    """Prompt and completion tokens."""
    num_problems: int = 0
    dropped_prompts: int = 0
    """Prompts left out because they are too long."""
    wall_s: float = 0.0
    """Seconds, interruptions taken out."""

    def add(
        self, prompts: Sequence[Prompt], groups: Sequence[Group]
    ) -> dict[str, float]:
        """Counts a step's work, and returns the totals as metrics.

        Args:
          prompts: One per problem of the step.
          groups: What was sampled for them.
        """
        self.num_problems += len(prompts)
        self.num_tokens += num_tokens(prompts, groups)
        return {
            "num_tokens": self.num_tokens,
            "num_problems": self.num_problems,
            "dropped_prompts": self.dropped_prompts,
        }


def num_tokens(prompts: Sequence[Prompt], groups: Sequence[Group]) -> int:
    """Tokens of the prompts, each counted once, and of the completions."""
    return sum(len(prompt.token_ids) for prompt in prompts) + num_sampled(groups)


def group_tokens(groups: Sequence[Group]) -> int:
    """Tokens of the groups' own prompts and of their completions."""
    return num_tokens([p for group in groups for p in group.prompts], groups)


def num_sampled(groups: Sequence[Group]) -> int:
    """Completion tokens of the groups."""
    return sum(len(c.token_ids) for group in groups for c in group.completions)


def warnings_of(metrics: Mapping[str, float], *, gap_limit: float) -> list[str]:
    """What in a step's metrics asks for attention, a line each.

    Args:
      metrics: Of the step.
      gap_limit: Largest mean |log-prob sampler - trainer| to be silent about, nats.
    """
    texts = []
    gap = metrics["sampling/sampling_logp_difference/mean"]
    if gap > gap_limit:
        largest = metrics["sampling/sampling_logp_difference/max"]
        texts.append(
            f"sampler and trainer differ by {gap:.2g} nats per token, at most by "
            f"{largest:.2g}; log.sampler_gap_warning is {gap_limit:.2g}."
        )
    if metrics["update_skipped"]:
        texts.append("loss or gradient was not finite; the update was left out.")
    if metrics["update_empty"]:
        texts.append(
            f"{metrics['update_empty']:.0f} updates had no completion to learn from "
            "and were left out."
        )
    return texts


def total_rewards(groups: Sequence[Group], weights: Mapping[str, float]) -> np.ndarray:
    """Weighted sum of rewards per row, group after group; NaN abstains.

    Args:
      groups: After scoring.
      weights: By reward name; a reward of weight 0 cannot make a row abstain.
    """
    return np.array(
        [total_reward(score, weights) for group in groups for score in group.scores],
        np.float64,
    )


def group_metrics(
    groups: Sequence[Group],
    weights: Mapping[str, float],
    *,
    is_decoupled: bool = False,
) -> dict[str, float]:
    """Rewards, dead groups, kinds of error and lengths of a step's groups.

    Shares of dead groups are per group whatever the advantages are scaled by, and from
    the rows that did not abstain.

    Args:
      groups: After scoring, before regrouping.
      weights: By reward name.
      is_decoupled: As for `is_live`.
    """
    metrics = reward_metrics(groups, weights)
    metrics |= dead_group_metrics(groups, weights, is_decoupled=is_decoupled)
    metrics |= completion_metrics(groups) | lengths_by_verdict(groups)
    metrics |= prompt_metrics(groups)
    scores = [score for group in groups for score in group.scores]
    judged = [score for score in scores if score.error_class]
    for name in sorted({score.error_class for score in judged}):
        share = np.mean([score.error_class == name for score in scores])
        metrics[f"error_class/{name}"] = float(share)
    metrics |= exception_metrics(scores)
    statuses = [s.verdict.status for s in scores if s.verdict is not None]
    for status in sorted(set(statuses)):
        metrics[f"verdict/{status}"] = float(statuses.count(status))
    is_correct = [s.verdict is not None and s.verdict.is_correct for s in scores]
    metrics["exact_match"] = float(np.mean(is_correct))
    infra = [s.verdict is not None and s.verdict.status == "INFRA" for s in scores]
    metrics["errored_rollouts"] = float(np.sum(infra))
    return metrics


def exception_metrics(scores: Sequence[Score]) -> dict[str, float]:
    """Shares of rows of the class `exception`, by what their programs raised.

    Programs may raise what they please: exceptions that Python does not have by itself
    are counted together, as `other`.

    Args:
      scores: Of a step.
    """
    raised = [name for score in scores if (name := _raised(score))]
    return {
        f"exception/{name}": raised.count(name) / len(scores)
        for name in sorted(set(raised))
    }


def _raised(score: Score) -> str:
    if score.verdict is None or score.error_class != EXCEPTION:
        return ""
    raised = [result.exception for result in score.verdict.results if result.exception]
    name = raised[0].type_name if raised else "other"
    known = getattr(builtins, name, None)
    is_builtin = isinstance(known, type) and issubclass(known, BaseException)
    return name if is_builtin else "other"


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
        metrics[f"rewards/{name}/failed"] = _share([name in s.failures for s in scores])
        seconds = [score.timings.get(f"reward/{name}", 0.0) for score in scores]
        metrics[f"timing_s/reward/{name}"] = math.fsum(seconds)
        metrics |= column_metrics(name, scores)
    metrics |= logged_metrics(scores)
    totals = total_rewards(groups, weights)
    metrics["reward"] = _mean(totals[~np.isnan(totals)])
    metrics["abstained_rollouts"] = float(np.isnan(totals).sum())
    metrics["reward_std"] = _std(totals[~np.isnan(totals)])
    return metrics


def column_metrics(name: str, scores: Sequence[Score]) -> dict[str, float]:
    """Means of the other numbers that a reward tells of each row, such as violations.

    A number that a row does not have is 0; rows that have none of the reward's numbers
    do not count.

    Args:
      name: Of the reward.
      scores: Of a step.
    """
    prefix = f"{name}/"
    rows = [
        {
            key: value
            for key, value in score.extra.items()
            if key.startswith(prefix)
            and isinstance(value, float)
            and "/" not in key.removeprefix(prefix)
        }
        for score in scores
    ]
    told = [row for row in rows if row]
    return {
        f"rewards/{column}": float(np.mean([row.get(column, 0.0) for row in told]))
        for column in sorted({column for row in told for column in row})
    }


def logged_metrics(scores: Sequence[Score]) -> dict[str, float]:
    """Means of what the user's functions logged, over the rows they logged it with."""
    values: dict[str, list[float]] = {}
    for score in scores:
        for name, value in score.logged.items():
            values.setdefault(f"user/{name}", []).append(value)
    return {name: float(np.mean(values[name])) for name in sorted(values)}


def reward_histograms(
    groups: Sequence[Group], names: Iterable[str]
) -> dict[str, Histogram]:
    """How each reward is spread over the rows; without those that all abstain.

    Args:
      groups: After scoring.
      names: Of the rewards.
    """
    scores = [score for group in groups for score in group.scores]
    found = {n: histogram_of([score.rewards[n] for score in scores]) for n in names}
    return {f"rewards/{name}": h for name, h in found.items() if h is not None}


def dead_group_metrics(
    groups: Sequence[Group],
    weights: Mapping[str, float],
    *,
    is_decoupled: bool = False,
) -> dict[str, float]:
    """Shares of groups that cannot teach, and of those that have much to tell apart.

    `frac_reward_zero_std` is of the groups that are not live: their weighted rewards
    are all equal, or with GDPO the sums of the normalised ones. Of those whose weighted
    rewards differ `frac_reward_many_values` have three different ones or more. All
    wrong, mixed and all correct come from raw verdicts, so that no reward, weight or
    scaling moves them; rows without a verdict are left out, and groups without any.

    Args:
      groups: Of a step.
      weights: By reward name.
      is_decoupled: As for `is_live`.
    """
    kept = [group_totals(group, weights) for group in groups]
    rewarded = [group for group, k in zip(groups, kept, strict=True) if k.size]
    judged = [
        [s.verdict.is_correct for s in group.scores if is_judged(s)]  # type: ignore[union-attr]
        for group in groups
    ]
    verdicts = [flags for flags in judged if flags]
    live = [k for k in kept if k.size and np.ptp(k)]
    return {
        "frac_reward_zero_std": _share(
            [not is_live(g, weights, is_decoupled=is_decoupled) for g in rewarded]
        ),
        "frac_reward_many_values": _share([len(np.unique(k)) >= 3 for k in live]),
        "frac_reward_all_zero": _share([not any(flags) for flags in verdicts]),
        "frac_reward_mixed": _share([any(f) and not all(f) for f in verdicts]),
        "frac_reward_all_one": _share([all(flags) for flags in verdicts]),
    }


def updated_group_metrics(
    groups: Sequence[Group],
    weights: Mapping[str, float],
    *,
    is_decoupled: bool = False,
) -> dict[str, float]:
    """Share of the groups that reach the update and are not live.

    What regrouping does shows in how far it is from `frac_reward_zero_std`.

    Args:
      groups: After regrouping.
      weights: Factor of each reward.
      is_decoupled: As for `is_live`.
    """
    found = dead_group_metrics(groups, weights, is_decoupled=is_decoupled)
    return {"frac_update_zero_std": found["frac_reward_zero_std"]}


def is_judged(score: Score) -> bool:
    """Whether there is a verdict on the completion, not only on our own failure."""
    return score.verdict is not None and score.verdict.status != "INFRA"


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


def lengths_by_verdict(groups: Sequence[Group]) -> dict[str, float]:
    """Mean tokens of the completions judged correct, and of those judged wrong."""
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for group in groups:
        for completion, score in zip(group.completions, group.scores, strict=True):
            if is_judged(score):
                is_correct = score.verdict.is_correct  # type: ignore[union-attr]
                lengths[is_correct].append(len(completion.token_ids))
    return {
        "completions/mean_length_solved": _mean(np.array(lengths[True])),
        "completions/mean_length_unsolved": _mean(np.array(lengths[False])),
    }


def prompt_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Lengths of the distinct prompts in tokens; NaN without any."""
    lengths = [len(prompt.token_ids) for group in groups for prompt in group.prompts]
    return {
        "prompt_length/mean": _mean(np.array(lengths)),
        "prompt_length/min": float(min(lengths, default=math.nan)),
        "prompt_length/max": float(max(lengths, default=math.nan)),
    }


def error_share(groups: Sequence[Group]) -> float:
    """Share of rows that could not be scored."""
    scores = [score for group in groups for score in group.scores]
    infra = [s.verdict is not None and s.verdict.status == "INFRA" for s in scores]
    return _share(infra)


def failures_of(groups: Sequence[Group]) -> dict[str, list[str]]:
    """How each reward failed on rows, by its name; those that did not are left out."""
    found: dict[str, list[str]] = {}
    for group in groups:
        for score in group.scores:
            for name, reason in score.failures.items():
                found.setdefault(name, []).append(reason)
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _std(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def _share(flags: Sequence[bool]) -> float:
    return float(np.mean(flags)) if len(flags) else math.nan
