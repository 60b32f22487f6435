"""How well scores put right answers above wrong ones; what a pick by them is worth."""

import math
from collections.abc import Sequence

import numpy as np


def auc(scores: np.ndarray, is_right: np.ndarray) -> float:
    """Returns the chance that a right answer has a higher score than a wrong one.

        AUC = P(s > s') + P(s = s') / 2,    s of a right, s' of a wrong answer

    The area under the receiver operating characteristic.

    Args:
      scores: One per answer; minus infinity is below all others.
      is_right: Whether each is right.

    Returns:
      A share; NaN without answers of both kinds.

    Example:
      >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
      0.75

    Reference:
      Mann and Whitney, Annals of Mathematical Statistics 18, 1947; equals
      scikit-learn's `roc_auc_score`.
    """
    right, wrong = scores[is_right], np.sort(scores[~is_right])
    if not right.size or not wrong.size:
        return math.nan
    below = np.searchsorted(wrong, right, side="left")
    not_above = np.searchsorted(wrong, right, side="right")
    return float((below + not_above).sum() / (2 * right.size * wrong.size))


def best_of_k(scores: np.ndarray, is_right: np.ndarray, k: int) -> float:
    """Returns the chance that the highest score among k of n answers is of a right one.

    The mean over all subsets of k, without drawing any. With the answers in groups of
    equal scores, from the lowest, and N_g of them up to group g,

        best@k = sum_g (C(N_g, k) - C(N_{g-1}, k)) / C(n, k) * share of g that is right

    since the top of a subset is any of its members of the highest group alike.

    Args:
      scores: One per answer of a problem.
      is_right: Whether each is right.
      k: From 1, where it is the share of right answers, to n.

    Example:
      >>> right = np.array([True, False, False])
      >>> best_of_k(np.array([3.0, 2.0, 1.0]), right, 2)
      0.6666666666666666
      >>> best_of_k(np.array([0.0, 0.0, 0.0]), right, 2)
      0.3333333333333333
    """
    num = len(scores)
    assert 1 <= k <= num, f"best of {k} from {num} answers"
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    shares = np.bincount(group, weights=is_right.astype(float)) / sizes
    ways = [math.comb(int(end), k) for end in np.cumsum(sizes)]
    chances = np.diff([0, *ways]) / math.comb(num, k)
    return float((chances * shares).sum())


def auc_within(
    scores: Sequence[np.ndarray], is_right: Sequence[np.ndarray]
) -> np.ndarray:
    """Returns the AUC within each problem; NaN where its answers are of one kind.

    Args:
      scores: Of the answers of each problem.
      is_right: Likewise.
    """
    return np.array([auc(s, r) for s, r in zip(scores, is_right, strict=True)])
