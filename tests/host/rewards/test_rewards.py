import difflib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.records import Completion, Problem, Verdict, VerdictStatus
from jaxgrpo.host.rewards import REWARDS, load_reward, load_rewards, reward_names
from jaxgrpo.host.rewards.exact import exact
from jaxgrpo.host.rewards.similarity import MAX_CHARACTER_PAIRS, similarity

WRONG = Verdict(status="WA", error_class="wrong_value")


def problem(reference: str) -> Problem:
    return Problem(id="p", kind="output", prompt="", reference=reference)


def completion(text: str) -> Completion:
    return Completion(
        problem_id="p",
        token_ids=np.zeros(1, np.int32),
        text=text,
        token_offsets=np.zeros((1, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(1, np.float32),
    )


def alike(text: str, reference: str) -> float:
    return similarity(problem(reference), completion(text), WRONG)


@pytest.mark.parametrize("name", reward_names())
def test_every_name_has_a_documented_function(name: str):
    reward = load_reward(name)
    assert reward.__name__ == name
    assert "Reference:" in (reward.__doc__ or "")


@pytest.mark.parametrize("name", reward_names())
def test_right_answer_earns_one(name: str):
    right = Verdict(status="OK", error_class="exact")
    assert load_reward(name)(problem("[1]"), completion("[1]"), right) == 1.0


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'similarity'"):
        load_reward("similarty")


def test_repeated_name_is_refused():
    with pytest.raises(ValueError, match=r"\['exact'\]"):
        load_rewards(["exact", "similarity", "exact"])


def test_order_of_names_is_kept():
    names = tuple(reversed(list(REWARDS)))
    assert tuple(load_rewards(names)) == names


@pytest.mark.parametrize("status", ["WA", "RE", "CE", "TLE", "MLE", "OLE"])
def test_exact_is_zero_for_whatever_is_not_right(status: VerdictStatus):
    verdict = Verdict(status=status, error_class="", num_passed=3, num_tests=4)
    assert exact(problem("5"), completion("5"), verdict) == 0.0


def test_similarity_of_hand_computed_pairs():
    # abcd and bcde share the block bcd: 2 * 3 / 8.
    assert alike("abcd", "bcde") == 0.75
    assert alike("[1,2]", "[1, 2]") == 2 * 5 / 11
    assert alike("", "5") == 0.0
    assert alike("5", "6") == 0.0
    assert alike("", "") == 1.0


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
@settings(deadline=None)
def test_similarity_is_the_ratio_of_difflib(text: str, reference: str):
    expected = difflib.SequenceMatcher(None, text, reference, autojunk=False).ratio()
    bound = 2 * min(len(text), len(reference)) / (len(text) + len(reference))
    assert alike(text, reference) == (expected if bound >= 0.1 else 0.0)


@given(st.text(max_size=30), st.text(max_size=30))
@settings(deadline=None)
def test_similarity_is_one_for_the_exact_text_only(text: str, reference: str):
    value = alike(text, reference)
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (text == reference)


def test_similarity_sees_frequent_characters_in_long_texts():
    # The library's default calls characters junk from 200 on.
    assert alike("ab" * 150 + "x", "ab" * 150) > 0.99


def test_similarity_of_an_endless_text_is_zero_at_once():
    assert alike("12" * 10**6, "[12, 12]") == 0.0


def test_similarity_abstains_where_both_are_long():
    side = math.isqrt(MAX_CHARACTER_PAIRS) + 1
    assert math.isnan(alike("ab" * side, "a" * side))
    assert alike("a" * side, "a" * side) == 1.0
