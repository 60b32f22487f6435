import ast
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.problems.output_prediction.notation import PREFIXES, foreign_notation

IDS = [f"output_prediction/0/train/{index:06d}" for index in range(2000)]

plain_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def without_prose(text: str) -> str:
    for prefix in PREFIXES:
        text = text.removeprefix(prefix)
    return text.removesuffix(".")


def test_share_zero_changes_nothing():
    assert {foreign_notation("['a', True]", i, 0.0) for i in IDS} == {"['a', True]"}


def test_share_is_the_share_of_rewritten_answers():
    changed = sum(foreign_notation("['a']", i, 0.7) != "['a']" for i in IDS)
    assert changed / len(IDS) == pytest.approx(0.7, abs=0.03)


def test_a_larger_share_only_rewrites_more():
    for i in IDS[:200]:
        at_half = foreign_notation("['a']", i, 0.5)
        assert at_half in ("['a']", foreign_notation("['a']", i, 1.0))


def test_habits_are_mixed():
    answers = Counter(foreign_notation("{'a': [1, 2]}", i, 1.0) for i in IDS)
    loose, tight = '{"a": [1, 2]}', '{"a":[1,2]}'
    forms = {form for base in (loose, tight) for form in (base, f"{base}.")}
    forms |= {prefix + base for base in (loose, tight) for prefix in PREFIXES}
    assert set(answers) == forms
    assert 0.25 < answers[loose] / len(IDS) < 0.45
    assert 0.25 < answers[tight] / len(IDS) < 0.45


@given(plain_data, st.sampled_from(IDS))
def test_data_without_tuples_becomes_its_json(value, problem_id):
    foreign = foreign_notation(repr(value), problem_id, 1.0)
    text = foreign if _is_json(foreign) else without_prose(foreign)
    # JSON spells control characters otherwise; Python reads the escapes of both.
    as_python = {"true": True, "false": False, "null": None}
    assert eval(text, {"__builtins__": {}}, as_python) == value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_strings_keep_every_character():
    answer = "['True, None: x', \"it's\"]"
    for i in IDS[:50]:
        text = without_prose(foreign_notation(answer, i, 1.0))
        assert ast.literal_eval(text) == ["True, None: x", "it's"]


def test_tuples_stay_tuples():
    texts = {without_prose(foreign_notation("(1, 'a')", i, 1.0)) for i in IDS[:50]}
    assert texts == {'(1, "a")', '(1,"a")'}
