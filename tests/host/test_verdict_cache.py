from dataclasses import replace
from typing import Any

import numpy as np

from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.records import Completion, Problem, Span, Verdict
from jaxgrpo.host.verdict_cache import VerdictCache

PROBLEM = Problem(id="p", kind="output", prompt="", reference="5")
OTHER = Problem(id="q", kind="output", prompt="", reference="5")
CODE = Problem(id="c", kind="stdin", prompt="", reference="")
RIGHT = Verdict(status="OK", error_class="exact")
WRONG = Verdict(status="WA", error_class="wrong_value")
INFRA = Verdict(status="INFRA", error_class="infra")


def cache_of(max_bytes: int = 100, **settings: Any) -> VerdictCache:
    return VerdictCache(max_bytes, JudgeSettings(**settings))


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


def put(cache: VerdictCache, text: str, verdict: Verdict, size: int = 10) -> None:
    cache.put(cache.subject(PROBLEM, completion_of(text)), verdict, size)


def known(cache: VerdictCache, text: str, problem: Problem = PROBLEM) -> Verdict | None:
    return cache.get(cache.subject(problem, completion_of(text)))


def test_verdict_is_known_for_its_problem_and_text_only():
    cache = cache_of()
    put(cache, "5", RIGHT)
    assert known(cache, "5") is RIGHT
    assert known(cache, "6") is None
    assert known(cache, "5", OTHER) is None


def test_infrastructure_errors_are_forgotten():
    cache = cache_of()
    put(cache, "5", INFRA)
    assert known(cache, "5") is None


def test_least_recently_used_makes_room():
    cache = cache_of()
    put(cache, "1", WRONG, 40)
    put(cache, "2", WRONG, 40)
    known(cache, "1")
    put(cache, "3", WRONG, 40)
    assert known(cache, "1") is WRONG
    assert known(cache, "2") is None
    assert known(cache, "3") is WRONG


def test_replaced_verdict_does_not_count_twice():
    cache = cache_of()
    put(cache, "other", WRONG, 40)
    for _ in range(10):
        put(cache, "5", RIGHT, 40)
    assert known(cache, "other") is WRONG


def test_verdict_larger_than_the_cache_leaves_it_alone():
    cache = cache_of()
    put(cache, "5", RIGHT, 40)
    put(cache, "huge", WRONG, 101)
    assert known(cache, "5") is RIGHT
    assert known(cache, "huge") is None


FENCED = "Well:\n```python\nx = 1\nprint(y)\n```\n"
INDENTED = "1. First, this:\n  ```python\n  x = 1\n  print(y)\n  ```\nThat is it."


def test_same_program_in_other_words_has_the_same_verdict():
    cache = cache_of()
    cache.put(cache.subject(CODE, completion_of(FENCED)), WRONG, 10)
    assert known(cache, FENCED.replace("Well", "Or else"), CODE) == WRONG
    assert known(cache, FENCED.replace("print", "input"), CODE) is None


def test_spans_point_into_the_text_that_is_asked_about():
    cache = cache_of()
    start = FENCED.index("y)")
    verdict = replace(
        WRONG, spans=(Span(start=start, end=start + 1, label="exception"),)
    )
    cache.put(cache.subject(CODE, completion_of(FENCED)), verdict, 10)
    assert known(cache, FENCED, CODE) is verdict
    found = known(cache, INDENTED, CODE)
    assert found is not None
    (span,) = found.spans
    assert (INDENTED[span.start : span.end], span.label) == ("y", "exception")
    assert span.start == INDENTED.index("y)")


def test_span_that_ends_with_the_program_ends_with_it_elsewhere():
    cache = cache_of()
    start, end = FENCED.index("print"), FENCED.index("```\n", 20)
    verdict = replace(WRONG, spans=(Span(start=start, end=end, label="all"),))
    cache.put(cache.subject(CODE, completion_of(FENCED)), verdict, 10)
    found = known(cache, INDENTED, CODE)
    assert found is not None
    (span,) = found.spans
    assert INDENTED[span.start : span.end] == "print(y)\n"


def test_texts_without_a_program_are_told_apart():
    cache = cache_of()
    cache.put(cache.subject(CODE, completion_of("no program")), WRONG, 10)
    assert known(cache, "no program", CODE) is WRONG
    assert known(cache, "none either", CODE) is None


def test_rule_that_parses_is_not_followed_here():
    cache = cache_of(extraction="one_block")
    cache.put(cache.subject(CODE, completion_of(FENCED)), WRONG, 10)
    assert known(cache, FENCED, CODE) is WRONG
    assert known(cache, FENCED + "More.", CODE) is None


def test_same_literal_after_other_reasoning_has_the_same_verdict():
    cache = cache_of(literal_extraction="markers")
    put(cache, "So [ANSWER]5[/ANSWER]", RIGHT)
    found = known(cache, "[ANSWER]5[/ANSWER]")
    assert found is not None and found.is_correct


def test_what_ended_the_text_is_part_of_what_is_judged():
    cache = cache_of(literal_extraction="markers")
    cut = completion_of("[ANSWER]5", finish_reason="length")
    stopped = completion_of("[ANSWER]5", finish_reason="stop", stop="[/ANSWER]")
    begun = completion_of("[ANSWER]5[/ANSWER]", in_thought=True)
    cache.put(cache.subject(PROBLEM, cut), WRONG, 10)
    assert cache.get(cache.subject(PROBLEM, stopped)) is None
    cache.put(cache.subject(PROBLEM, stopped), RIGHT, 10)
    assert cache.get(cache.subject(PROBLEM, cut)) is WRONG
    assert cache.get(cache.subject(PROBLEM, begun)) is None
