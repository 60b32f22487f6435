"""The tail: problems that the run began by failing, followed through it.

A fixed list, so that its numbers can be compared from step to step. On it the greedy
answer stands against any of G samples: where samples succeed and the greedy answer does
not, the skill is there and probability is missing; where neither does, the skill is.
"""

import math
from collections.abc import Iterable, Sequence

from jaxgrpo.evaluation.outcomes import Evaluation, Outcome
from jaxgrpo.host.prompts import stable_hash

_SHOWN = ("exact_match", "pass@", "majority@", "frac_reward_", "error_class/")
"""Beginnings of the metrics of an evaluation that are followed on the tail."""


def tail_of(outcomes: Sequence[Outcome], limit: int) -> list[str]:
    """Returns the ids of problems whose greedy answer is wrong, at most so many.

    Which ones remain under the limit is decided by a hash of their ids: a fair part of
    them whatever the order of the data set, and a larger limit only adds to it.

    Args:
      outcomes: Of the run's first evaluation.
      limit: Most problems; 0 for none.

    Returns:
      In the order of the outcomes. Problems that could not be judged are not among
      them.
    """
    wrong = [o.problem_id for o in outcomes if o.greedy.is_judged
             and not o.greedy.is_correct]  # fmt: skip
    chosen = set(sorted(wrong, key=lambda name: (stable_hash(name), name))[:limit])
    return [name for name in wrong if name in chosen]


def among(outcomes: Iterable[Outcome], problem_ids: Sequence[str]) -> list[Outcome]:
    """Returns the outcomes of some problems, in the order of the ids.

    Args:
      outcomes: Of those and others.
      problem_ids: Those without an outcome are left out.
    """
    by_id = {outcome.problem_id: outcome for outcome in outcomes}
    return [by_id[name] for name in problem_ids if name in by_id]


def tail_metrics(evaluation: Evaluation) -> dict[str, float]:
    """Returns an evaluation of the tail under the names of the metric log.

    `tail/top1_gap` is pass@G - exact match, G being the largest k.

    Args:
      evaluation: Of the tail's problems, with samples.

    Example:
      >>> tail_metrics({"num_problems": 4, "exact_match": {"value": 0.25, "se": 0.2},
      ...               "pass@8": {"value": 0.75, "se": 0.2}})
      {'tail/num_problems': 4.0, 'tail/exact_match': 0.25, 'tail/pass@8': 0.75, \
'tail/top1_gap': 0.5}
    """
    metrics = {"tail/num_problems": float(evaluation["num_problems"])}
    for name, entry in evaluation.items():
        if name.startswith(_SHOWN):
            metrics[f"tail/{name}"] = entry["value"]
    metrics["tail/top1_gap"] = top1_gap(evaluation)
    return metrics


def top1_gap(evaluation: Evaluation) -> float:
    """Returns pass@G - exact match, G being the largest k; NaN without samples.

    Args:
      evaluation: Of some problems.
    """
    largest = max(
        (name for name in evaluation if name.startswith("pass@")),
        key=lambda name: int(name.removeprefix("pass@")),
        default=None,
    )
    best = math.nan if largest is None else evaluation[largest]["value"]
    return best - evaluation["exact_match"]["value"]
