"""Hints from a reference's syntax tree: four by hand, and laws over many."""

import json
import os
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from jaxgrpo.host.hints import TIERS, derived_hints, hints_of
from jaxgrpo.host.hints.layout import HEADINGS, ITEMS
from jaxgrpo.host.records import Problem, ProblemKind
from jaxgrpo.problems.mini_programs.generator import drafts

COUNT = """\
from collections import Counter

def most_common(words, n=3):
    # Ties go by the word.
    counts = Counter(words)
    found = []
    for word, number in sorted(counts.items()):
        if number > 1:
            found.append(word)
    return found[:n]
"""
FIBONACCI = """\
from functools import lru_cache
import math

@lru_cache
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)

def ratio(n):
    return math.floor(fib(n + 1) / fib(n))
"""
SCRIPT = """\
n = int(input())
total = 0
for i in range(n):
    for j in range(i):
        total += i % (j + 1)
print(total)
"""
SHORT = "def f(x): return x\n"


def by_tier(source: str, kind: ProblemKind = "call") -> dict[str, list[str]]:
    """Each tier's hints, without the heading."""
    problem = Problem(id="p", kind=kind, prompt="Do it.", reference=source)
    found: dict[str, list[str]] = defaultdict(list)
    for tier, text in derived_hints(problem):
        heading, _, rest = text.partition("\n")
        assert heading == HEADINGS[tier]
        found[tier].append(rest)
    return dict(found)


def test_hints_of_a_loop():
    found = by_tier(COUNT)
    assert found["knowledge"][-1].split("\n") == [
        "- `Counter` of the package `collections` is of use.",
        "- Of use as a data structure is a dict.",
        "- Sorting is of use.",
        "- Loops need not be nested.",
    ]
    plan = [
        "- Let `counts` be `Counter` of `words`.",
        "- Let `found` be an empty list.",
        "- For each `word` and `number` in `sorted` of `items` of `counts`:",
        "  - If `number` is more than 1:",
        "    - Append `word` to `found`.",
        "- Return a part of `found`.",
    ]
    assert found["planning"] == ["\n".join(plan[:end]) for end in (1, 3, 4, 6)]
    # Of ten lines: a quarter but for a blank one, half, three quarters, all but one.
    lines = COUNT.split("\n")
    assert found["solution"] == ["\n".join(lines[:end]) for end in (1, 5, 7, 9)]


def test_hints_of_recursion():
    found = by_tier(FIBONACCI)
    assert found["knowledge"][-1].split("\n") == [
        "- Recursion is of use, with results that `lru_cache` keeps.",
        "- `lru_cache` of the package `functools` is of use.",
        "- `floor` of the package `math` is of use.",
    ]
    assert found["planning"][-1].split("\n") == [
        "- Write the function `fib` of `n`:",
        "  - If `n` is less than 2:",
        "    - Return `n`.",
        "  - Return (`fib` of (`n` minus 1)) plus (`fib` of (`n` minus 2)).",
        "- Write the function `ratio` of `n`:",
        "  - Return `math.floor` of "
        "((`fib` of (`n` plus 1)) divided by (`fib` of `n`)).",
    ]
    assert found["solution"][-1] == FIBONACCI.partition("    return math")[0].rstrip()


def test_hints_of_a_script():
    found = by_tier(SCRIPT, "stdin")
    assert found["knowledge"] == [
        "- Loops are nested 2 deep.",
        "- Loops are nested 2 deep.\n- Of the operators, `%` is of use.",
    ]
    assert found["planning"][-1].split("\n") == [
        "- Let `n` be `int` of the result of `input`.",
        "- Let `total` be 0.",
        "- For each `i` in `range` of `n`:",
        "  - For each `j` in `range` of `i`:",
        "    - Add `i` modulo (`j` plus 1) to `total`.",
        "- Print `total`.",
    ]
    lines = SCRIPT.split("\n")
    assert found["solution"] == ["\n".join(lines[:end]) for end in (1, 3, 4, 5)]


def test_a_reference_of_one_line_has_no_beginning_to_show():
    found = by_tier(SHORT)
    assert found == {
        "knowledge": ["- No loop is needed."],
        "planning": ["- Return `x`."],
    }


def test_what_only_starts_a_program_is_not_its_end():
    body = "def main():\n    n = int(input())\n    m = n + 1\n    print(m)\n\n"
    for start in ("main()\n", "if __name__ == '__main__':\n    main()\n"):
        shown = by_tier(body + start, "stdin")["solution"][-1]
        assert "m = n + 1" in shown and "print" not in shown


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("'abc'", ["a str", "3 characters", "single quotes"]),
        ('"it\'s"', ["a str", "4 characters", "double quotes"]),
        ("-120", ["an int", "3 digits", "negative"]),
        ("2.25", ["a float", "2 digits after the point"]),
        ("True", ["a bool"]),
        ("[]", ["a list"]),
        ("[1, 2, 3]", ["a list", "3 items", "Each item is an int"]),
        ("(1, [2])", ["a tuple", "2 items", "an int and a list"]),
        ("{'a': 1}", ["a dict", "1 entry", "keys are of type str", "values are of"]),
        ("b'x'", ["a bytes", "1 character"]),
        ("None", []),
        ("range(3)", []),
    ],
)
def test_answers_are_told_of_by_their_type(answer: str, told: list[str]):
    hints = by_tier(answer, "output")
    assert hints.keys() <= {"knowledge"}
    lines = hints["knowledge"][-1].split("\n") if hints else []
    assert len(lines) == len(told)
    for line, words in zip(lines, told, strict=True):
        assert words in line


