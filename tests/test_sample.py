"""Completions for a person: in pieces, in order, and the same each time."""

from typing import Any

import pytest

from jaxgrpo.sample import sampled_pieces

BASE = "builtin:output_prediction_base"
PROMPT = "def f(x):\n return x + x\nf([1, 2, 3, 4, 5])"


def pieces(**changes: Any) -> list[tuple[int, str]]:
    arguments: dict[str, Any] = {
        "num_samples": 2, "temperature": 1.0, "max_new_tokens": 20, "seed": 0,
    }  # fmt: skip
    return list(sampled_pieces(BASE, PROMPT, **(arguments | changes)))


def texts(drawn: list[tuple[int, str]]) -> list[str]:
    numbers = [number for number, _ in drawn]
    assert numbers == sorted(numbers) and set(numbers) == {0, 1}
    return [
        "".join(piece for number, piece in drawn if number == wanted)
        for wanted in (0, 1)
    ]


@pytest.fixture(scope="module")
def greedy() -> list[tuple[int, str]]:
    return pieces(temperature=0.0)


def test_greedy_samples_are_equal_and_repeat(greedy: list[tuple[int, str]]):
    first, second = texts(greedy)
    assert first == second != ""
    assert pieces(temperature=0.0) == greedy


def test_samples_differ_and_repeat_with_their_seed():
    first, second = texts(pieces(temperature=1.5))
    assert first != second
    assert texts(pieces(temperature=1.5)) == [first, second]
    assert texts(pieces(temperature=1.5, seed=1)) != [first, second]


def test_text_comes_before_its_completion_has_ended(greedy: list[tuple[int, str]]):
    # A segment has at most eight tokens.
    assert len([number for number, piece in greedy if number == 0 and piece]) > 1


def test_a_constraint_holds_from_the_first_token():
    drawn = texts(pieces(temperature=1.5, constraint="choice:yes|no"))
    assert set(drawn) <= {"yes", "no"}


def test_an_unknown_constraint_is_refused():
    with pytest.raises(ValueError, match="constraint 'yaml' is of no known kind"):
        pieces(constraint="yaml")


def test_a_prompt_beyond_the_model_is_refused():
    with pytest.raises(ValueError, match=r"together more than the model's 512"):
        pieces(max_new_tokens=500)
