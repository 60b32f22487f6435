"""From a completion's text to the program in it, by one of a few named rules."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.source_names import parsed

MAX_PARSED_CHARACTERS = 200_000
"""Longer code is not parsed, and so counts as not parsing."""
THINKING_START = "<think>"
THINKING_END = "</think>"

_PYTHON_NAMES = {"python", "python3", "py", "py3"}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
"""As Python ends lines; `splitlines` also does at form feeds and the like."""
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The program found in a text, or the kind of failure."""

    code: str = ""
    error_class: str = ""
    """Empty where there is code."""
    line_starts: tuple[int, ...] = ()
    """Character of the text at which each line of the code begins."""
    end: int = 0
    """Character of the text at which the code ends."""

    @property
    def start(self) -> int:
        """Character of the text at which the code begins."""
        return self.line_starts[0] if self.line_starts else self.end

    def character_of(self, line: int, column: int = 0) -> int:
        """Returns the character of the text that a place in the code stands at.

        Args:
          line: From 1, as Python counts.
          column: Characters from the beginning of the line.
        """
        return self.line_starts[line - 1] + column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    language: str
    indent: str
    """Of the fence; as much is taken off the code's lines."""
    start: int
    end: int
    is_closed: bool


Rule = Callable[[str, int], Extraction]
"""Takes a text and the character where the answer begins."""


def last_block(text: str, start: int) -> Extraction:
    """Takes the last closed block that is marked as Python, else the last unmarked one.

    Blocks of other languages do not count.

    Args:
      text: The completion.
      start: Where the answer begins.
    """
    blocks = [block for block in _blocks(text, start) if _may_be_python(block)]
    closed = [block for block in blocks if block.is_closed]
    marked = [block for block in closed if block.language]
    if closed:
        return _content(text, (marked or closed)[-1])
    return _failure(
        error_classes.UNCLOSED_CODE_BLOCK if blocks else error_classes.NO_CODE_BLOCK
    )


def one_block(text: str, start: int) -> Extraction:
    """Takes the only block, if there is one, it is closed, and it parses.

    Args:
      text: The completion.
      start: Where the answer begins.

    Reference:
      CodeScaler, 2026, https://arxiv.org/abs/2602.17684, its syntax-aware extraction.
      Differs from it: a fence ends at a line of its own and not at the next three
      backticks, a block of another language is refused, and a fence left open counts.
    """
    blocks = _blocks(text, start)
    if len(blocks) > 1:
        return _failure(error_classes.SEVERAL_CODE_BLOCKS)
    if not blocks or not _may_be_python(blocks[0]):
        return _failure(error_classes.NO_CODE_BLOCK)
    if not blocks[0].is_closed:
        return _failure(error_classes.UNCLOSED_CODE_BLOCK)
    found = _content(text, blocks[0])
    if found.code and not _parses(found.code):
        return _failure(error_classes.DOES_NOT_PARSE)
    return found


def raw(text: str, start: int) -> Extraction:
    """Takes everything.

    Args:
      text: The completion.
      start: Where the answer begins.
    """
    return _content(
        text,
        _Block(language="", indent="", start=start, end=len(text), is_closed=True),
    )


RULES: dict[str, Rule] = {"last_block": last_block, "one_block": one_block, "raw": raw}
"""By the name that the configuration gives them."""


def extract(text: str, rule: str) -> Extraction:
    r"""Returns the program in a completion's text.

    Thinking is skipped first: the answer begins after the first `</think>` (and the
    whole text is the answer where nothing was thought).

    Args:
      text: Any text, also hostile.
      rule: One of RULES.

    Example:
      >>> found = extract("Thus:\n```python\nprint(1)\n```\n", "last_block")
      >>> found.code, found.start, found.error_class
      ('print(1)\n', 16, '')
      >>> extract("print(1)", "last_block").error_class
      'no_code_block'
    """
    take = RULES[checked_rule(rule)]
    end_of_thinking = text.find(THINKING_END)
    if end_of_thinking >= 0:
        return take(text, end_of_thinking + len(THINKING_END))
    if THINKING_START in text:
        return _failure(error_classes.UNFINISHED_THINKING)
    return take(text, 0)


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


def _failure(error_class: str) -> Extraction:
    return Extraction(error_class=error_class)


def _blocks(text: str, start: int) -> list[_Block]:
    """Fenced blocks in order; the last one may be left open."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    content_start = start
    for line in _LINE.finditer(text, start):
        match = _FENCE.fullmatch(line[0].rstrip())
        if match is None:
            continue
        if opening is None:
            opening, content_start = match, line.end()
        elif _closes(match, opening):
            blocks.append(_block(opening, content_start, line.start(), is_closed=True))
            opening = None
    if opening is not None:
        blocks.append(_block(opening, content_start, len(text), is_closed=False))
    return blocks


def _closes(match: re.Match[str], opening: re.Match[str]) -> bool:
    # Longer fences enclose shorter ones, as when code is quoted inside a document.
    return match["fence"].startswith(opening["fence"]) and not match["info"].strip()


def _block(opening: re.Match[str], start: int, end: int, *, is_closed: bool) -> _Block:
    words = opening["info"].split()
    return _Block(
        language=words[0].lower() if words else "",
        indent=opening["indent"],
        start=start,
        end=end,
        is_closed=is_closed,
    )


def _may_be_python(block: _Block) -> bool:
    return block.language in {"", *_PYTHON_NAMES}


def _content(text: str, block: _Block) -> Extraction:
    lines: list[str] = []
    starts: list[int] = []
    for line in _LINE.finditer(text, block.start, block.end):
        # A block inside a list is indented; its code is not meant to be.
        shorter = line[0].removeprefix(block.indent)
        lines.append(shorter)
        starts.append(line.end() - len(shorter))
    code = "".join(lines)
    if not code.strip():
        return _failure(error_classes.EMPTY_CODE)
    return Extraction(code=code, line_starts=tuple(starts), end=block.end)


def _parses(code: str) -> bool:
    if len(code) > MAX_PARSED_CHARACTERS:
        return False
    try:
        parsed(code)
    except ValueError:
        return False
    return True
