import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.records import Problem
from jaxgrpo.host.user_message import checked_template, user_message

CODE = "def f(x):\n    return {x: '{prompt}'}"
PROBLEM = Problem(
    id="p",
    kind="output",
    prompt="f(1)",
    reference="{1: '{prompt}'}",
    hints=("Add.", "Add one."),
    columns={"code": CODE, "lines": 2, "names": ["f"]},
)
CRUXEVAL = "{code}\n\nassert {prompt} == ??\n\nAnswer as [ANSWER] ... [/ANSWER]."


def test_plain_template_is_the_prompt():
    assert user_message(PROBLEM, "{prompt}") == "f(1)"


def test_columns_are_filled_in_as_they_are():
    assert user_message(PROBLEM, CRUXEVAL) == (
        f"{CODE}\n\nassert f(1) == ??\n\nAnswer as [ANSWER] ... [/ANSWER]."
    )
    assert user_message(PROBLEM, "{lines} {names}") == "2 ['f']"


def test_doubled_braces_are_braces():
    assert user_message(PROBLEM, "{{'a': {prompt}}}") == "{'a': f(1)}"


def test_problem_s_own_prompt_goes_before_a_column_of_that_name():
    problem = Problem(
        id="p", kind="output", prompt="a", reference="", columns={"prompt": "b"}
    )
    assert user_message(problem, "{prompt}") == "a"


def test_the_answer_is_no_field():
    with pytest.raises(ValueError, match="no column 'reference'"):
        user_message(PROBLEM, "{prompt} is {reference}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{prompt}", "f(1)\n\nAdd one."),
        ("{prompt}\nAnswer:", "f(1)\n\nAdd one.\nAnswer:"),
        ("{code}", f"{CODE}\n\nAdd one."),
    ],
)
def test_hint_follows_the_prompt_or_else_the_message(template: str, message: str):
    assert user_message(PROBLEM, template, "hint-2") == message


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{promt}", "problem 'p' has no column 'promt'. Did you mean {prompt}?"),
        ("{tests}", "has no column 'tests'. It has code, lines, names, prompt."),
    ],
)
def test_unknown_field_is_named(template: str, words: str):
    with pytest.raises(ValueError) as caught:
        user_message(PROBLEM, template)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{prompt} {'like': this}", "{'like': this} is no field"),
        ("{prompt} {}", "{} is no field"),
        ("{prompt!r}", "{prompt!r} is no field"),
        ("{prompt:>9}", "{prompt:>9} is no field"),
        ("{prompt.__class__}", "{prompt.__class__} is no field"),
        ("{names[0]}", "{names[0]} is no field"),
        ("{prompt} }", "double the braces"),
        ("{prompt} {", "double the braces"),
        ("{prompt", "double the braces"),
        ("Say 42.", "has no field"),
        ("{{prompt}}", "has no field"),
    ],
)
def test_template_that_cannot_be_filled_is_refused(template: str, words: str):
    with pytest.raises(ValueError) as caught:
        checked_template(template)
    assert words.lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("prompt.template")


@given(st.text(), st.text(), st.text())
def test_any_text_can_be_asked_in_any_words(before: str, code: str, after: str):
    problem = Problem(
        id="p", kind="output", prompt="", reference="", columns={"code": code}
    )

    def doubled(text: str) -> str:
        return text.replace("{", "{{").replace("}", "}}")

    template = f"{doubled(before)}{{code}}{doubled(after)}"
    assert user_message(problem, template) == before + code + after
