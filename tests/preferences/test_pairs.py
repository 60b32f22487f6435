"""Pairs from hand-made answers: sides, ties, caps, balance, splits."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.preferences.pairs import (
    JudgedAnswer,
    Pair,
    distinct,
    is_held_out,
    pairs_of,
)


def judged(problem: str, answer: str, kind: str) -> JudgedAnswer:
    """Kind: right, wrong (it runs), or broken (it does not)."""
    return JudgedAnswer(
        problem_id=problem,
        answer=answer,
        is_right=kind == "right",
        has_run=kind != "broken",
    )


def made(answers: list[JudgedAnswer], rejected: str = "valid", limit: int = 8):
    return pairs_of(answers, rejected=rejected, per_problem=limit, seed=0)  # type: ignore[arg-type]


def test_pairs_are_of_one_problem_and_of_both_kinds():
    answers = [
        judged("a", "1", "right"), judged("a", "2", "wrong"),
        judged("b", "3", "right"), judged("c", "4", "wrong"),
    ]  # fmt: skip
    assert made(answers) == [Pair(problem_id="a", preferred="1", rejected="2")]


def test_wrong_answers_that_do_not_run_can_be_left_out():
    answers = [
        judged("a", "1", "right"), judged("a", "2", "wrong"),
        judged("a", "3", "broken"), judged("b", "1", "right"),
        judged("b", "2", "broken"),
    ]  # fmt: skip
    assert {(p.problem_id, p.rejected) for p in made(answers)} == {
        ("a", "2"), ("a", "3"), ("b", "2"),
    }  # fmt: skip
    assert [p.rejected for p in made(answers, "running")] == ["2"]


def test_an_answer_counts_once_and_not_at_all_if_disputed():
    answers = [
        judged("a", "1", "right"), judged("a", "1", "right"),
        judged("b", "1", "wrong"), judged("a", "2", "wrong"),
        judged("a", "2", "right"), judged("a", "3", "broken"),
    ]  # fmt: skip
    kept = [(j.problem_id, j.answer) for j in distinct(answers)]
    assert kept == [("a", "1"), ("b", "1"), ("a", "3")]


def test_no_problem_has_more_pairs_than_the_limit():
    answers = [judged("a", f"r{i}", "right") for i in range(4)]
    answers += [judged("a", f"w{i}", "wrong") for i in range(6)]
    answers += [judged("b", "r", "right"), judged("b", "w", "wrong")]
    counts = Counter(pair.problem_id for pair in made(answers, limit=5))
    assert counts == {"a": 5, "b": 1}


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 40), st.randoms())
def test_pairs_are_distinct_and_balanced(num_right, num_wrong, limit, random):
    answers = [judged("a", f"r{i}", "right") for i in range(num_right)]
    answers += [judged("a", f"w{i}", "wrong") for i in range(num_wrong)]
    found = made(answers, limit=limit)
    assert len(found) == len(set(found)) == min(limit, num_right * num_wrong)
    for side, number in (("preferred", num_right), ("rejected", num_wrong)):
        uses = Counter(getattr(pair, side) for pair in found)
        most, least = max(uses.values()), min(uses.values())
        assert most - (least if len(uses) == number else 0) <= 1
    random.shuffle(answers)
    assert made(answers, limit=limit) == found


def test_a_problem_gives_the_same_pairs_among_others():
    own = [judged("a", f"{kind}{i}", kind) for kind in ("right", "wrong")
           for i in range(5)]  # fmt: skip
    others = [judged("0", "x", "right"), judged("0", "y", "wrong")]
    among = [pair for pair in made(others + own) if pair.problem_id == "a"]
    assert among == made(own)


def test_seed_decides_which_pairs():
    own = [judged("a", f"{kind}{i}", kind) for kind in ("right", "wrong")
           for i in range(9)]  # fmt: skip
    first, second = (
        pairs_of(own, rejected="valid", per_problem=4, seed=seed) for seed in (0, 1)
    )
    assert first != second


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_share_of_the_problems_is_held_out(fraction: float):
    names = [f"problem-{i}" for i in range(2_000)]
    chosen = {name for name in names if is_held_out(name, fraction, 0)}
    assert len(chosen) / 2_000 == pytest.approx(fraction, abs=0.03)
    assert chosen != {name for name in names if is_held_out(name, fraction, 1)}
    # A larger share keeps all that were held out before.
    assert chosen <= {name for name in names if is_held_out(name, 0.6, 0)}
