"""The order of pairs: each once an epoch, alike in length, and resumable."""

import itertools

import numpy as np
import pytest

from jaxgrpo.preferences.batches import batches

LENGTHS = np.random.default_rng(0).integers(10, 200, 1_000)


def taken(number: int, **changes: int) -> list[np.ndarray]:
    settings = {"seed": 0, "start": 0} | changes
    return list(itertools.islice(batches(LENGTHS, 8, **settings), number))


def test_every_pair_comes_once_an_epoch():
    epochs = taken(250)
    for epoch in (epochs[:125], epochs[125:]):
        assert sorted(np.concatenate(epoch)) == list(range(1_000))
    assert not np.array_equal(epochs[0], epochs[125])


def test_an_epoch_ends_with_what_is_left():
    sizes = [len(b) for b in itertools.islice(batches(LENGTHS[:10], 8, seed=0), 4)]
    assert sorted(sizes) == [2, 2, 8, 8]


@pytest.mark.parametrize("start", [1, 124, 125, 200])
def test_going_on_later_gives_what_would_have_come(start: int):
    for one, other in zip(
        taken(260)[start:], taken(260 - start, start=start), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_batches_are_alike_in_length():
    spread = np.mean([np.ptp(LENGTHS[places]) for places in taken(125)])
    assert spread < 0.2 * np.ptp(LENGTHS)
