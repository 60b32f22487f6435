import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.judge.error_classes import ERROR_CLASSES
from jaxgrpo.host.judge.extraction import RULES, extract
from jaxgrpo.host.judge.fences import MAX_PARSED_CHARACTERS

BLOCK = "```python\nprint(1)\n```\n"


def code_of(text: str, rule: str = "last_block") -> str:
    found = extract(text, rule)
    assert not found.error_class
    return found.answer


def error_of(text: str, rule: str = "last_block") -> str:
    found = extract(text, rule)
    assert found.answer == ""
    return found.error_class


def test_last_block_is_taken():
    assert code_of(f"{BLOCK}or better\n```python\nprint(2)\n```") == "print(2)\n"


@pytest.mark.parametrize("mark", ["", "py", "python3", "Python", " python title=a"])
def test_marks_of_python_are_understood(mark: str):
    assert code_of(f"```{mark}\nx = 1\n```") == "x = 1\n"


def test_block_of_another_language_does_not_count():
    assert code_of(f"{BLOCK}```bash\nrun\n```") == "print(1)\n"
    assert error_of("```bash\nrun\n```") == "no_code_block"


def test_marked_block_goes_before_unmarked_ones():
    assert code_of(f"{BLOCK}It prints:\n```\n1\n```") == "print(1)\n"


def test_open_block_gives_way_to_a_closed_one():
    assert code_of(f"{BLOCK}```python\nprint(") == "print(1)\n"
    assert error_of("```python\nprint(1)") == "unclosed_code_block"


def test_longer_fence_encloses_shorter_ones():
    assert code_of('````\nx = """\n```\n"""\n````') == 'x = """\n```\n"""\n'


def test_tildes_are_fences():
    assert code_of("~~~python\nx = 1\n```\n~~~") == "x = 1\n```\n"


def test_backticks_inside_a_line_are_no_fence():
    assert code_of("```python\nx = '```'\n```") == "x = '```'\n"


def test_indent_of_the_fence_is_taken_off():
    text = "1. So:\n   ```python\n   if x:\n       y()\n\n   ```"
    found = extract(text, "last_block")
    assert found.answer == "if x:\n    y()\n\n"
    assert text[found.character_of(2, 4) :].startswith("y()")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_are_kept(end: str):
    assert code_of(f"```python{end}x = 1{end}```{end}") == f"x = 1{end}"


def test_form_feed_ends_no_line():
    found = extract("```\nx = 1\f\ny = 2\n```", "last_block")
    assert found.answer == "x = 1\f\ny = 2\n"
    assert len(found.line_starts) == 2


@pytest.mark.parametrize("text", ["", "no code", "`x`", "``\nx\n``"])
def test_text_without_a_block_has_no_code(text: str):
    assert error_of(text) == "no_code_block"
    assert error_of(text, "one_block") == "no_code_block"


BLANK = {
    "whole": " \n",
    "raw": " \n\t\n",
    "after_thinking": "<think>a</think> \n",
    "last_block": "```python\n \n\n```",
    "one_block": "```python\n \n\n```",
    "markers": "[ANSWER]\n[/ANSWER]",
    "last_line": "\n \n",
    "last_value": "x: 1\nresult: \n",
    "boxed": r"\boxed{ }",
}


@pytest.mark.parametrize("rule", RULES)
def test_blank_answer_is_empty(rule: str):
    assert error_of(BLANK[rule], rule) == "empty_code"


def test_raw_takes_everything():
    assert code_of(f"say\n{BLOCK}", "raw") == f"say\n{BLOCK}"


# One block that parses


def test_one_block_is_taken_if_it_is_the_only_one():
    assert code_of(f"Look:\n{BLOCK}Good?", "one_block") == "print(1)\n"


def test_second_block_is_refused_whatever_it_holds():
    assert error_of(BLOCK + BLOCK, "one_block") == "several_code_blocks"
    assert error_of(f"{BLOCK}```\n", "one_block") == "several_code_blocks"


@pytest.mark.parametrize(
    "code",
    [
        "x =",
        "return 1 +",
        "x = '\0'",
        "(" * 1000,
        "-" * 150_000 + "1",
        "a" + ".b" * 90_000,
        "x" * (MAX_PARSED_CHARACTERS + 1),
    ],
    ids=lambda code: code[:8],
)
def test_one_block_has_to_parse(code: str):
    assert error_of(f"```python\n{code}\n```", "one_block") == "does_not_parse"


def test_open_only_block_is_refused():
    assert error_of("```python\nx = 1", "one_block") == "unclosed_code_block"


# Thinking

