"""What kind of value an answer is: its type, its size, what it holds."""

from collections.abc import Iterable, Iterator

from jaxgrpo.host.hints.layout import ITEMS
from jaxgrpo.host.hints.words import listed
from jaxgrpo.host.judge.arguments import read_arguments
from jaxgrpo.host.judge.literal_values import read_literal

MOST_TYPES = 6
"""Items of a list whose types are told one by one."""
_SEQUENCES = (list, tuple, set, frozenset)


def knowledge_of_value(reference: str) -> list[str]:
    r"""Returns what is told of an answer, at most four items; none of it is the answer.

    None is told nothing of: its type would be all of it.

    Args:
      reference: A literal.

    Raises:
      ValueError: It is none.

    Example:
      >>> print(*knowledge_of_value("[1, 'a']"), sep="\n")
      - The answer is a list.
      - It has 2 items.
      - Its items are an int and a str.
      - Texts are written in single quotes.
    """
    value = read_literal(reference)
    if value is None:
        return []
    found = [
        f"The answer is {_typed(value)}.",
        *_size(value, reference),
        *_content(value),
        *_spelling(value, reference),
    ]
    return [f"- {sentence}" for sentence in found[:ITEMS]]


def knowledge_of_arguments(reference: str) -> list[str]:
    r"""Returns what is told of arguments that are right.

    Args:
      reference: As they stand between the parentheses of a call.

    Raises:
      ValueError: They are not all literals.

    Example:
      >>> print(*knowledge_of_arguments("[1, 2], 'a'"), sep="\n")
      - Arguments that are right are a list and a str.
      - The list has 2 items.
      - The str has 1 character.
    """
    positional, keywords = read_arguments(reference, "")
    values = [*positional, *keywords.values()]
    if not values:
        return []
    word = (
        "Arguments that are right are"
        if len(values) > 1
        else "An argument that is right is"
    )
    found = [f"{word} {listed([_typed(value) for value in values])}."]
    for value in values:
        sizes = _size(value, repr(value))
        found += [
            size.replace("It has", f"The {type(value).__name__} has") for size in sizes
        ]
    return [f"- {sentence}" for sentence in dict.fromkeys(found)][:ITEMS]


def _typed(value: object) -> str:
    name = "None" if value is None else type(value).__name__
    article = "an" if name[0] in "aeiou" else "a"
    return name if value is None else f"{article} {name}"


def _size(value: object, written: str) -> Iterator[str]:
    match value:
        case bool() | None | complex():
            return
        case int():
            yield _counted(len(str(abs(value))), "digit")
        case float() if "." in written and "e" not in written.lower():
            number = len(written.strip().partition(".")[2])
            yield _counted(number, "digit after the point", "digits after the point")
        case str() | bytes() if value:
            yield _counted(len(value), "character")
        case dict() if value:
            yield _counted(len(value), "entry", "entries")
        case list() | tuple() | set() | frozenset() if value:
            yield _counted(len(value), "item")


def _content(value: object) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        yield "It is negative."
    if isinstance(value, dict) and value:
        yield f"Its keys are of {_types(value)}."
        yield f"Its values are of {_types(value.values())}."
    elif isinstance(value, _SEQUENCES) and value:
        types = [_typed(item) for item in value]
        if len(set(types)) == 1 and len(types) > 1:
            yield f"Each item is {types[0]}."
        elif isinstance(value, list | tuple) and len(types) <= MOST_TYPES:
            word = "items are" if len(types) > 1 else "item is"
            yield f"Its {word} {listed(types)}."
        else:
            yield f"Its items are of {_types(value)}."


def _types(values: Iterable[object]) -> str:
    names = sorted({type(value).__name__ for value in values})
    return f"type {listed(names)}" if len(names) == 1 else f"types {listed(names)}"


def _spelling(value: object, written: str) -> Iterator[str]:
    if not _has_text(value):
        return
    if "'" in written and '"' not in written:
        yield "Texts are written in single quotes."
    elif '"' in written:
        yield "A text with an apostrophe in it is written in double quotes."


def _has_text(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_text, [*value, *value.values()]))
    if isinstance(value, _SEQUENCES):
        return any(map(_has_text, value))
    return isinstance(value, str)


def _counted(number: int, name: str, plural: str = "") -> str:
    return f"It has {number} {name if number == 1 else plural or name + 's'}."
