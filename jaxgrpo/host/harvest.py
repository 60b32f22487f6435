"""What is kept of a harvest: right completions, of problems that are answered wrong.

Many samples of a problem, at several temperatures, may hold a right one where the
greedy answer is wrong. These are the hits: what a short supervised pass imitates.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jaxgrpo.host.records import Completion, Group, Score


def is_hit(completion: Completion, score: Score) -> bool:
    """Whether a completion may be imitated: judged right, and ended by itself.

    What was cut off at its budget never learned to end, whatever the judge found in it.

    Args:
      completion: As it was sampled.
      score: With the judge's verdict.
    """
    is_right = score.verdict is not None and score.verdict.is_correct
    return is_right and completion.finish_reason != "length"


def right_share(groups: Sequence[Group]) -> float:
    """Share of judged completions that are right; NaN without any.

    Args:
      groups: After scoring.
    """
    verdicts = [s.verdict for group in groups for s in group.scores if s.verdict]
    flags = [v.is_correct for v in verdicts if v.status != "INFRA"]
    return float(np.mean(flags)) if flags else float("nan")


def kept_hits(groups: Sequence[Group], max_hits: int) -> list[Group]:
    """The hits of each problem, at most so many, no two with the same text.

    Those that were drawn most often come first: they are the likeliest under the
    mixture that sampled, so that imitating them moves the policy least. Among equals
    the one of fewer tokens comes first, then the one that was drawn first. Spaces at
    either end make no text another one.

    Args:
      groups: After scoring; a problem may have several, such as one a temperature.
      max_hits: Of a problem.

    Returns:
      One group for each problem with a hit, in the order in which problems first occur.
    """
    by_problem: dict[str, list[Group]] = {}
    for group in groups:
        by_problem.setdefault(group.problem.id, []).append(group)
    kept = [_kept(own, max_hits) for own in by_problem.values()]
    return [group for group in kept if group.completions]


def _kept(groups: Sequence[Group], max_hits: int) -> Group:
    """All groups of a problem as one, of the hits that are kept."""
    counts: Counter[str] = Counter()
    first: dict[str, tuple[Completion, Score]] = {}
    for group in groups:
        for completion, score in zip(group.completions, group.scores, strict=True):
            if is_hit(completion, score):
                text = completion.text.strip()
                counts[text] += 1
                first.setdefault(text, (completion, score))

    def rank(text: str) -> tuple[int, int]:
        return -counts[text], len(first[text][0].token_ids)

    chosen = [first[text] for text in sorted(first, key=rank)[:max_hits]]
    return replace(
        groups[0],
        completions=tuple(completion for completion, _ in chosen),
        scores=tuple(score for _, score in chosen),
    )


def shuffled_epochs(
    num_rows: int, batch_size: int, *, epochs: int, seed: Sequence[int]
) -> Iterator[list[np.ndarray]]:
    """The batches of each epoch, as places of rows; every row once, in random order.

    An epoch's batches are as even as can be: none is left with a row or two, which
    would weigh as much as all others.

    Args:
      num_rows: At least 1.
      batch_size: Most rows of a batch.
      epochs: Passes over the rows.
      seed: Decides the order.

    Example:
      >>> (batches,) = shuffled_epochs(9, 4, epochs=1, seed=[0])
      >>> [len(batch) for batch in batches]
      [3, 3, 3]
    """
    num_batches = -(-num_rows // batch_size)
    for epoch in range(epochs):
        order = np.random.default_rng([*seed, epoch]).permutation(num_rows)
        yield np.array_split(order, num_batches)
