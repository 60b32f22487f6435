"""The answer after a trace is the last line; otherwise nothing is found otherwise."""

from dataclasses import replace

import pytest

from jaxgrpo.host.json_rows import completion_of
from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.prompt_variants import FIRST_STAGE, TRACE, second_stage_variant
from jaxgrpo.host.records import Completion, Problem
from jaxgrpo.host.verdict_cache import VerdictCache

PROBLEM = Problem(id="p", kind="output", prompt="f(1)", reference="[1, 2]")


def said(text: str, variant: str = TRACE) -> Completion:
    return replace(completion_of("p", text), prompt_variant=variant)


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ("x = [1]\nx = [1, 2]\n[1, 2]", "exact"),
        ("x = [1]\n\n[1, 2]\n\n", "exact"),
        ("[1, 2]", "exact"),
        ("<think>a\n3</think>x = 1\n [1, 2] ", "exact"),
        ("x = [1]\n[1,2]", "wrong_repr"),
        ("[1, 2]\nx = [1]", "not_one_literal"),
        ("[1, 2]\n[2]", "wrong_value"),
        ("x = [1]\nThe answer is [1, 2]", "not_one_literal"),
        ("<think>\n[1, 2]", "unfinished_thinking"),
        ("", "not_one_literal"),
    ],
)
@pytest.mark.parametrize("rule", ["whole", "raw", "last_line"])
def test_the_last_line_answers(text: str, error_class: str, rule: str):
    verdict = judge(
        PROBLEM, said(text), settings=JudgeSettings(literal_extraction=rule)
    )
    assert verdict.error_class == error_class
    assert verdict.is_correct == (error_class == "exact")


def test_where_the_answer_is_announced_the_rule_stays():
    settings = JudgeSettings(literal_extraction="markers")
    text = "x = [1]\n[ANSWER][1, 2][/ANSWER]\nDone."
    assert judge(PROBLEM, said(text), settings=settings).is_correct
    assert not judge(PROBLEM, said("x = [1]\n[1, 2]"), settings=settings).is_correct


@pytest.mark.parametrize(
    "variant", ["", "hint-1", FIRST_STAGE, second_stage_variant("x")]
)
def test_without_a_trace_in_front_the_whole_text_is_the_answer(variant: str):
    assert not judge(PROBLEM, said("x = 1\n[1, 2]", variant)).is_correct
    assert judge(PROBLEM, said("[1, 2]", variant)).is_correct


def test_verdicts_by_different_rules_are_kept_apart():
    cache = VerdictCache(1000, JudgeSettings())
    plain = cache.subject(PROBLEM, said("[1, 2]\n", ""))
    cache.put(plain, judge(PROBLEM, said("[1, 2]\n", "")), 1)
    traced = cache.subject(PROBLEM, said("x = 1\n[1, 2]\n"))
    assert cache.get(plain) is not None
    assert cache.get(traced) is None, "by the plain rule it is not exact"
