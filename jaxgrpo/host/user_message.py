"""What the user of a conversation says: a template, filled in for each problem."""

import difflib
import string

from jaxgrpo.host.prompt_variants import hint_level
from jaxgrpo.host.records import Problem

PLAIN_TEMPLATE = "{prompt}"
_PROMPT = "prompt"


def user_message(
    problem: Problem, template: str, variant: str = "", hint: str = ""
) -> str:
    r"""Returns the message that asks a problem.

    What is filled in is taken as it is: braces in code mean nothing. A hint follows the
    problem's prompt after a blank line, or the whole message if that has no `{prompt}`.

    Args:
      problem: With a column for each field of the template besides `prompt`.
      template: As `checked_template` takes it.
      variant: Empty, or `hint-K` for the problem's K-th hint (from 1).
      hint: Text that is added in the place of a hint of the problem's own.

    Raises:
      ValueError: The problem lacks a column, or the hint.

    Example:
      >>> problem = Problem(id="p", kind="output", prompt="f(1)", reference="2",
      ...                   columns={"code": "def f(x): return {x}"})
      >>> user_message(problem, "{code}\nassert {prompt} ==")
      'def f(x): return {x}\nassert f(1) =='
    """
    hint = hint or _hint(problem, variant)
    parts = _parts(template)
    fields = {name for _, name in parts}
    values = {**problem.columns, _PROMPT: problem.prompt}
    if hint and _PROMPT in fields:
        values[_PROMPT], hint = f"{problem.prompt}\n\n{hint}", ""
    message = "".join([text + _value(values, name, problem) for text, name in parts])
    return f"{message}\n\n{hint}" if hint else message


def checked_template(template: str) -> str:
    """Returns a template of a user's message.

    Args:
      template: Text with fields such as {prompt}; {{ and }} stand for braces.

    Raises:
      ValueError: It has a brace that belongs to no field, or no field at all.

    Example:
      >>> checked_template("What is {prompt}?")
      'What is {prompt}?'
      >>> checked_template("Answer {'like': this}")
      Traceback (most recent call last):
      ValueError: prompt.template: {'like': this} is no field. Write a name, such as
      {prompt}, or double the braces, {{ and }}, where they are meant as text.
    """
    if not any(name for _, name in _parts(template)):
        raise ValueError(
            f"prompt.template {template!r} has no field, so all problems would be "
            "asked alike. Put {prompt} or columns of the data into it."
        )
    return template


def _parts(template: str) -> list[tuple[str, str]]:
    """Texts, each with the field that follows it; an empty name where none does."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(
            f"prompt.template: {str(error).lower()}. Double the braces, "
            "{{ and }}, where they are meant as text."
        ) from None
    for _, name, specification, conversion in parts:
        if name is None:
            continue
        shown = name + (f"!{conversion}" if conversion else "")
        shown += f":{specification}" if specification else ""
        if not name.isidentifier() or shown != name:
            raise ValueError(
                f"prompt.template: {{{shown}}} is no field. Write a name, such as "
                "{prompt}, or double the braces, {{ and }}, where they are meant as "
                "text."
            )
    return [(text, name or "") for text, name, _, _ in parts]


def _value(values: dict[str, object], name: str, problem: Problem) -> str:
    if not name:
        return ""
    if name not in values:
        near = difflib.get_close_matches(name, values, n=1)
        hint = f"Did you mean {{{near[0]}}}? " if near else ""
        raise ValueError(
            f"prompt.template: problem {problem.id!r} has no column {name!r}. "
            f"{hint}It has {', '.join(sorted(values))}."
        )
    return str(values[name])


def _hint(problem: Problem, variant: str) -> str:
    if not variant:
        return ""
    level = hint_level(variant)
    if not 1 <= level <= len(problem.hints):
        raise ValueError(
            f"prompt variant {variant!r} does not exist for problem {problem.id!r}, "
            f"which has {len(problem.hints)} hints. Use '' or 'hint-K' with K from 1."
        )
    return problem.hints[level - 1]
