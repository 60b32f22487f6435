"""How different the completions of one prompt are from one another."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from jaxgrpo.host.records import Group

NGRAM = 4
"""Tokens of an n-gram."""


def distinct_ngrams(completions: Sequence[Sequence[int] | np.ndarray], n: int) -> float:
    """Share of n-grams that are different, of all completions of a prompt together.

        D = unique n-grams / n-grams

    Args:
      completions: Token ids of each.
      n: Tokens of an n-gram.

    Returns:
      In (0, 1]; NaN where no completion has n tokens.

    Example:
      >>> distinct_ngrams([[1, 2, 3], [1, 2, 4]], 2)
      0.75

    Reference:
      Li et al., A Diversity-Promoting Objective Function for Neural Conversation
      Models, 2016, https://arxiv.org/abs/1510.03055, distinct-n.
    """
    counts = Counter(gram for ids in completions for gram in _ngrams(ids, n))
    total = sum(counts.values())
    return len(counts) / total if total else float("nan")


def pairwise_distance(
    completions: Sequence[Sequence[int] | np.ndarray], n: int
) -> float:
    """Mean over pairs of completions of 1 minus the Jaccard index of their n-grams.

        d(a, b) = 1 - |a & b| / |a | b|

    Args:
      completions: Token ids of each.
      n: Tokens of an n-gram.

    Returns:
      In [0, 1]: 0 where all are the same; NaN without two completions. Two completions
      too short to have an n-gram are the same if their tokens are.

    Example:
      >>> round(pairwise_distance([[1, 2, 3], [1, 2, 4]], 2), 3)
      0.667
    """
    sets = [set(_ngrams(ids, n)) or {tuple(map(int, ids))} for ids in completions]
    distances = [1.0 - len(a & b) / len(a | b) for a, b in combinations(sets, 2)]
    return float(np.mean(distances)) if distances else float("nan")


def diversity_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Diversity of a step's completions, mean over its groups.

    Args:
      groups: As sampled.
    """
    ids = [[c.token_ids for c in group.completions] for group in groups]
    distinct = np.array([distinct_ngrams(each, NGRAM) for each in ids])
    distances = np.array([pairwise_distance(each, NGRAM) for each in ids])
    return {
        f"diversity/distinct_{NGRAM}": _mean(distinct),
        "diversity/pairwise_distance": _mean(distances),
    }


def _ngrams(token_ids: Sequence[int] | np.ndarray, n: int) -> list[tuple[int, ...]]:
    tokens = [int(token) for token in token_ids]
    return list(zip(*(tokens[start:] for start in range(n)), strict=False))


def _mean(values: np.ndarray) -> float:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else float("nan")