def test_arguments_are_told_of_by_their_types():
    assert by_tier("[1, 2], sep=''", "input")["knowledge"][-1].split("\n") == [
        "- Arguments that are right are a list and a str.",
        "- The list has 2 items.",
    ]
    assert by_tier("f(", "input") == {}


@pytest.mark.parametrize(
    "source",
    [
        "",
        "# nothing",
        "def f(:",
        "(" * 5000,
        "\x00",
        "x = " + "-" * 9000 + "1",
        "\ud800",
    ],
)
def test_what_cannot_be_read_has_no_hints(source: str):
    assert by_tier(source) == {}


ODD = [
    "class A:\n    x: int\n    def f(self): return [*self.y, {**self.z}]\n",
    "async def f(x):\n    async with x as y:\n        await y\n    return lambda: 1\n",
    "try:\n    pass\nexcept* ValueError as e:\n    raise\nfinally:\n    del x[0]\n",
    "match x:\n    case {'a': 1}:\n        y = 1\n    case _:\n        global z\n",
    "while True:\n    break\nelse:\n    (a := 1)\nassert ~a, 'b'\n",
    "f = (lambda x: x)(1)(2)\nf[1:2, ...] @= 3\na = b = f'{f!r:>{a}}'\nyield_ = ()\n",
    "def f():\n\n\n    x = 1 ; return x\n",
    "def f():\r\n    x = 1\r\n    return x\r\n",
    "def g():\n    yield\n    yield from (i for i in () if i if not i)\n",
]
"""Statements and expressions that references seldom have."""


def check_laws(source: str) -> set[str]:
    """Checks what holds for the hints of every reference; returns their tiers."""
    found = by_tier(source)
    code = "\n".join(line.rstrip() for line in source.splitlines()).strip()
    shown = [hint for hints in found.values() for hint in hints]
    assert len(set(shown)) == len(shown), "no hint comes twice"
    for tier, hints in found.items():
        assert 1 <= len(hints) <= ITEMS, tier
        for shorter, longer in zip(hints, hints[1:], strict=False):
            assert longer.startswith(f"{shorter}\n"), "each includes the ones before"
        # A program may stand in the words of its plan only if it says next to nothing.
        assert len(code) < 8 or code not in hints[-1], "never the whole program"
    for hint in found.get("solution", ()):
        text = hint.replace("\r", "")
        assert source.replace("\r\n", "\n").startswith(text), "a prefix"
        assert len(text) < len(source.rstrip()), "not to its end"
        assert text.strip().count("\n") < code.count("\n"), "nor its last line"
    return set(found)


@pytest.mark.parametrize("source", [COUNT, FIBONACCI, SCRIPT, SHORT, *ODD])
def test_laws_hold_for_odd_references(source: str):
    check_laws(source)


def test_laws_hold_for_mini_programs():
    sources = {d.reference for d in drafts(0, 0, 600)}
    sources |= {d.idiomatic for d in drafts(0, 0, 600) if d.idiomatic}
    tiers = [check_laws(source) for source in sorted(sources)]
    assert len(tiers) > 500
    assert all(found == set(TIERS) for found in tiers)


@pytest.mark.skipif(
    "JAXGRPO_TEST_DATA" not in os.environ, reason="JAXGRPO_TEST_DATA names no folder"
)
def test_laws_hold_for_mbpp():
    path = Path(os.environ["JAXGRPO_TEST_DATA"]) / "mbpp.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    sources = [row["code"].replace("\r\n", "\n") for row in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiers = [check_laws(source) for source in sources]
        whole = Counter(
            tier
            for source in sources
            for tier, hints in by_tier(source).items()
            if len(hints) == ITEMS
        )
    assert [found == set(TIERS) for found in tiers] == [True] * 974
    # As docs/methods.md says.
    assert whole == {"knowledge": 142, "planning": 554, "solution": 573}


def test_hints_of_the_reference_are_numbered_whatever_tiers_are_asked_for():
    problem = Problem(id="p", kind="call", prompt="", reference=COUNT)
    all_of_them = hints_of(problem, TIERS, "reference")
    some = hints_of(problem, ("solution",), "reference")
    assert [hint.variant for hint in all_of_them] == [f"hint-{i}" for i in range(1, 13)]
    assert some == all_of_them[8:]


def test_values_have_traces_and_programs_have_none():
    tiers = ("trace", "two_stage", "knowledge")
    value = Problem(id="p", kind="output", prompt="", reference="[1]")
    program = Problem(id="p", kind="call", prompt="", reference=SCRIPT)
    assert [hint.variant for hint in hints_of(value, tiers, "reference")] == [
        *("trace", "two_stage-trace", "hint-1", "hint-2", "hint-3"),
    ]
    assert hints_of(value, tiers[:1]) == hints_of(value, tiers)[:1]
    assert {hint.tier for hint in hints_of(program, tiers, "reference")} == {
        "knowledge"
    }
