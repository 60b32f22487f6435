from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.problems.store.splits import split_of

SHARES = {"test": 0.1, "validation": 0.05}


@given(st.text(), st.sampled_from(["validation", "test"]))
def test_a_published_split_stands(problem_id, published):
    assert split_of(problem_id, published, SHARES) == published


@given(st.text())
def test_nothing_is_dealt_out_where_no_split_is_missing(problem_id):
    assert split_of(problem_id, "train", {}) == split_of(problem_id, "", {}) == "train"


@pytest.mark.parametrize("published", ["", "train"])
def test_shares_are_about_as_asked(published):
    number = 20_000
    counts = Counter(split_of(f"p/{i}", published, SHARES) for i in range(number))
    for name, share in {**SHARES, "train": 0.85}.items():
        spread = (number * share * (1 - share)) ** 0.5
        assert abs(counts[name] - number * share) < 4 * spread


def test_a_larger_share_takes_nothing_out_of_its_split():
    ids = [f"p/{i}" for i in range(2000)]
    small = {i for i in ids if split_of(i, "", {"test": 0.1}) == "test"}
    large = {i for i in ids if split_of(i, "", {"test": 0.3}) == "test"}
    assert small < large


def test_the_split_of_an_id_never_changes():
    splits = [split_of(name, "", {"test": 0.5}) for name in ("a", "b", "c", "\ud800")]
    assert splits == ["test", "train", "test", "test"]
