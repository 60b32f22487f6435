"""Answers that a marker announces, or that stand at the end."""

import re

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.passages import LINE, Extraction, Written, content, failure
from jaxgrpo.host.trace.steps import value_start

BOX = "\\boxed{"
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


def everything(written: Written) -> Extraction:
    """Takes all that may be the answer.

    Args:
      written: The text.
    """
    return content(written.text, written.start, written.end)


def markers(written: Written) -> Extraction:
    """Takes what stands between the only opening marker and the next closing one.

    A second opening marker makes it unclear which answer is meant, also where both say
    the same. Where a stop string ended the text, it may be the closing marker.

    Args:
      written: The text.
    """
    text, (opening, closing) = written.text, written.markers
    before = text.find(opening, written.start, written.end)
    if before < 0:
        return failure(error_classes.NO_ANSWER_MARKER)
    start = before + len(opening)
    end = text.find(closing, start) if closing else written.end
    if end < 0:
        return failure(error_classes.UNCLOSED_ANSWER)
    after = end + len(closing)
    if opening in text[start:end] or opening in text[after : written.end]:
        return failure(error_classes.SEVERAL_ANSWERS)
    return content(text, _after_blanks(text, start), min(end, written.end))


def last_line(written: Written) -> Extraction:
    """Takes the last line that is not blank.

    Args:
      written: The text.
    """
    lines = list(LINE.finditer(written.text, written.start, written.end))
    for line in reversed(lines):
        if line[0].strip():
            return content(written.text, line.start(), line.end())
    return failure(error_classes.EMPTY_CODE)


def last_value(written: Written) -> Extraction:
    """Takes the last line that is not blank, without a name before its value.

    So ends what a program printed: `result: [1, 2]`.

    Args:
      written: The text.
    """
    found = last_line(written)
    skipped = value_start(found.answer)
    if not skipped:
        return found
    return content(written.text, found.start + skipped, found.end)


def boxed(written: Written) -> Extraction:
    r"""Takes what stands in the last `\boxed{...}`, up to the brace that closes it.

    Braces are counted wherever they stand, except after a backslash.

    Args:
      written: The text.
    """
    before = written.text.rfind(BOX, written.start, written.end)
    if before < 0:
        return failure(error_classes.NO_ANSWER_MARKER)
    start, depth = before + len(BOX), 1
    for brace in _BRACES.finditer(written.text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return content(written.text, start, min(brace.start(), written.end))
    return failure(error_classes.UNCLOSED_ANSWER)


def _after_blanks(text: str, start: int) -> int:
    """The first character that is no blank: a program may begin on a marker's line."""
    while text[start : start + 1] in (" ", "\t"):
        start += 1
    return start
