"""Likeness of control flow, whatever things are called."""

import pytest

from jaxgrpo.host.credit.comparability import control_flow, similarity

LOOP = """
def f(xs):
    total = 0
    for x in xs:
        if x > 2:
            total += x
    return total
"""


def test_names_constants_and_operators_play_no_part():
    other = LOOP.replace("total", "t").replace("> 2", "<= 7").replace("x ", "y ")
    assert similarity(other, LOOP) == 1.0


def test_nothing_in_common_is_nothing():
    assert similarity("import os", "import sys") == 1.0
    assert similarity("a = 1", "print(1)") == 0.0


def test_more_changes_are_less_alike():
    fewer = LOOP.replace("        if x > 2:\n            total += x",
                         "        total += x")  # fmt: skip
    short = "def f(xs):\n    return sum(xs)"
    assert 1.0 > similarity(fewer, LOOP) > similarity(short, LOOP) > 0.0


def test_vectors_by_hand():
    # def ( return ) against def ( assign return ): 4 of 4 and 5 labels match.
    one, other = "def f(): return 1", "def f():\n  a = 1\n  return a"
    assert control_flow(other) == ["def", "(", "assign", "return", ")"]
    assert similarity(one, other) == pytest.approx(8 / 9)


def test_docstrings_and_imports_have_no_label():
    assert control_flow('"""Text."""\nimport os\npass') == []


def test_all_parts_of_a_try_are_there():
    source = "try:\n  a = 1\nexcept E:\n  b()\nelse:\n  c += 1\nfinally:\n  del d"
    labels = [label for label in control_flow(source) if label not in "()"]
    assert labels == ["try", "assign", "augassign", "delete", "except", "expr"]


def test_cases_of_a_match_are_there_and_what_they_do():
    source = "match x:\n  case 1 if y:\n    a = 1\n  case _:\n    for b in c: break"
    assert control_flow(source) == [
        "match", "case", "(", "assign", ")",
        "case", "(", "for", "(", "break", ")", ")",
    ]  # fmt: skip
    other = source.replace("for b in c: break", "return_ += 1")
    assert 0.0 < similarity(other, source) < 1.0


def test_groups_of_exceptions_and_async_blocks_are_there():
    source = "async def f():\n  async with a:\n    try: b()\n    except* E: c()"
    labels = [label for label in control_flow(source) if label not in "()"]
    assert labels == ["def", "with", "try", "expr", "except", "expr"]
