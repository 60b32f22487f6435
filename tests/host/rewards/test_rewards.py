import dataclasses
import difflib
import importlib
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.records import Completion, Problem, Verdict, VerdictStatus
from jaxgrpo.host.rewards import (
    REWARDS,
    RewardSpec,
    checked_specs,
    load_reward,
    reward_names,
    reward_spec,
    settings_class,
)
from jaxgrpo.host.rewards.exact import Settings as ExactSettings
from jaxgrpo.host.rewards.exact import exact
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.rewards.similarity import MAX_CHARACTER_PAIRS, similarity
from jaxgrpo.host.rewards.similarity import Settings as SimilaritySettings

WRONG = Verdict(status="WA", error_class="wrong_value")


def judged(reference: str, text: str, verdict: Verdict = WRONG) -> Judged:
    problem = Problem(id="p", kind="output", prompt="", reference=reference)
    completion = Completion(
        problem_id="p",
        token_ids=np.zeros(1, np.int32),
        text=text,
        token_offsets=np.zeros((1, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(1, np.float32),
    )
    verdict = dataclasses.replace(verdict, extracted=text)
    return Judged(problem=problem, completions=(completion,), verdicts=(verdict,))


def alike(text: str, reference: str) -> float:
    (value,) = similarity(judged(reference, text), SimilaritySettings())
    return value


# The registry


@pytest.mark.parametrize("name", reward_names())
def test_every_reward_has_settings_that_travel(name: str):
    if name not in ("function", "learned"):  # which have to be told something
        spec = reward_spec(name)
        assert pickle.loads(pickle.dumps(spec)) == spec
    assert dataclasses.is_dataclass(settings_class(name))


@pytest.mark.parametrize("name", [n for n, s in REWARDS.items() if s == "host"])
def test_every_reward_of_the_host_has_a_documented_function(name: str):
    module = importlib.import_module(f"jaxgrpo.host.rewards.{name}")
    text = f"{module.__doc__} {getattr(module, name).__doc__}"
    assert "Reference:" in text or "READING" in text


def test_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'similarity'"):
        reward_spec("similarty")


def test_repeated_name_is_refused():
    with pytest.raises(ValueError, match=r"\['exact'\]"):
        checked_specs(["exact", "similarity", "exact"])


def test_order_of_names_is_kept():
    specs = checked_specs(["similarity", "exact"])
    assert [spec.name for spec in specs] == ["similarity", "exact"]


def test_one_kind_may_be_used_under_two_names():
    twin = RewardSpec(name="twin", kind="exact", settings=ExactSettings())
    assert [spec.kind for spec in checked_specs(["exact", twin])] == ["exact"] * 2


def test_function_gets_its_settings():
    reward = load_reward(reward_spec("exact"))
    right = Verdict(status="OK", error_class="exact")
    assert reward(judged("5", "5", right)) == [1.0]


# The rewards that need no file of their own


@pytest.mark.parametrize("status", ["WA", "RE", "CE", "TLE", "MLE", "OLE"])
def test_exact_is_zero_for_whatever_is_not_right(status: VerdictStatus):
    verdict = Verdict(status=status, error_class="", num_passed=3, num_tests=4)
    assert exact(judged("5", "5", verdict), ExactSettings()) == [0.0]


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
