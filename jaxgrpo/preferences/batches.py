"""The order in which pairs are learned from: batches of like lengths, shuffled."""

from collections.abc import Iterator

import numpy as np

WINDOW_BATCHES = 16
"""Batches that are sorted by length together, so that little is padding."""


def batches(
    lengths: np.ndarray, batch_size: int, *, seed: int, start: int = 0
) -> Iterator[np.ndarray]:
    """Yields places of the pairs of each batch, epoch after epoch, without end.

    Every pair comes once an epoch. An epoch's last pairs may be a smaller batch.

    Args:
      lengths: Tokens of the longer side of each pair.
      batch_size: Pairs of a batch.
      seed: Decides the order.
      start: Batches to leave out: those before an interruption.
    """
    per_epoch = -(-len(lengths) // batch_size)
    epoch, skipped = divmod(start, per_epoch)
    while True:
        yield from _epoch(lengths, batch_size, (seed, epoch))[skipped:]
        epoch, skipped = epoch + 1, 0


def _epoch(
    lengths: np.ndarray, batch_size: int, seed: tuple[int, int]
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths))
    size = batch_size * WINDOW_BATCHES
    windows = [order[at : at + size] for at in range(0, len(order), size)]
    ordered = np.concatenate(
        [w[np.argsort(lengths[w], kind="stable")] for w in windows]
    )
    parts = [ordered[at : at + batch_size] for at in range(0, len(order), batch_size)]
    return [parts[place] for place in rng.permutation(len(parts))]
