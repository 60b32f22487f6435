"""Answers in fenced blocks."""

import re
from dataclasses import dataclass

from jaxgrpo.host.judge import error_classes
from jaxgrpo.host.judge.passages import LINE, Extraction, Written, content, failure
from jaxgrpo.host.judge.source_names import parsed

MAX_PARSED_CHARACTERS = 200_000
"""Longer code is not parsed, and so counts as not parsing."""

_PYTHON_NAMES = {"python", "python3", "py", "py3"}
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    language: str
    indent: str
    """Of the fence; as much is taken off the lines inside, which are not meant to be
    indented where the block stands in a list."""
    start: int
    end: int
    is_closed: bool


def last_block(written: Written) -> Extraction:
    """Takes the last closed block that is marked as Python, else the last unmarked one.

    Blocks of other languages do not count.

    Args:
      written: The text.
    """
    blocks = [block for block in _blocks(written) if _may_be_python(block)]
    closed = [block for block in blocks if block.is_closed]
    marked = [block for block in closed if block.language]
    if closed:
        return _inside(written, (marked or closed)[-1])
    return failure(
        error_classes.UNCLOSED_CODE_BLOCK if blocks else error_classes.NO_CODE_BLOCK
    )


def one_block(written: Written) -> Extraction:
    """Takes the only block, if there is one, it is closed, and it parses.

    Args:
      written: The text.

    Reference:
      CodeScaler, 2026, https://arxiv.org/abs/2602.17684, its syntax-aware extraction.
      Differs from it: a fence ends at a line of its own and not at the next three
      backticks, a block of another language is refused, and a fence left open counts.
    """
    blocks = _blocks(written)
    if len(blocks) > 1:
        return failure(error_classes.SEVERAL_CODE_BLOCKS)
    if not blocks or not _may_be_python(blocks[0]):
        return failure(error_classes.NO_CODE_BLOCK)
    if not blocks[0].is_closed:
        return failure(error_classes.UNCLOSED_CODE_BLOCK)
    found = _inside(written, blocks[0])
    if found.answer and not parses(found.answer):
        return failure(error_classes.DOES_NOT_PARSE)
    return found


def _blocks(written: Written) -> list[_Block]:
    """Fenced blocks in order; the last one may be left open."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    content_start = written.start
    for line in LINE.finditer(written.text, written.start):
        match = _FENCE.fullmatch(line[0].rstrip())
        if match is None:
            continue
        if opening is None:
            opening, content_start = match, line.end()
        elif _closes(match, opening):
            blocks.append(_block(opening, content_start, line.start(), is_closed=True))
            opening = None
    if opening is not None:
        blocks.append(_block(opening, content_start, written.end, is_closed=False))
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


def _inside(written: Written, block: _Block) -> Extraction:
    end = min(block.end, written.end)
    return content(written.text, block.start, end, block.indent)


def parses(code: str) -> bool:
    """Returns whether code is a Python program, of a size that is looked at.

    Args:
      code: Any text.
    """
    if len(code) > MAX_PARSED_CHARACTERS:
        return False
    try:
        parsed(code)
    except ValueError:
        return False
    return True
