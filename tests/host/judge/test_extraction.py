import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.host.judge.error_classes import ERROR_CLASSES
from jaxgrpo.host.judge.extraction import MAX_PARSED_CHARACTERS, RULES, extract

BLOCK = "```python\nprint(1)\n```\n"


def code_of(text: str, rule: str = "last_block") -> str:
    found = extract(text, rule)
    assert not found.error_class
    return found.code


def error_of(text: str, rule: str = "last_block") -> str:
    found = extract(text, rule)
    assert found.code == ""
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
    assert found.code == "if x:\n    y()\n\n"
    assert text[found.character_of(2, 4) :].startswith("y()")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_are_kept(end: str):
    assert code_of(f"```python{end}x = 1{end}```{end}") == f"x = 1{end}"


def test_form_feed_ends_no_line():
    found = extract("```\nx = 1\f\ny = 2\n```", "last_block")
    assert found.code == "x = 1\f\ny = 2\n"
    assert len(found.line_starts) == 2


@pytest.mark.parametrize("text", ["", "no code", "`x`", "``\nx\n``"])
def test_text_without_a_block_has_no_code(text: str):
    assert error_of(text) == "no_code_block"
    assert error_of(text, "one_block") == "no_code_block"


@pytest.mark.parametrize("rule", RULES)
def test_blank_code_is_empty(rule: str):
    text = " \n\t\n" if rule == "raw" else "```python\n \n\n```"
    assert error_of(text, rule) == "empty_code"


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


@pytest.mark.parametrize("rule", RULES)
def test_thinking_is_skipped(rule: str):
    text = f"<think>{BLOCK}or</think>\n{BLOCK.replace('1', '2')}"
    assert "print(2)" in code_of(text, rule)
    assert "print(1)" not in code_of(text, rule)


def test_thinking_may_begin_in_the_prompt():
    assert error_of(f"{BLOCK}</think>\nno code") == "no_code_block"


def test_unfinished_thinking_has_no_answer():
    assert error_of(f"<think>{BLOCK}") == "unfinished_thinking"


def test_answer_may_speak_of_thinking():
    text = "<think>a</think>```python\nx = '</think>'\n```"
    assert code_of(text) == "x = '</think>'\n"


# Laws

PIECES = st.sampled_from(
    ["```", "```python", "~~~", "\n", "\r\n", "  ", "x = 1", "<think>", "</think>", "é"]
)


@given(st.lists(PIECES, max_size=20).map("".join), st.sampled_from(list(RULES)))
def test_code_stands_in_the_text_where_it_is_said_to(text: str, rule: str):
    found = extract(text, rule)
    if found.error_class:
        assert found.error_class in ERROR_CLASSES
        assert (found.code, found.line_starts) == ("", ())
        return
    lines = found.code.splitlines(keepends=True)
    assert len(lines) == len(found.line_starts)
    for line, start in zip(lines, found.line_starts, strict=True):
        assert text.startswith(line, start)
    assert text[found.start : found.end].endswith(lines[-1])


@given(st.text(max_size=200))
def test_any_text_is_read(text: str):
    for rule in RULES:
        assert bool(extract(text, rule).code) != bool(extract(text, rule).error_class)


def test_unknown_rule_is_named():
    with pytest.raises(ValueError, match="'first'. Use one of last_block"):
        extract(BLOCK, "first")
