from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.problems.store.caps import kept_tests

SIZES = st.lists(st.integers(0, 100), max_size=40)
LIMIT = st.integers(0, 60)


@given(SIZES)
def test_without_limits_all_are_kept(sizes):
    assert kept_tests(sizes, 0, 0) == list(range(len(sizes)))


@given(SIZES, LIMIT, LIMIT)
def test_what_is_kept_is_within_the_limits_and_in_order(sizes, max_tests, max_bytes):
    kept = kept_tests(sizes, max_tests, max_bytes)
    assert kept == sorted(set(kept))
    assert not max_tests or len(kept) <= max_tests
    assert not max_bytes or sum(sizes[i] for i in kept) <= max_bytes


@given(SIZES, LIMIT, LIMIT)
def test_what_fits_is_left_as_it_is(sizes, max_tests, max_bytes):
    kept = kept_tests(sizes, max_tests, max_bytes)
    fitting = [sizes[i] for i in kept]
    assert kept_tests(fitting, max_tests, max_bytes) == list(range(len(fitting)))


@given(st.lists(st.integers(1, 100), min_size=1), st.integers(1, 10), st.integers(1))
def test_something_is_kept_if_anything_fits(sizes, max_tests, max_bytes):
    kept = kept_tests(sizes, max_tests, max_bytes)
    assert bool(kept) == (min(sizes) <= max_bytes)


@given(st.integers(2, 30), st.integers(2, 30))
def test_first_and_last_are_among_the_even_ones(number, max_tests):
    kept = kept_tests([1] * number, max_tests, 0)
    assert kept[0] == 0 and kept[-1] == number - 1
    assert len(kept) == min(number, max_tests)
    gaps = {after - before for before, after in zip(kept, kept[1:], strict=False)}
    assert max(gaps) - min(gaps) <= 1


def test_the_largest_go_first_and_of_equal_ones_the_last():
    assert kept_tests([3, 9, 3, 3], max_tests=0, max_bytes=9) == [0, 2, 3]
    assert kept_tests([3, 3, 3, 3], max_tests=0, max_bytes=9) == [0, 1, 2]
    assert kept_tests([3, 10, 3, 3], max_tests=3, max_bytes=9) == [0, 2, 3]
