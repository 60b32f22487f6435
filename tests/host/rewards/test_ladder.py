import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.judge.literal import LITERAL_CLASSES
from jaxgrpo.host.rewards.ladder import Settings, ladder
from tests.host.rewards.groups import of_literals, of_programs

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(), items),
    max_leaves=5,
)


def test_heights_by_hand():
    judged = of_literals(
        "[1, True]", "It is [1, True]", "[1, 1]", "[1,true]", "[1, True]"
    )
    # 2 * 7 / 17: all of "[1,true]" but its t is in "[1, True]", in order.
    shaped = 0.1 + 0.6 + 0.2 * (14 / 17)
    assert ladder(judged, Settings()) == pytest.approx([0.0, 0.1, shaped, 1.0])


def test_looks_buy_nothing_without_the_value():
    judged = of_literals("[1, 2, 3, 4, 5]", "[1, 2, 3, 4, 6]", "[9]", "[1, 2, 3, 4, 5")
    assert ladder(judged, Settings()) == [0.1, 0.1, 0.0]


@given(
    value=values,
    texts=st.lists(
        st.text(max_size=20)
        | values.map(repr)
        | st.sampled_from(["nan", "[1,]", "(1)", " 1", "true", "'a' ", "```\n1\n```"]),
        min_size=1,
    ),
)
@settings(deadline=None, max_examples=100)
def test_order_is_strict_whatever_the_texts(value: object, texts: list[str]):
    reference = repr(value)
    judged = of_literals(reference, *texts, f" {reference} ", reference)
    rung = [LITERAL_CLASSES.index(verdict.error_class) for verdict in judged.verdicts]
    heights = ladder(judged, Settings())
    for mine, height in zip(rung, heights, strict=True):
        for other, lower in zip(rung, heights, strict=True):
            assert mine <= other or height > lower


def test_right_value_in_an_endless_spelling_earns_no_shaping():
    long = "[" + ", ".join(["1"] * 300) + "]"
    spaced = long.replace(" ", "  ")
    assert ladder(of_literals(long, spaced), Settings()) == pytest.approx([0.7])


def test_answer_that_was_not_found_is_on_the_ground():
    judged = of_literals("1", "1")
    verdict = type(judged.verdicts[0])(status="WA", error_class="no_answer_marker")
    unfound = type(judged)(
        problem=judged.problem, completions=judged.completions, verdicts=(verdict,)
    )
    assert ladder(unfound, Settings()) == [0.0]


def test_programs_are_none_of_its_business():
    assert math.isnan(ladder(of_programs("x = 1\n"), Settings())[0])


@pytest.mark.parametrize(
    ("heights", "complaint"),
    [
        ({"literal": 0.0}, "literal 0.0"),
        ({"shaping": -0.1}, "shaping -0.1"),
        ({"value": 0.7}, "is 1, and an exact answer earns 1"),
        ({"value": math.nan}, "value nan"),
    ],
)
def test_steps_that_fall_together_are_refused(heights, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        Settings(**heights)
