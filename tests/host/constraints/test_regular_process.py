import numpy as np
import pytest

from jaxgrpo.host.constraints.regular import regular
from jaxgrpo.host.constraints.regular_process import regular_in_time


def test_the_automaton_is_the_same():
    pattern = r"é[a-f]{2,4}|\[\]"
    ours, theirs = regular_in_time(pattern), regular(pattern)
    # outlines-core numbers states differently each time.
    assert ours.next_A256.shape == theirs.next_A256.shape
    assert ours.moves == theirs.moves and ours.starts == theirs.starts
    assert ours.is_accepting_A.sum() == theirs.is_accepting_A.sum()
    np.testing.assert_array_equal(
        np.bincount((ours.next_A256 >= 0).sum(axis=1)),
        np.bincount((theirs.next_A256 >= 0).sum(axis=1)),
    )


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"the pattern '\(' cannot be compiled"),
        ("a{16384}", "states, more than 16,384"),
        (".*a.{30}", r"'\.\*a\.\{30\}' was not compiled after 1 s: .* \[\^a\]\*a"),
    ],
)
def test_what_is_wrong_or_endless_is_refused_in_one_line(pattern: str, message: str):
    with pytest.raises(ValueError, match=message) as caught:
        regular_in_time(pattern, cpu_s=1)
    assert "\n" not in str(caught.value)
