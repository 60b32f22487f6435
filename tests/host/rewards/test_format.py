from dataclasses import replace

import pytest

from jaxgrpo.host.rewards.format import Settings, format
from tests.host.rewards.groups import of_literals, of_programs

CODE = "def f():\n    return 1\n"


def of_text(text: str, extracted: str = CODE):
    judged = of_programs(extracted)
    completions = (replace(judged.completions[0], text=text),)
    return replace(judged, completions=completions)


def test_one_literal_is_well_formed_right_or_wrong():
    judged = of_literals("[1, 2]", "[1, 2]", "[1,2]", "7", "It is 7", "7 8", "")
    assert format(judged, Settings()) == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "is_well_formed"),
    [
        (f"```python\n{CODE}```", True),
        (f"I think.</think>\n```\n{CODE}```\nDone.", True),
        (f"```\n1 +\n```\n</think>\n```\n{CODE}```", True),
        (f"```python\n{CODE}```\n```python\n{CODE}```", False),
        ("```python\nreturn (\n```", False),
        (f"```python\n{CODE}", False),
        (CODE, False),
        (f"<think>```python\n{CODE}```", False),
        ("", False),
    ],
)
def test_the_only_block_has_to_parse(text: str, is_well_formed: bool):
    assert format(of_text(text), Settings()) == [float(is_well_formed)]


def test_block_that_a_stop_string_closed_counts():
    judged = of_text(f"```python\n{CODE}")
    stopped = replace(judged.completions[0], stop="```")
    assert format(replace(judged, completions=(stopped,)), Settings()) == [1.0]


def test_thought_that_the_prompt_began_has_to_end():
    judged = of_text(f"```python\n{CODE}```")
    thinking = replace(judged.completions[0], in_thought=True)
    assert format(replace(judged, completions=(thinking,)), Settings()) == [0.0]


@pytest.mark.parametrize(
    ("extracted", "is_well_formed"), [(CODE, True), ("f(", False), ("", False)]
)
def test_any_program_will_do_if_asked_for(extracted: str, is_well_formed: bool):
    judged = of_text("two blocks", extracted)
    assert format(judged, Settings(only_block=False)) == [float(is_well_formed)]
