"""Two checkpoints on the same problems: what differs beyond the noise of the problems.

Both answered the same problems with the same random keys, so differences are taken
problem by problem: what is hard for both cancels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgrpo.evaluation.estimates import bootstrap_intervals, mean_and_error
from jaxgrpo.evaluation.outcomes import Outcome, columns_of
from jaxgrpo.evaluation.slices import slices_by_tag


class Flips(NamedTuple):
    """Problems by what became of their greedy answer, between two checkpoints."""

    wrong_to_right: list[dict[str, str]]
    """`problem_id`, and the error classes `before` and `after`."""
    right_to_wrong: list[dict[str, str]]
    both_right: int
    both_wrong: int
    undecided: int
    """Left out, because one of the two could not be judged."""
    p_value: float
    """Two-sided, of McNemar's exact test."""


def paired(
    first: Sequence[Outcome], second: Sequence[Outcome]
) -> tuple[list[Outcome], list[Outcome]]:
    """Returns the outcomes of the problems that both have, in the first's order.

    Args:
      first: Of one checkpoint.
      second: Of another.
    """
    by_id = {outcome.problem_id: outcome for outcome in second}
    shared = [outcome for outcome in first if outcome.problem_id in by_id]
    return shared, [by_id[outcome.problem_id] for outcome in shared]


def differences(
    before: Sequence[Outcome],
    after: Sequence[Outcome],
    pass_at: Sequence[int],
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Returns each metric's mean change per problem, with the interval of that mean.

    Args:
      before: Outcomes of one checkpoint.
      after: Of the other, on the same problems in the same order.
      pass_at: The k of pass@k and majority@k.
      confidence: Of the intervals.
      resamples: Bootstrap samples, of problems: each takes both answers along.
      seed: Of the resampling.
    """
    assert [o.problem_id for o in before] == [o.problem_id for o in after]
    old, new = columns_of(before, pass_at), columns_of(after, pass_at)
    nothing = np.zeros(len(before))
    changes: dict[str, np.ndarray] = {}
    for name in dict.fromkeys([*new, *old]):
        is_class = name.startswith("error_class/")
        if is_class or (name in old and name in new):
            # A class that does not occur has share 0.
            changes[name] = new.get(name, nothing) - old.get(name, nothing)
    intervals = bootstrap_intervals(
        {name: values for name, values in changes.items() if not _is_still(values)},
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    found = {}
    for name, values in changes.items():
        low, high = intervals.get(name, (0.0, 0.0))
        mean, error = mean_and_error(values)
        found[name] = {"value": mean, "se": error, "low": low, "high": high}
    return found


def _is_still(values: np.ndarray) -> bool:
    return bool((values == 0).all())


def flips_of(before: Sequence[Outcome], after: Sequence[Outcome]) -> Flips:
    """Returns which greedy answers became right and wrong, and whether it is chance.

    McNemar's exact test: were both checkpoints alike, a problem that only one of them
    solves would be either's with the same probability.

        p = 2 * P(Binomial(b + c, 1/2) <= min(b, c)), at most 1

    Args:
      before: Outcomes of one checkpoint.
      after: Of the other, on the same problems in the same order.

    Reference:
      McNemar, Psychometrika 12, 1947; the exact form by the binomial sign test.
    """
    from scipy import stats  # takes a second to import

    pairs = [(o.greedy, n.greedy) for o, n in zip(before, after, strict=True)]
    is_judged = [old.is_judged and new.is_judged for old, new in pairs]
    gained, lost = [], []
    for outcome, (old, new), is_decided in zip(before, pairs, is_judged, strict=True):
        if is_decided and old.is_correct != new.is_correct:
            (gained if new.is_correct else lost).append(
                {
                    "problem_id": outcome.problem_id,
                    "before": old.error_class,
                    "after": new.error_class,
                }
            )
    num = len(gained) + len(lost)
    p_value = stats.binomtest(len(gained), num, 0.5).pvalue if num else 1.0
    right = sum(old.is_correct and new.is_correct for old, new in pairs)
    return Flips(
        wrong_to_right=gained,
        right_to_wrong=lost,
        both_right=right,
        both_wrong=sum(is_judged) - right - num,
        undecided=len(pairs) - sum(is_judged),
        p_value=float(p_value),
    )


def comparison(
    before: Sequence[Outcome],
    after: Sequence[Outcome],
    pass_at: Sequence[int],
    settings: Mapping[str, Any],
    *,
    rare: int,
) -> dict[str, Any]:
    """Returns `num_problems`, `differences`, `flips` and `by_tag` of two checkpoints.

    By tag there are numbers of problems and differences alone.

    Args:
      before: Outcomes of the one that is compared against.
      after: Outcomes of the one that is evaluated; of other problems in part, perhaps.
      pass_at: The k of pass@k and majority@k.
      settings: `confidence`, `resamples` and `seed` of the bootstrap.
      rare: Fewest problems that a tag's value stands alone with.
    """
    before, after = paired(before, after)
    if not before:
        raise ValueError(
            "the two checkpoints have no problem in common whose prompt fits both. "
            "Raise prompt.max_prompt_tokens."
        )
    whole = np.arange(len(before))

    def among(places: np.ndarray) -> dict[str, Any]:
        parts = [[side[place] for place in places] for side in (before, after)]
        found = differences(parts[0], parts[1], pass_at, **settings)
        return {"num_problems": len(places), "differences": found}

    slices = slices_by_tag([outcome.tags for outcome in before], rare)
    return among(whole) | {
        "flips": flips_of(before, after)._asdict(),
        "by_tag": {
            tag: {value: among(places) for value, places in values.items()}
            for tag, values in slices.items()
        },
    }
