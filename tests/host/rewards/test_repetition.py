from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.rewards.repetition import (
    Settings,
    columns,
    ends_in_loop,
    repeated_share,
    repetition,
)
from tests.host.rewards.groups import completion, of_literals

SMALL = Settings(tail_tokens=4, ngram_tokens=2)


def judged(*token_ids: list[int], finish_reason: str = "length"):
    completions = tuple(
        completion(token_ids=ids, finish_reason=finish_reason)  # type: ignore[arg-type]
        for ids in token_ids
    )
    return replace(of_literals("", *[""] * len(token_ids)), completions=completions)


def has_period(ids: list[int], period: int) -> bool:
    return all(ids[i] == ids[i + period] for i in range(len(ids) - period))


def test_loop_costs_and_a_share_only_if_asked_for():
    rows = judged([9, 9, 1, 2, 3, 1, 2, 3, 1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8])
    assert repetition(rows, SMALL) == [-1.0, 0.0]
    # 99 91 12 23 31 12 23 31 12 23: 5 of 10 stood there before.
    assert columns(rows, SMALL)[0] == {"loop": 1.0, "share": 0.5}
    taken = repetition(rows, replace(SMALL, loop_penalty=0.25, share_penalty=2.0))
    assert taken == [-1.25, 0.0]


def test_papers_condition_is_a_loop():
    tail = list(range(128))
    assert ends_in_loop([7, *tail, *tail], 128)
    assert not ends_in_loop([*tail, 999, *tail[1:]], 128)


def test_loop_that_does_not_come_round_in_the_window_is_found():
    assert ends_in_loop(list(range(7)) * 40, 128)


def test_end_token_belongs_to_no_loop():
    looping = [1, 2, 3, 4] * 2 + [0]
    assert repetition(judged(looping), SMALL) == [0.0]
    assert repetition(judged(looping, finish_reason="eos"), SMALL) == [-1.0]


@given(st.lists(st.integers(0, 2), max_size=24), st.integers(1, 6))
@settings(deadline=None, max_examples=100)
def test_loop_is_a_period_of_the_end(ids: list[int], tail: int):
    end = ids[-2 * tail :]
    expected = len(ids) >= 2 * tail and any(
        has_period(end, period) for period in range(1, tail + 1)
    )
    assert ends_in_loop(ids, tail) == expected


@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 4))
@settings(deadline=None)
def test_share_counts_what_was_there_before(ids: list[int], size: int):
    grams = [ids[i : i + size] for i in range(len(ids) - size + 1)]
    before = [gram in grams[:i] for i, gram in enumerate(grams)]
    assert repeated_share(ids, size) == pytest.approx(
        sum(before) / len(before) if before else 0.0
    )


@pytest.mark.parametrize(
    "wrong", [{"tail_tokens": 0}, {"ngram_tokens": 0}, {"loop_penalty": -1.0}]
)
def test_settings_out_of_range_are_refused(wrong):
    (name, value), *_ = wrong.items()
    with pytest.raises(ValueError, match=f"{name} {value}"):
        Settings(**wrong)
