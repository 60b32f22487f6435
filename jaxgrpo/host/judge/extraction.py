"""From a completion's text to the answer in it, by one of a few named rules.

    rule            the answer is
    whole           everything, thinking included
    raw             everything after the thinking
    after_thinking  likewise, but there has to be some
    last_block      the last fenced block of Python, or without a language
    one_block       the only fenced block, which has to parse
    markers         what stands between two markers
    last_line       the last line that is not blank
    last_value      likewise, without the name in `NAME: value`
    boxed           what stands in the last box of LaTeX

All but `whole` skip thinking: the answer begins after the first `</think>`, and there
is none where thinking has begun and not ended.
"""

from dataclasses import replace

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.fences import last_block, one_block
from jaxgrpo.host.judge.marked import (
    boxed,
    everything,
    last_line,
    last_value,
    markers,
)
from jaxgrpo.host.judge.passages import Extraction, Markers, Rule, Written, failure
from jaxgrpo.host.prompts import THINKING_START

THINKING_END = "</think>"
DEFAULT_MARKERS = Markers()

WHOLE = "whole"
AFTER_THINKING = "after_thinking"
RULES: dict[str, Rule] = {
    WHOLE: everything,
    "raw": everything,
    AFTER_THINKING: everything,
    "last_block": last_block,
    "one_block": one_block,
    "markers": markers,
    "last_line": last_line,
    "last_value": last_value,
    "boxed": boxed,
}
"""By the name that the configuration gives them."""


def extract(
    text: str,
    rule: str,
    *,
    markers: Markers = DEFAULT_MARKERS,
    stop: str = "",
    in_thought: bool = False,
) -> Extraction:
    r"""Returns the answer in a completion's text.

    Args:
      text: Any text, also hostile.
      rule: One of RULES.
      markers: For the rule `markers`.
      stop: Stop string that ended the completion, and that its text is cut before.
      in_thought: Whether the prompt ends in a thought, which the text has to end.

    Example:
      >>> found = extract("Thus:\n```python\nprint(1)\n```\n", "last_block")
      >>> found.answer, found.start, found.error_class
      ('print(1)\n', 16, '')
      >>> extract("print(1)", "last_block").error_class
      'no_code_block'
      >>> extract("So [ANSWER] 42", "markers", stop="[/ANSWER]").answer
      '42'
    """
    take = RULES[checked_rule(rule)]
    written = Written(text=text + stop, start=0, end=len(text), markers=markers)
    if rule == WHOLE:
        return take(written)
    end_of_thinking = text.find(THINKING_END)
    if end_of_thinking >= 0:
        return take(replace(written, start=end_of_thinking + len(THINKING_END)))
    if rule == AFTER_THINKING or in_thought or THINKING_START in text:
        return failure(error_classes.UNFINISHED_THINKING)
    return take(written)


def checked_rule(rule: str) -> str:
    """Returns the name of a rule.

    Args:
      rule: A name.

    Raises:
      ValueError: There is no such rule.
    """
    if rule not in RULES:
        raise ValueError(f"extraction rule {rule!r}. Use one of {', '.join(RULES)}.")
    return rule
