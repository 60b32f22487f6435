"""Attributes of objects, which correspond by their history as variables do."""

import re
from collections.abc import Callable
from dataclasses import replace

from jaxgrpo.host.trace.equality import folded
from jaxgrpo.host.trace.matching import best_pairs, common_length
from jaxgrpo.host.trace_records import Trace

OBJECT = "object("
"""How the text of an instance of one of the program's classes begins."""
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_FLAT = r"""[(\[{<][^'"()\[\]{}<>]*[)\]}>]"""
_WORDS = r"""(?:(?!object\()[^'"()\[\]{}<>,])+"""
_TOKEN = re.compile(
    rf"{_TEXT}|object\(|{_FLAT}|[(\[{{<]|[)\]}}>]|, |{_WORDS}|.", re.DOTALL
)

Write = Callable[[list[str]], str]
"""From an object's attributes, each `name=text`, to its text."""


def with_common_attributes(candidate: Trace, reference: Trace) -> Trace:
    """Returns a candidate's trace with the reference's names of attributes.

    Args:
      candidate: On some input. Only names that the reference does not have are changed,
        to those that the candidate does not have.
      reference: On the same input.
    """
    names = _matched_attributes(_histories(candidate), _histories(reference))
    if not names:
        return candidate

    def write(attributes: list[str]) -> str:
        pairs = (attribute.partition("=") for attribute in attributes)
        renamed = sorted(f"{names.get(n, n)}{sign}{text}" for n, sign, text in pairs)
        return f"{OBJECT}{', '.join(renamed)})"

    events = [
        replace(
            event,
            values=tuple(
                (name, _rewritten(text, write)) for name, text in event.values
            ),
        )
        for event in candidate.events
    ]
    return replace(candidate, events=tuple(events))


def _matched_attributes(
    candidate: dict[str, list[str]], reference: dict[str, list[str]]
) -> dict[str, str]:
    ranked = []
    for rank, (ours, values) in enumerate(candidate.items()):
        for other_rank, (theirs, others) in enumerate(reference.items()):
            length = common_length(values, others)
            if ours in reference or theirs in candidate or not length:
                continue
            key = (values == others, length, -abs(rank - other_rank))
            ranked.append((key, ours, theirs))
    return best_pairs(ranked)


def _histories(trace: Trace) -> dict[str, list[str]]:
    """What became of each attribute, whatever objects have it."""
    found: dict[str, list[str]] = {}

    def write(attributes: list[str]) -> str:
        for attribute in attributes:
            name, _, text = attribute.partition("=")
            values = found.setdefault(name, [])
            if values[-1:] != [text]:
                values.append(text)
        # Objects inside others are told by what they hold.
        return f"{OBJECT}{', '.join(sorted(a.partition('=')[2] for a in attributes))})"

    for event in trace.events:
        for _, text in event.values:
            _rewritten(folded(text), write)
    return found


def _rewritten(text: str, write: Write) -> str:
    """The text of a value in which objects are written in another way."""
    if OBJECT not in text:
        return text
    levels: list[tuple[str, list[str]]] = [("", [""])]
    """Of each bracket that is open: itself, and its parts between commas."""
    for token in _TOKEN.findall(text):
        opening, parts = levels[-1]
        if token == OBJECT or token in "([{<":
            levels.append((token, [""]))
        elif token in ")]}>" and opening:
            levels.pop()
            inner = f"{opening}{', '.join(parts)}{token}"
            if opening == OBJECT and any(parts):
                inner = write(parts)
            levels[-1][1][-1] += inner
        elif token == ", ":
            parts.append("")
        else:
            parts[-1] += token
    return ", ".join(levels[0][1]) if len(levels) == 1 else text