SAID = {
    "raw": "{}",
    "after_thinking": "{}",
    "last_block": "```\n{}\n```",
    "one_block": "```\n{}\n```",
    "markers": "[ANSWER]{}[/ANSWER]",
    "last_line": "so\n{}",
    "last_value": "x: 1\nresult: {}",
    "boxed": r"\boxed{{{}}}",
}
"""How each rule that skips thinking wants an answer to stand."""


@pytest.mark.parametrize("rule", SAID)
def test_thinking_is_skipped(rule: str):
    first, second = SAID[rule].format("x1"), SAID[rule].format("x2")
    found = extract(f"<think>{first}</think>\n{second}", rule).stripped()
    assert found.answer == "x2"


@pytest.mark.parametrize("rule", SAID)
def test_unfinished_thinking_has_no_answer(rule: str):
    assert error_of(f"<think>{SAID[rule].format('x')}", rule) == "unfinished_thinking"


@pytest.mark.parametrize("rule", SAID)
def test_thought_that_the_prompt_began_has_to_be_ended(rule: str):
    said = SAID[rule].format("x")
    found = extract(f"hm\n{said}", rule, in_thought=True)
    assert found.error_class == "unfinished_thinking"
    found = extract(f"hm</think>{said}", rule, in_thought=True)
    assert found.stripped().answer == "x"


def test_every_rule_but_whole_skips_thinking():
    assert {*SAID, "whole"} == set(RULES)
    text = "<think>hm</think>x"
    assert extract(text, "whole").answer == text


def test_only_after_thinking_insists_on_thinking():
    assert error_of("x", "after_thinking") == "unfinished_thinking"
    for rule in SAID:
        if rule != "after_thinking":
            assert extract(SAID[rule].format("x"), rule).stripped().answer == "x"


def test_thinking_may_begin_in_the_prompt():
    assert error_of(f"{BLOCK}</think>\nno code") == "no_code_block"


def test_answer_may_speak_of_thinking():
    text = "<think>a</think>```python\nx = '</think>'\n```"
    assert code_of(text) == "x = '</think>'\n"


# A stop string ended the text


def test_stop_string_may_close_a_fence():
    text = "```python\nprint(1)\n"
    assert error_of(text) == "unclosed_code_block"
    assert extract(text, "last_block", stop="```").answer == "print(1)\n"
    assert extract(text[:-1], "last_block", stop="\n```").answer == "print(1)"


def test_stop_string_is_no_part_of_an_answer():
    found = extract("one\ntwo", "last_line", stop=" END")
    assert (found.answer, found.end) == ("two", len("one\ntwo"))
    assert extract("one", "raw", stop="END").answer == "one"
    assert extract("one", "whole", stop="END").answer == "one"


# Laws

PIECES = st.sampled_from(
    ["```", "```python", "~~~", "\n", "\r\n", "  ", "x = 1", "<think>", "</think>", "é"]
    + ["[ANSWER]", "[/ANSWER]", r"\boxed{", "{", "}", "\\"]
)
TEXTS = st.lists(PIECES, max_size=20).map("".join)


@given(TEXTS, st.sampled_from(list(RULES)), st.sampled_from(["", "```", "[/ANSWER]"]))
def test_answer_stands_in_the_text_where_it_is_said_to(text: str, rule: str, stop: str):
    found = extract(text, rule, stop=stop)
    if found.error_class:
        assert found.error_class in ERROR_CLASSES
        assert (found.answer, found.line_starts) == ("", ())
        return
    assert 0 <= found.start <= found.end <= len(text)
    lines = found.answer.splitlines(keepends=True)
    assert len(lines) == len(found.line_starts)
    for line, start in zip(lines, found.line_starts, strict=True):
        assert text.startswith(line, start)
    assert text[found.start : found.end].endswith(lines[-1])


@given(TEXTS, st.sampled_from(list(RULES)))
def test_stripped_answer_stands_there_too(text: str, rule: str):
    whole = extract(text, rule)
    found = whole.stripped()
    assert (found.answer, found.error_class) == (
        whole.answer.strip(),
        whole.error_class,
    )
    if found.error_class:
        return
    lines = found.answer.splitlines(keepends=True)
    assert len(lines) == len(found.line_starts)
    for line, start in zip(lines, found.line_starts, strict=True):
        assert text.startswith(line, start)
    assert found.line_starts[-1] + len(lines[-1]) == found.end


@given(st.text(max_size=200))
def test_any_text_is_read(text: str):
    for rule in RULES:
        assert bool(extract(text, rule).answer) != bool(extract(text, rule).error_class)


def test_unknown_rule_is_named():
    with pytest.raises(ValueError, match="'first'. Use one of whole, raw"):
        extract(BLOCK, "first")
