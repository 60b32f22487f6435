"""Diversity against counts by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.diversity import distinct_ngrams, pairwise_distance

ids = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=2, max_size=5
)


def test_all_the_same_have_no_distance():
    assert pairwise_distance([[1, 2, 3, 4, 5]] * 3, 4) == 0.0
    # Two 4-grams, three times each.
    assert distinct_ngrams([[1, 2, 3, 4, 5]] * 3, 4) == pytest.approx(2 / 6)


def test_nothing_in_common_is_as_far_as_can_be():
    completions = [np.arange(5), np.arange(10, 15)]
    assert pairwise_distance(completions, 4) == 1.0
    assert distinct_ngrams(completions, 4) == 1.0


def test_short_completions_are_compared_whole():
    assert pairwise_distance([[1], [1]], 4) == 0.0
    assert pairwise_distance([[1], [2]], 4) == 1.0
    assert math.isnan(distinct_ngrams([[1], [2]], 4))
    assert math.isnan(pairwise_distance([[1, 2, 3, 4]], 4))


@given(ids, st.integers(1, 4))
def test_order_does_not_matter_and_values_are_shares(completions, n):
    distance = pairwise_distance(completions, n)
    assert 0.0 <= distance <= 1.0
    assert pairwise_distance(completions[::-1], n) == pytest.approx(distance)
    distinct = distinct_ngrams(completions, n)
    assert math.isnan(distinct) or 0.0 < distinct <= 1.0
