import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgrpo.host.trace.steps import Anchor, predicted_steps

ANCHORS = [Anchor("n", "3"), Anchor("xs", "[1, 2]"), Anchor("n", "2")]
names = st.sampled_from(["a", "b", "c"])
pairs = st.lists(st.tuples(names, st.integers(0, 2).map(str)), max_size=6)


def rewards(text: str, anchors: list[Anchor] = ANCHORS) -> list[float]:
    return [step.reward for step in predicted_steps(text, anchors)]


def spans(text: str, anchors: list[Anchor] = ANCHORS) -> list[str]:
    return [text[step.start : step.end] for step in predicted_steps(text, anchors)]


def written(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in pairs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n: 3\nxs: [1, 2]\nn: 2\n", [1, 1, 1]),
        ("n: 3\r\nxs: [1, 2]\r\nn: 2", [1, 1, 1]),
        ("First,\n n : 3 \nthen\n\txs:[1, 2]\nso\nn: 2.", [1, 1, 0]),
        ("n: 3\nxs: [1,2]\nn: 2\n", [1, 0, 1]),
        ("n: 3\nn: 2\n", [1, 0, 1]),
        ("xs: [1, 2]\nn: 2\n", [0, 1, 1]),
        ("n: 2\n", [0, 0, 0]),  # the first of its name: 2 is not 3
        ("n: 2\nxs: [1, 2]\nn: 3\n", [0, 1, 0]),
        ("m: 3\nxs: [1, 2]\nn: 2\n", [0, 1, 1]),
        ("the n: 3\n- xs: [1, 2]\n", [0, 0, 0]),
        ("", [0, 0, 0]),
    ],
)
def test_steps_by_hand(text: str, expected: list[int]):
    assert rewards(text) == expected


def test_values_on_offer_do_not_help():
    assert rewards("n: 1\nn: 2\nn: 3\nxs: [1, 2]\nn: 2\n")[0] == 0.0


def test_span_of_a_step_reaches_from_the_one_before_to_its_lines_end():
    text = "Let me see.\nn: 3\nThe list:\nxs: [1]\nrest\nn: 2\nDone"
    assert spans(text) == [
        "Let me see.\nn: 3",
        "\nThe list:\nxs: [1]",
        "\nrest\nn: 2",
    ]


def test_missing_step_is_empty():
    assert spans("n: 3\nn: 2\n") == ["n: 3", "", "\nn: 2"]


def test_what_was_thought_before_the_answer_does_not_count():
    text = "n: 1\n</think>\nn: 3\n"
    (step,) = predicted_steps(text, ANCHORS[:1], text.index("</think>"))
    assert step.is_exact and text[step.start : step.end] == "</think>\nn: 3"


@given(pairs=pairs)
@settings(deadline=None)
def test_recorded_trace_is_all_exact(pairs: list[tuple[str, str]]):
    assert rewards(written(pairs), [Anchor(*p) for p in pairs]) == [1.0] * len(pairs)


@given(given=pairs, recorded=pairs)
@settings(deadline=None, max_examples=300)
def test_spans_follow_each_other_and_hold_what_is_paid_for(given, recorded):
    text, anchors = written(given), [Anchor(*pair) for pair in recorded]
    steps = predicted_steps(text, anchors)
    assert len(steps) == len(anchors)
    position = 0
    for step, anchor in zip(steps, anchors, strict=True):
        assert step.start == position <= step.end
        if step.is_exact:
            last = text[step.start : step.end].split("\n")[-1]
            assert last == f"{anchor.name}: {anchor.value}"
        position = step.end
