"""What a user asks of completions: the constraint's kind, and where it holds."""

import re
from dataclasses import dataclass

KINDS = ("regex", "choice", "python_literal", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """The form that the text of a completion must have."""

    kind: str
    """One of KINDS."""
    pattern: str = ""
    """Of a regex: what the whole value matches, in the syntax of outlines-core."""
    choices: tuple[str, ...] = ()
    """Of a choice: the texts to choose from."""
    after: str = ""
    """Text after which the value begins; empty if it is the whole completion.

    Before it everything is allowed except to end. Between it and the value, up to two
    line breaks and a blank may stand.
    """
    until: str = ""
    """Text that must follow the value at once, before the completion ends."""


def parse_constraint(text: str, *, after: str = "", until: str = "") -> Constraint:
    r"""Returns the constraint that a configuration spells.

    Args:
      text: `python_literal`, `json`, `regex:PATTERN` or `choice:ONE|TWO|THREE`; within
        a choice, `\|` is a bar and `\\` a backslash.
      after: Text or special token after which the value begins.
      until: Text that must follow the value.

    Raises:
      ValueError: The text spells none.

    Example:
      >>> parse_constraint("choice:yes|no").choices
      ('yes', 'no')
      >>> parse_constraint("json", after="</think>").kind
      'json'
      >>> parse_constraint("yaml")
      Traceback (most recent call last):
      ValueError: constraint 'yaml' is of no known kind. Write python_literal, json,
      regex:PATTERN or choice:ONE|TWO.
    """
    kind, colon, rest = text.partition(":")
    takes_text = kind in ("regex", "choice")
    if kind not in KINDS or takes_text != bool(colon):
        raise ValueError(
            f"constraint {text!r} is of no known kind. Write python_literal, json, "
            "regex:PATTERN or choice:ONE|TWO."
        )
    if "\0" in text + after + until:
        raise ValueError(
            f"constraint {text!r} or its markers hold U+0000, which no completion may "
            "hold. Leave it out."
        )
    pattern = rest if kind == "regex" else ""
    choices = _choices(rest) if kind == "choice" else ()
    if takes_text and not (pattern or all(choices) and choices):
        raise ValueError(
            f"constraint {text!r} allows a completion without any text. Write a "
            f"{'pattern' if kind == 'regex' else 'choice'} of at least one character."
        )
    return Constraint(
        kind=kind, pattern=pattern, choices=choices, after=after, until=until
    )


def _choices(text: str) -> tuple[str, ...]:
    pieces = re.findall(r"(\\[\\|]|\||[^|])", text, re.DOTALL)
    choices = [""]
    for piece in pieces:
        if piece == "|":
            choices.append("")
        else:
            choices[-1] += piece[1:] if piece in (r"\|", r"\\") else piece
    return tuple(choices)
