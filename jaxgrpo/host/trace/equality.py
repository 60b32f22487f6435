"""Texts of values and output that count as the same."""

import re
from collections.abc import Iterator, Sequence

from jaxgrpo.host.trace_records import Trace, TraceEvent

_PART = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
    r"""|(?<![\w.])(?:True|False|-?(?:0|[1-9]\d*)(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))"""
    r"""(?![\w.])"""
)
"""A text within a value, which is left alone; or a flag or fraction."""
_WORD = re.compile(r"[^ \t\r\f\v]+")
_FLAGS = {"True": "1", "False": "0"}


def folded(text: str) -> str:
    """Returns one text for values that are `==`: flags and whole fractions are ints.

    Args:
      text: Canonical, of a value with whatever is in it.

    Example:
      >>> folded("[True, 2.0, -0.0, 0.5, '1.0', object(x=1e3)]")
      "[1, 2, 0, 0.5, '1.0', object(x=1000)]"
    """
    if "." not in text and "e" not in text:
        return text
    return _PART.sub(_folded_part, text)


def _folded_part(match: re.Match[str]) -> str:
    part = match[0]
    if part[0] in "'\"":
        return part
    if part in _FLAGS:
        return _FLAGS[part]
    value = float(part)
    return str(int(value)) if value.is_integer() else part


def other_output(candidate: Trace, reference: Trace) -> Iterator[tuple[int, str, str]]:
    """Yields boundaries that print what the reference does not, in whatever pieces.

    As for the judge, lines count by their words, and empty lines at the end do not
    count. What one of the two prints behind a part that its trace leaves out is not
    compared, unless both leave out the same.

    Args:
      candidate: On some input.
      reference: On the same input.

    Yields:
      Step, what it prints, and what the reference prints there.
    """
    expected = _expectations(reference)
    current = next(expected)
    for step, text, unseen in _printed(candidate.events):
        begin = len(current.printed)
        is_expected = current.is_continued_by(text)
        if is_expected is None:
            return
        if not is_expected:
            yield step, text, current.text[begin : begin + len(text)]
        if unseen:
            if current.printed != current.text or unseen != current.unseen:
                return
            current = next(expected)


class _Expectation:
    """What is printed up to a part that is left out, or to the end.

    Args:
      text: By the reference.
      unseen: The mark of what it leaves out behind that; empty at the end.
      is_open: Whether what follows the text is not known.
    """

    def __init__(self, text: str, unseen: str, *, is_open: bool) -> None:
        self.text = text
        self.unseen = unseen
        self.printed = ""
        """By the candidate, so far."""
        self._lines = [_WORD.findall(line) for line in text.split("\n")]
        self._is_open = is_open
        self._num_lines = 0
        self._line = ""
        """Of the candidate, as far as it is printed."""
        self._is_left = False

    def is_continued_by(self, text: str) -> bool | None:
        """Whether the candidate goes on as expected; None where that is not known.

        Once it has not, it never does.
        """
        self.printed += text
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if not self._is_left and (found := self._is_expected(line)) is not True:
                self._is_left = True
                return found
            self._num_lines += 1
        if not self._is_left and (found := self._is_expected_part()) is not True:
            self._is_left = True
            return found
        return not self._is_left

    def _is_expected(self, line: str) -> bool | None:
        if self._is_open and self._num_lines >= len(self._lines) - 1:
            return None
        return _WORD.findall(line) == self._expected_words()

    def _is_expected_part(self) -> bool | None:
        words = _WORD.findall(self._line)
        if not words:
            return True
        if self._is_open and self._num_lines >= len(self._lines) - 1:
            return True if self.text.startswith(self.printed) else None
        expected = self._expected_words()[: len(words)]
        if len(expected) == len(words) and _WORD.match(self._line[-1]):
            # The last word may go on.
            expected[-1] = expected[-1][: len(words[-1])]
        return words == expected

    def _expected_words(self) -> list[str]:
        known = self._num_lines < len(self._lines)
        return self._lines[self._num_lines] if known else []


def _expectations(reference: Trace) -> Iterator[_Expectation]:
    text = ""
    for _, printed, unseen in _printed(reference.events):
        text += printed
        if unseen:
            yield _Expectation(text, unseen, is_open=True)
            text = ""
    yield _Expectation(text, "", is_open=bool(reference.cut))


def _printed(events: Sequence[TraceEvent]) -> Iterator[tuple[int, str, str]]:
    """Step, text, and the mark of what is left out behind it."""
    for step, event in enumerate(events):
        effects = dict(event.values)
        if "<stdout>" in effects:
            yield step, effects["<stdout>"], effects.get("<unseen>", "")
