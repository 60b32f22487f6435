import pytest

from jaxgrpo.host.constraints import parse_constraint


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("choice:yes|no", ("yes", "no")),
        ("choice:one", ("one",)),
        (r"choice:a\|b|\\|c\n", ("a|b", "\\", r"c\n")),
        ("choice:a:b|c\nd", ("a:b", "c\nd")),
        ("choice:\\", ("\\",)),
    ],
)
def test_choices_are_split_at_bars(text: str, choices: tuple[str, ...]):
    assert parse_constraint(text).choices == choices


def test_a_pattern_is_all_that_follows_the_colon():
    constraint = parse_constraint(r"regex:a|b:\|", after="x", until="y")
    assert constraint.kind == "regex"
    assert constraint.pattern == r"a|b:\|"
    assert (constraint.after, constraint.until) == ("x", "y")


@pytest.mark.parametrize(
    "text", ["", "yaml", "regex", "choice", "json:", "python_literal:x", "Regex:a"]
)
def test_other_kinds_are_refused(text: str):
    with pytest.raises(ValueError, match="of no known kind. Write python_literal"):
        parse_constraint(text)


@pytest.mark.parametrize("text", ["regex:", "choice:", "choice:a|", "choice:|b"])
def test_an_empty_text_is_refused(text: str):
    with pytest.raises(ValueError, match="without any text"):
        parse_constraint(text)


@pytest.mark.parametrize("place", ["text", "after", "until"])
def test_the_null_character_is_refused(place: str):
    arguments = {"text": "choice:a"} | {place: "choice:\0"}
    with pytest.raises(ValueError, match="hold U\\+0000"):
        parse_constraint(**arguments)
