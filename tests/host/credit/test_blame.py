"""Where a program went wrong: mode and characters, with the sandbox that is used."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from jaxgrpo.host.credit.blame import (
    NO_DIVERGENCE,
    NO_LINE,
    NO_PROGRAM,
    NO_REFERENCE,
    Blaming,
    blame_of,
    standard,
)
from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.judge import DEFAULT_SETTINGS
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.programs import judge_program
from jaxgrpo.host.records import Blame, Limits, Problem, Test
from jaxgrpo.host.sandbox import Sandbox

REFERENCE = """\
def f(nums):
    best = [1] * len(nums)
    for i in range(1, len(nums)):
        for j in range(i):
            if nums[i] > nums[j]:
                best[i] = max(best[i], best[j] + 1)
    return max(best)
"""
TESTS = (
    Test(kind="call", function="f", arguments=([1, 2, 3],), expected=3),
    Test(kind="call", function="f", arguments=([1, 3, 3, 5],), expected=3),
)
PROBLEM = Problem(
    id="lis", kind="call", prompt="", reference=REFERENCE, tests=TESTS,
    limits=Limits(cpu_s=0.5),
)  # fmt: skip
WRONG = REFERENCE.replace("nums[i] > nums[j]", "nums[i] >= nums[j]")

Blamed = Callable[..., tuple[Blame, str]]


@pytest.fixture(scope="module")
def blamed() -> Iterator[Blamed]:
    """Judges a completion and returns its blame, and the characters blamed."""
    with Sandbox(level="B") as sandbox:

        def blamed(
            source: str, problem: Problem = PROBLEM, *, fence: str = "```python\n%s```",
            seed: int = 0, extractor: Callable[..., object] | None = None,
            localizer: Callable[..., object] | None = None, **settings: Any,
        ) -> tuple[Blame, str]:  # fmt: skip
            text = fence % source
            verdict = judge_program(
                problem,
                text,
                sandbox,
                replace(DEFAULT_SETTINGS, extraction="last_block"),
            )
            how = Blaming(
                settings=BlameSettings(limits=Limits(cpu_s=0.5), **settings),
                extractor=extractor,
                localizer=localizer,
            )
            found = extract(text, "last_block")
            against = standard(problem, sandbox.run, how)
            blame = blame_of(against, found, verdict, random.Random(seed))
            span = blame.span
            return blame, "" if span is None else text[span.start : span.end]

        yield blamed


# The example of the paper.


def test_the_comparison_is_blamed_for_its_outcome(blamed):
    blame, text = blamed(WRONG)
    assert (blame.mode, text) == ("logic", "if nums[i] >= nums[j]")
    assert blame.fallback == "" and blame.num_boundaries > 3
    assert blame.similarity == 1.0 and blame.broken == ()


def test_the_span_is_exact_behind_any_text(blamed):
    before = "Größe 🧮 → of it:\r\n\tso ~~~ or\n```python\r\n%s```\nDone."
    windows = WRONG.replace("\n", "\r\n")
    assert blamed(windows, fence=before)[1] == "if nums[i] >= nums[j]"
    tabbed = WRONG.replace("    ", "\t").replace("[j]:\n", "[j]:  # é🧮 ```\n")
    assert blamed(tabbed, fence=before)[1] == "if nums[i] >= nums[j]"
    shifted = "".join(f"    {line}\n" for line in WRONG.splitlines())
    indented = "- so\n    ```python\n%s    ```\n"
    assert blamed(shifted, fence=indented)[1] == "if nums[i] >= nums[j]"


def test_a_fence_in_a_text_of_the_program_moves_nothing(blamed):
    told = WRONG.replace("    best = [1]", '    note = "``` é"\n    best = [1]')
    assert blamed(told)[1] == "if nums[i] >= nums[j]"


# Routing: the first mode that applies.


def test_a_right_program_has_no_span(blamed):
    assert blamed(REFERENCE) == (Blame(mode="correct"), "")


def test_a_broken_constraint_comes_before_right_and_wrong(blamed):
    sorting = "import bisect\n" + WRONG
    for source in (sorting, sorting.replace(">=", ">")):
        blame, text = blamed(source)
        assert (blame.mode, blame.broken, text) == ("constraint", ("imports",), "")
    assert blamed(sorting, constraints=())[0].mode == "logic"


def test_programs_that_are_built_differently_are_not_compared(blamed):
    short = "def f(nums): return 0\n"
    assert blamed(short)[0].mode == "constraint"
    assert blamed(short, min_similarity=0.1)[0].mode == "logic"


def test_without_localisation_wrong_programs_have_no_span(blamed):
    blame, text = blamed(WRONG, localization="none")
    assert (blame.mode, text, blame.fallback) == ("logic", "", "")


@pytest.mark.parametrize(
    ("source", "blamed_text"),
    [
        ("def f(nums:\n    return 1\n", "(nums:\n"),
        ("def f(nums):\n    return nums[9]\n", "    return nums[9]\n"),
        ("def f(nums):\n    return f(nums)\n", "    return f(nums)\n"),
    ],
)
def test_errors_are_blamed_on_what_python_names(blamed, source, blamed_text):
    blame, text = blamed(source)
    assert (blame.mode, text, blame.fallback) == ("syntax", blamed_text, "")


@pytest.mark.parametrize(
    "source",
    [
        "def f(nums):\n    while True: pass\n",
        "import os\ndef f(nums):\n    os._exit(0)\n",
    ],
)
def test_ends_without_a_line_fall_back(blamed, source):
    blame, text = blamed(source)
    assert (blame.mode, text, blame.fallback) == ("syntax", "", NO_LINE)


def test_too_much_output_is_an_error_with_or_without_a_line(blamed):
    source = "def f(nums):\n    print('x' * 3_000_000)\n    return 1\n"
    blame, text = blamed(source)
    assert blame.mode == "syntax"
    assert text in source and (text or blame.fallback == NO_LINE)


def test_a_text_without_a_program_falls_back(blamed):
    blame, text = blamed("x = 1", fence="No code: %s")
    assert (blame.mode, text, blame.fallback) == ("syntax", "", NO_PROGRAM)


def test_a_reference_that_is_no_program_falls_back(blamed):
    blame, text = blamed(WRONG, replace(PROBLEM, reference="3"))
    assert blame.mode in ("constraint", "logic") and text == ""
    blame, text = blamed(WRONG, replace(PROBLEM, reference="one two"))
    assert (blame.mode, text, blame.fallback) == ("logic", "", NO_REFERENCE)


def test_a_difference_that_no_boundary_shows_blames_the_result(blamed):
    """The reference is as wrong as the candidate: nothing differs, yet it fails."""
    blame, text = blamed(WRONG, replace(PROBLEM, reference=WRONG))
    assert (blame.mode, blame.fallback, text) == (
        "logic", NO_DIVERGENCE, "return max(best)",
    )  # fmt: skip


def test_a_program_that_only_works_untraced_falls_back(blamed):
    """It ends itself when it is traced, and else returns a wrong value."""
    source = WRONG.replace(
        "    best = [1]",
        "    import sys, os\n    m = getattr(sys, 'monitoring', None)\n"
        "    if sys.gettrace() or (m and any(m.get_tool(i) for i in range(6))):\n"
        "        os._exit(0)\n    best = [1]",
    )
    blame, text = blamed(source, constraints=(), min_similarity=0.0)
    assert (blame.mode, text, blame.fallback) == ("logic", "", NO_DIVERGENCE)


BUSY = (
    "import time; t = time.process_time()\\nwhile time.process_time() - t < 0.7: pass"
)


@pytest.mark.parametrize("is_reference_slow", [False, True])
def test_traces_that_a_limit_ends_are_compared_up_to_there(blamed, is_reference_slow):
    """The judge leaves more time than the trace has."""
    plain = (
        "def f(nums):\n    a = 1\n    for i in nums:\n        a += i\n    return a\n"
    )
    slow = plain.replace("        a += i", f"        exec('{BUSY}')\n        a += i")
    wrong = ("return a", "return a + 1")
    source, reference = (plain, slow) if is_reference_slow else (slow, plain)
    test = Test(kind="call", function="f", arguments=([1, 2],), expected=4)
    limits = Limits(cpu_s=5.0)
    problem = replace(PROBLEM, reference=reference, tests=(test,), limits=limits)
    how = {"constraints": (), "min_similarity": 0.0}
    blame, text = blamed(source.replace(*wrong), problem, **how)
    assert (blame.mode, text, blame.fallback) == ("logic", "", NO_DIVERGENCE)
    assert blamed(source.replace("a = 1", "a = 2"), problem, **how)[1] == "a = 2"


# Which divergence, and other kinds of tests.


def test_last_and_random_are_other_choices(blamed):
    _, last = blamed(WRONG, localization="last")
    assert last and last in WRONG
    texts = {blamed(WRONG, localization="random", seed=seed)[1] for seed in range(6)}
    assert len(texts) > 1 and all(text in WRONG for text in texts)
    again = {blamed(WRONG, localization="random", seed=3)[1] for _ in range(2)}
    assert len(again) == 1


def test_programs_with_input_are_traced_with_it(blamed):
    reference = "n = int(input())\nfor i in range(n):\n    print(i)\n"
    test = Test(kind="stdin", stdin="3\n", expected="0\n1\n2\n")
    problem = Problem(
        id="p", kind="stdin", prompt="", reference=reference, tests=(test,)
    )
    _, text = blamed(reference.replace("range(n)", "range(n + 1)"), problem)
    assert text in ("for i in range(n + 1)", "print(i)")


def test_asserts_are_put_behind_the_program(blamed):
    source = "assert f([1, 2, 3]) == 3\nassert f([1, 3, 3, 5]) == 3"
    problem = replace(
        PROBLEM, kind="assert", tests=(Test(kind="assert", source=source),)
    )
    blame, text = blamed(WRONG, problem)
    assert (blame.mode, text) == ("logic", "if nums[i] >= nums[j]")
