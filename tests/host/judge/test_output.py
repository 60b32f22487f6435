"""Literals that follow reasoning: every completion has exactly one class."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.judge.error_classes import ERROR_CLASSES, NO_ANSWER
from jaxgrpo.host.judge.extraction import RULES
from jaxgrpo.host.judge.literal import LITERAL_CLASSES, judge_literal
from jaxgrpo.host.records import Completion, Problem, Verdict
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.rewards.similarity import Settings, similarity

PROBLEM = Problem(id="p", kind="output", prompt="", reference="[1, True]")
RULES_FOR_LITERALS = [rule for rule in RULES if rule not in ("raw", "one_block")]


def completion_of(text: str, **fields: Any) -> Completion:
    nothing = np.zeros(0)
    completion = Completion(
        problem_id="p",
        text=text,
        finish_reason="eos",
        token_ids=nothing,
        token_offsets=nothing,
        sampler_logprobs=nothing,
    )
    return replace(completion, **fields)


def verdict_of(text: str, rule: str = "markers", **fields: Any) -> Verdict:
    settings = JudgeSettings(literal_extraction=rule)
    return judge(PROBLEM, completion_of(text, **fields), settings=settings)


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        ("[1, True]", "exact"),
        ("\n[1, True]\n", "exact"),
        ("[1,true]", "wrong_repr"),
        ("[1, 1]", "wrong_value"),
        ("It is [1, True]", "not_one_literal"),
        ("", "not_one_literal"),
    ],
)
@pytest.mark.parametrize("rule", ["markers", "after_thinking", "last_block"])
def test_answer_is_judged_as_if_it_were_alone(rule: str, answer: str, error_class: str):
    said = {
        "markers": f"It counts.[ANSWER]{answer}[/ANSWER]",
        "after_thinking": f"It counts.</think>{answer}",
        "last_block": f"It counts.\n```\n{answer}\n```",
    }
    verdict = verdict_of(said[rule], rule)
    assert verdict.error_class == error_class
    assert verdict.extracted == answer.strip()


def test_span_is_that_of_the_answer():
    text = "It counts.\n[ANSWER]\n  [1, True]\n[/ANSWER]"
    (span,) = verdict_of(text).spans
    assert (text[span.start : span.end], span.label) == ("[1, True]", "answer")


def test_answer_that_is_not_there_is_wrong_and_says_why():
    verdict = verdict_of("[1, True]")
    assert (verdict.status, verdict.error_class) == ("WA", "no_answer_marker")
    assert (verdict.num_passed, verdict.num_tests) == (0, 1)
    assert (verdict.extracted, verdict.spans) == ("", ())


def test_cut_off_answer_is_told_from_one_that_a_stop_string_ended():
    text = "So [ANSWER][1, True]"
    assert verdict_of(text, finish_reason="length").error_class == "unclosed_answer"
    stopped = verdict_of(text, finish_reason="stop", stop="[/ANSWER]")
    assert stopped.error_class == "exact"


def test_thought_that_the_prompt_began_counts():
    text = "It counts.\n[1, True]"
    assert verdict_of(text, "last_line").error_class == "exact"
    verdict = verdict_of(text, "last_line", in_thought=True)
    assert verdict.error_class == "unfinished_thinking"


@pytest.mark.parametrize("text", ["[1, True]", " [1, True]", "", "<think></think>1"])
def test_by_default_the_whole_text_is_judged_as_ever(text: str):
    completion = completion_of(text, in_thought=True, stop="x", finish_reason="stop")
    assert judge(PROBLEM, completion) == judge_literal(text, PROBLEM.reference)


def test_classes_of_missing_answers_are_no_literal_s():
    assert not {*NO_ANSWER} & {*LITERAL_CLASSES}
    assert {*NO_ANSWER} <= {*ERROR_CLASSES}


PIECES = st.sampled_from(
    ["[ANSWER]", "[/ANSWER]", "</think>", "<think>", "```", "\n", " ", "x"]
    + ["[1, True]", "[1,true]", "2", r"\boxed{", "}"]
)


@given(
    st.lists(PIECES, max_size=12).map("".join),
    st.sampled_from(RULES_FOR_LITERALS),
    st.sampled_from(["", "[/ANSWER]", "```"]),
    st.booleans(),
)
def test_every_completion_has_exactly_one_class(
    text: str, rule: str, stop: str, in_thought: bool
):
    verdict = verdict_of(text, rule, stop=stop, in_thought=in_thought)
    classes = [*LITERAL_CLASSES, *NO_ANSWER]
    assert classes.count(verdict.error_class) == 1
    assert verdict.is_correct == (verdict.error_class == "exact")
    assert verdict.status == ("OK" if verdict.is_correct else "WA")
    # What was not found was not judged, and the other way round.
    assert not (verdict.extracted and verdict.error_class in NO_ANSWER)
    for span in verdict.spans:
        assert text[span.start : span.end] == verdict.extracted


def test_rewards_see_the_answer_alone():
    text = "It counts.[ANSWER][1, True][/ANSWER]"
    judged = Judged(
        problem=PROBLEM,
        completions=(completion_of(text), completion_of("[1, True]")),
        verdicts=(verdict_of(text), verdict_of("[1, True]")),
    )
    # Right words at the wrong place are no answer.
    assert similarity(judged, Settings()) == [1.0, 0.0]
