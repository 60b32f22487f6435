import pytest

from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.passages import Markers


def answer_of(text: str, rule: str = "markers", **options: object) -> str:
    found = extract(text, rule, **options).stripped()  # type: ignore[arg-type]
    assert not found.error_class
    assert text[found.start : found.end] == found.answer
    return found.answer


def error_of(text: str, rule: str = "markers", **options: object) -> str:
    found = extract(text, rule, **options)  # type: ignore[arg-type]
    assert found.answer == ""
    return found.error_class


# Markers


@pytest.mark.parametrize(
    "text",
    [
        "[ANSWER]42[/ANSWER]",
        "Six times seven.\n[ANSWER]\n42\n[/ANSWER]\nGood?",
        "[ANSWER] 42 [/ANSWER][/ANSWER]",
    ],
)
def test_what_stands_between_the_markers_is_the_answer(text: str):
    assert answer_of(text) == "42"


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ("42", "no_answer_marker"),
        ("42[/ANSWER]", "no_answer_marker"),
        ("[answer]42[/answer]", "no_answer_marker"),
        ("[ANSWER]42", "unclosed_answer"),
        ("[/ANSWER][ANSWER]42", "unclosed_answer"),
        ("[ANSWER]41[/ANSWER] or [ANSWER]42[/ANSWER]", "several_answers"),
        ("[ANSWER]42[/ANSWER][ANSWER]42[/ANSWER]", "several_answers"),
        ("[ANSWER][ANSWER]42[/ANSWER]", "several_answers"),
        ("<think>[ANSWER]42[/ANSWER]", "unfinished_thinking"),
    ],
)
def test_each_failure_has_its_class(text: str, error_class: str):
    assert error_of(text) == error_class


def test_markers_in_thinking_do_not_count():
    text = "<think>[ANSWER]41[/ANSWER]</think>[ANSWER]42[/ANSWER]"
    assert answer_of(text) == "42"


def test_stop_string_closes_the_answer():
    text = "So [ANSWER]42"
    assert answer_of(text, stop="[/ANSWER]") == "42"
    assert error_of(text, stop="\n\n") == "unclosed_answer"


def test_stop_string_that_holds_the_marker_closes_the_answer():
    assert answer_of("[ANSWER]\n42", stop="\n[/ANSWER]") == "42"


def test_marker_may_be_torn_between_text_and_stop_string():
    # Stop strings are looked for in the whole text: the marker may begin before one.
    assert answer_of("[ANSWER]42[/ANS", stop="WER]") == "42"


def test_markers_are_the_user_s():
    markers = Markers("<answer>", "</answer>")
    assert answer_of("<answer>42</answer>", markers=markers) == "42"
    assert error_of("[ANSWER]42[/ANSWER]", markers=markers) == "no_answer_marker"


def test_without_a_closing_marker_the_answer_ends_with_the_text():
    markers = Markers("####", "")
    assert answer_of("6 * 7\n#### 42\n", markers=markers) == "42"
    assert answer_of("#### 42", markers=markers, stop="####") == "42"


def test_marker_that_opens_and_closes():
    markers = Markers("**", "**")
    assert answer_of("It is **42**.", markers=markers) == "42"
    assert error_of("**41** or **42**", markers=markers) == "several_answers"
    assert error_of("It is **42", markers=markers) == "unclosed_answer"


def test_program_may_begin_on_the_marker_s_line_or_below():
    code = "if x:\n    y()\n"
    found = extract(f"[ANSWER] {code}[/ANSWER]", "markers")
    assert found.answer == code
    assert extract(f"[ANSWER]\n{code}[/ANSWER]", "markers").answer == f"\n{code}"


def test_text_of_many_lines_keeps_its_places():
    text = "[ANSWER]\n\n  [1,\r\n   2]\n[/ANSWER]"
    found = extract(text, "markers").stripped()
    assert found.answer == "[1,\r\n   2]"
    assert text[found.character_of(2, 3)] == "2"


# The last line


@pytest.mark.parametrize("text", ["42", "so\n42", "so\r\n42\r\n\n", "41\n  42 \n \n"])
def test_last_line_that_is_not_blank_is_taken(text: str):
    assert answer_of(text, "last_line") == "42"
    assert answer_of(text, "last_value") == "42"
    assert answer_of(f"{text.rstrip()}\n\tresult:42 \r\n\n", "last_value") == "42"


# Boxes


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}.", "42"),
        (r"\boxed{41}, no: \boxed{ 42 }", "42"),
        (r"\boxed{{'a': {1}}}", "{'a': {1}}"),
        ("\\boxed{'\\}'}", "'\\}'"),
        ("\\boxed{[1,\n 2]}", "[1,\n 2]"),
    ],
)
def test_last_box_is_opened(text: str, answer: str):
    assert answer_of(text, "boxed") == answer


def test_box_that_is_not_there_or_not_closed():
    assert error_of("42", "boxed") == "no_answer_marker"
    assert error_of(r"\boxed{41} \boxed{{42}", "boxed") == "unclosed_answer"


def test_stop_string_closes_a_box():
    assert answer_of(r"\boxed{42", "boxed", stop="}") == "42"
