"""What a harvest keeps: right, ended, distinct, few a problem; and its batches."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.harvest import is_hit, kept_hits, right_share, shuffled_epochs
from jaxgrpo.host.records import Completion, Group, Problem, Prompt, Score, Verdict

RIGHT = Verdict(status="OK", error_class="exact")
WRONG = Verdict(status="WA", error_class="wrong_value")
LOST = Verdict(status="INFRA", error_class="infra")


def completion(text: str, *, num_tokens: int = 3, **changes) -> Completion:
    made = Completion(
        problem_id="p",
        token_ids=np.arange(num_tokens, dtype=np.int32),
        text=text,
        token_offsets=np.zeros((num_tokens, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(num_tokens, np.float32),
    )
    return replace(made, **changes)


def group(name: str, rows: Sequence[tuple[Completion, Verdict | None]]) -> Group:
    prompt = Prompt(problem_id=name, text="?", token_ids=np.arange(2, dtype=np.int32))
    return Group(
        problem=Problem(id=name, kind="output", prompt="?", reference="1"),
        prompts=(prompt,),
        completions=tuple(
            replace(c, problem_id=name, sample=number)
            for number, (c, _) in enumerate(rows)
        ),
        scores=tuple(Score(rewards={}, verdict=verdict) for _, verdict in rows),
    )


def texts(groups: list[Group]) -> dict[str, list[str]]:
    return {g.problem.id: [c.text for c in g.completions] for g in groups}


@pytest.mark.parametrize("verdict", [WRONG, LOST, None])
def test_what_was_not_judged_right_is_no_hit(verdict):
    assert not is_hit(completion("1"), Score(rewards={}, verdict=verdict))
    assert kept_hits([group("p", [(completion("1"), verdict)])], 4) == []


@pytest.mark.parametrize(
    ("finish_reason", "expected"), [("eos", True), ("stop", True), ("length", False)]
)
def test_what_was_cut_off_is_no_hit(finish_reason, expected):
    cut = completion("1", finish_reason=finish_reason)
    assert is_hit(cut, Score(rewards={}, verdict=RIGHT)) == expected


def test_hits_are_distinct_by_text_and_the_first_drawn_is_kept():
    rows = [
        (completion("a", num_tokens=5), RIGHT),
        (completion(" a\n", num_tokens=2), RIGHT),
        (completion("b"), WRONG),
    ]
    (kept,) = kept_hits([group("p", rows)], 4)
    assert [c.sample for c in kept.completions] == [0]
    assert len(kept.scores) == 1


def test_the_most_often_drawn_come_first_then_the_shortest_then_the_earliest():
    often, short, early, late = (
        completion("often", num_tokens=9),
        completion("short", num_tokens=2),
        completion("early", num_tokens=4),
        completion("late", num_tokens=4),
    )
    first = group("p", [(early, RIGHT), (often, RIGHT), (late, RIGHT)])
    second = group("p", [(often, RIGHT), (short, RIGHT)])
    kept = kept_hits([first, second], 9)
    assert texts(kept) == {"p": ["often", "short", "early", "late"]}
    assert texts(kept_hits([first, second], 2)) == {"p": ["often", "short"]}


def test_problems_keep_their_order_and_those_without_hits_are_left_out():
    groups = [
        group("z", [(completion("1"), RIGHT)]),
        group("dead", [(completion("2"), WRONG)]),
        group("a", [(completion("3"), RIGHT)]),
        group("z", [(completion("4"), RIGHT)]),
    ]
    assert texts(kept_hits(groups, 4)) == {"z": ["1", "4"], "a": ["3"]}


@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.sampled_from("abcde"), st.booleans()),
        max_size=30,
    ),
    st.integers(1, 4),
)
def test_laws_of_any_harvest(drawn, max_hits):
    groups = [
        group(name, [(completion(text), RIGHT if is_right else WRONG)])
        for name, text, is_right in drawn
    ]
    kept = texts(kept_hits(groups, max_hits))
    right = {(name, text) for name, text, is_right in drawn if is_right}
    assert kept.keys() == {name for name, _ in right}
    for name, found in kept.items():
        possible = {text for own, text in right if own == name}
        assert len(set(found)) == len(found) == min(max_hits, len(possible))
        assert set(found) <= possible


def test_share_of_right_answers_leaves_out_what_was_not_judged():
    rows = [(completion("1"), v) for v in (RIGHT, WRONG, LOST, RIGHT)]
    assert right_share([group("p", rows)]) == pytest.approx(2 / 3)
    assert np.isnan(right_share([]))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 3))
def test_every_row_comes_once_an_epoch_in_even_batches(num_rows, batch_size, epochs):
    found = list(shuffled_epochs(num_rows, batch_size, epochs=epochs, seed=[3]))
    assert len(found) == epochs
    for batches in found:
        assert sorted(np.concatenate(batches).tolist()) == list(range(num_rows))
        sizes = [len(batch) for batch in batches]
        assert max(sizes) <= batch_size and max(sizes) - min(sizes) <= 1


def test_epochs_differ_and_the_seed_repeats_them():
    first, second = (
        np.concatenate(b) for b in shuffled_epochs(32, 8, epochs=2, seed=[1])
    )
    again = np.concatenate(next(shuffled_epochs(32, 8, epochs=1, seed=[1])))
    other = np.concatenate(next(shuffled_epochs(32, 8, epochs=1, seed=[2])))
    assert first.tolist() == again.tolist()
    assert first.tolist() != second.tolist() and first.tolist() != other.tolist()
