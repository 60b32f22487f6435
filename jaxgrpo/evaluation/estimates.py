"""Estimates from n samples of a problem, and their intervals over problems."""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

Interval = tuple[float, float]
"""Lower and upper end; NaN where there is none."""

_MOST_NUMBERS = 1 << 24
"""Numbers that the bootstrap holds at a time."""


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Returns the unbiased estimate of the chance that one of k samples is correct.

        pass@k = 1 - C(n - c, k) / C(n, k)

    Args:
      num_samples: n, at least k.
      num_correct: c, in [0, n].
      k: At least 1.

    Example:
      >>> pass_at_k(8, 2, 1), pass_at_k(8, 2, 8), pass_at_k(8, 0, 4)
      (0.25, 1.0, 0.0)

    Reference:
      Chen et al., Evaluating Large Language Models Trained on Code, 2021,
      https://arxiv.org/abs/2107.03374, equation 1.
    """
    assert 1 <= k <= num_samples, f"pass@{k} from {num_samples} samples"
    wrong = num_samples - num_correct
    return 1.0 - math.comb(wrong, k) / math.comb(num_samples, k)


def majority_at_k(
    answers: Sequence[tuple[int, int]], num_samples: int, k: int
) -> float:
    """Returns the chance that the most frequent answer among k samples is correct.

    The mean over all subsets of k of the n samples, without drawing any. In a subset,
    answers that are equally frequent share its vote; samples without an answer do not
    vote, and a subset in which none does is wrong. An answer may be spelled in several
    ways of which not all are correct: then it is as correct as the share of them, as if
    one of its samples were submitted. So majority@1 is pass@1.

    Args:
      answers: Samples that gave each answer, and the correct ones among them.
      num_samples: n, those without an answer included; at least k.
      k: At least 1.

    Example:
      >>> majority_at_k([(2, 2), (1, 0)], 3, 3), majority_at_k([(1, 1), (1, 0)], 2, 2)
      (1.0, 0.5)

    Reference:
      Wang et al., Self-Consistency, 2023, https://arxiv.org/abs/2203.11171; there with
      one subset, and ties broken at random. Unlike verl's `maj@k`, which draws subsets
      with replacement, it has no noise of its own.
    """
    assert 1 <= k <= num_samples, f"majority@{k} from {num_samples} samples"
    assert sum(size for size, _ in answers) <= num_samples, f"{answers} {num_samples}"
    return _majority(tuple(sorted(answers)), num_samples, k)


@lru_cache(maxsize=65_536)
def _majority(answers: tuple[tuple[int, int], ...], num_samples: int, k: int) -> float:
    total = sum(
        _weight_of_top(answers, num_samples, k, top)
        for top in range(1, min(k, max((size for size, _ in answers), default=0)) + 1)
    )
    return total / math.comb(num_samples, k)


def _weight_of_top(
    answers: tuple[tuple[int, int], ...], num_samples: int, k: int, top: int
) -> float:
    """Sum over subsets whose largest answer has `top` samples of how correct they are.

    Answers are added one by one. `ways[s, r]` counts the choices of s samples so far in
    which r answers have `top` samples and none has more; `correct[s, r]` is their sum
    of the correct shares of these r answers.
    """
    most_tied = k // top
    ways = np.zeros((k + 1, most_tied + 1))
    correct = np.zeros_like(ways)
    silent = num_samples - sum(size for size, _ in answers)
    for number in range(min(k, silent) + 1):
        ways[number, 0] = math.comb(silent, number)
    for size, num_correct in answers:
        new_ways, new_correct = ways.copy(), correct.copy()
        for number in range(1, min(size, top - 1, k) + 1):
            factor = math.comb(size, number)
            new_ways[number:] += factor * ways[: k + 1 - number]
            new_correct[number:] += factor * correct[: k + 1 - number]
        if size >= top:
            factor, rest = math.comb(size, top), k + 1 - top
            new_ways[top:, 1:] += factor * ways[:rest, :-1]
            gained = correct[:rest, :-1] + num_correct / size * ways[:rest, :-1]
            new_correct[top:, 1:] += factor * gained
        ways, correct = new_ways, new_correct
    return float((correct[k, 1:] / np.arange(1, most_tied + 1)).sum())


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Returns mean and standard error of what is not NaN; NaN without any.

    Args:
      values: One per problem.
    """
    present = values[~np.isnan(values)]
    if not present.size:
        return math.nan, math.nan
    error = present.std(ddof=1) / math.sqrt(present.size) if present.size > 1 else 0.0
    return float(present.mean()), float(error)


def bootstrap_intervals(
    columns: Mapping[str, np.ndarray],
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> dict[str, Interval]:
    """Returns the interval of each column's mean, by bootstrap over problems.

    BCa intervals of `scipy.stats.bootstrap`. Where all problems have the same value
    there is nothing to resample: for a share of 0 or 1 the exact interval of Clopper
    and Pearson is returned, for other values no interval. The percentile interval takes
    the place of a BCa interval that is undefined, which few problems can make it.

    Args:
      columns: Values by metric, one per problem in one order; NaN is left out.
      confidence: Such as 0.95.
      resamples: Bootstrap samples.
      seed: Of the resampling. Columns without NaN are resampled alike.

    Reference:
      Efron, Better Bootstrap Confidence Intervals, 1987, J. Am. Stat. Assoc. 82.
    """
    intervals: dict[str, Interval] = {}
    alike: dict[bytes, list[str]] = {}
    for name, values in columns.items():
        present = values[~np.isnan(values)]
        if not present.size or np.ptp(present) == 0:
            intervals[name] = _of_constant(present, confidence)
        else:
            alike.setdefault(np.isnan(values).tobytes(), []).append(name)
    for names in alike.values():
        rows = np.stack([columns[name][~np.isnan(columns[name])] for name in names])
        intervals |= zip(
            names, _bootstrapped(rows, confidence, resamples, seed), strict=True
        )
    return {name: intervals[name] for name in columns}


def _bootstrapped(
    rows: np.ndarray, confidence: float, resamples: int, seed: int
) -> list[Interval]:
    from scipy import stats  # takes a second to import

    def ends(method: str) -> np.ndarray:
        # All rows at once: each is resampled with the same problems.
        with warnings.catch_warnings(action="ignore"):  # of undefined intervals
            found = stats.bootstrap(
                (rows,),
                np.mean,
                axis=-1,
                vectorized=True,
                method=method,  # type: ignore[arg-type]
                confidence_level=confidence,
                n_resamples=resamples,
                batch=max(1, _MOST_NUMBERS // rows.size),
                rng=np.random.default_rng(seed),
            )
        interval = found.confidence_interval
        return np.stack([interval.low, interval.high], axis=-1)

    corrected = ends("BCa")
    is_undefined = np.isnan(corrected).any(axis=-1, keepdims=True)
    if is_undefined.any():
        corrected = np.where(is_undefined, ends("percentile"), corrected)
    return [(float(low), float(high)) for low, high in corrected]


def _of_constant(present: np.ndarray, confidence: float) -> Interval:
    if not present.size or present[0] not in (0.0, 1.0):
        return math.nan, math.nan
    from scipy import stats

    num = present.size
    exact = stats.binomtest(int(present[0]) * num, num).proportion_ci(
        confidence_level=confidence, method="exact"
    )
    return float(exact.low), float(exact.high)
