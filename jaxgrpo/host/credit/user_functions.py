"""Functions of the user's own that say what is asked of programs, or where they fail.

    extractor(problem)                                -> constraints
    localizer(problem, source, candidate, reference)  -> (start, end) or None

They run where programs are scored. Both see the problem as a record, with its reference
and the columns of its data set, such as a list that a model has made beforehand.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from jaxgrpo.host.credit.constraints import Constraint, Features
from jaxgrpo.host.functions.loading import loaded_function
from jaxgrpo.host.functions.settings import FunctionSettings
from jaxgrpo.host.judge.passages import LINE, Extraction
from jaxgrpo.host.records import Problem, Span
from jaxgrpo.host.trace_records import Trace

LABEL = "user"
"""Of constraints and spans that a user's function gave, beside their text."""


class UserFunctionError(ValueError):
    """A user's function failed, or gave what it must not; in one line."""


def loaded(name: str) -> Callable[..., Any] | None:
    """Returns a user's function; None for no name.

    Args:
      name: `path/to/file.py:function` or `package.module:function`.

    Raises:
      ValueError: There is no such function, or it does not load.
    """
    return loaded_function(FunctionSettings(function=name)) if name else None


def extracted_constraints(
    extractor: Callable[..., Any], problem: Problem
) -> list[Constraint]:
    """Returns what a user's function says of how a problem is to be solved.

    Args:
      extractor: Given the problem, it returns a list. An item is a sentence, which the
        prompt may tell; or a sentence and a function from a program's source to
        whether it keeps to it.
      problem: With its reference.

    Raises:
      UserFunctionError: It raises, or returns something else.
    """
    items = _called(extractor, problem)
    if not isinstance(items, list | tuple):
        raise UserFunctionError(
            f"{items!r:.80} is no list. Return a list of sentences, each alone or with "
            "a function that checks a program's source."
        )
    return [_constraint(item) for item in items]


def localized_span(
    localizer: Callable[..., Any],
    problem: Problem,
    found: Extraction,
    candidate: Trace | None,
    reference: Trace | None,
) -> Span | None:
    """Returns the characters of the completion's text that a user's function blames.

    Args:
      localizer: Given the problem, the program and the traces of program and reference,
        it returns the first character of the program that is to blame and the one
        after the last; None blames the whole.
      problem: With its reference.
      found: The program in the completion's text.
      candidate: The program's trace; None where there is none.
      reference: The reference's, on the same input.

    Raises:
      UserFunctionError: It raises, or returns something else.
    """
    place = _called(localizer, problem, found.answer, candidate, reference)
    if place is None:
        return None
    match place:
        case (int(start), int(end)) if 0 <= start < end <= len(found.answer):
            return span_in_text(found, start, end)
    raise UserFunctionError(
        f"{place!r:.80} is no part of a program of {len(found.answer)} characters. "
        "Return (start, end) or None."
    )


def span_in_text(found: Extraction, start: int, end: int) -> Span:
    r"""Returns where a part of a program stands in the completion's text.

    Args:
      found: The program.
      start: First character of the part, which has at least one.
      end: Character after its last.

    Example:
      >>> from jaxgrpo.host.judge.extraction import extract
      >>> found = extract("- so\n  ```python\n  a = 1\n  b = 2\n  ```", "last_block")
      >>> found.answer, span_in_text(found, 6, 11)
      ('a = 1\nb = 2\n', Span(start=27, end=32, label='user'))
    """
    place = partial(_character_of, found)
    return Span(start=place(start), end=place(end - 1) + 1, label=LABEL)


def _character_of(found: Extraction, index: int) -> int:
    before = 0
    for line, text in enumerate(LINE.findall(found.answer), start=1):
        if index < before + len(text):
            return found.character_of(line, index - before)
        before += len(text)
    raise AssertionError(f"character {index} of {before}")


def _constraint(item: Any) -> Constraint:
    match item:
        case str(sentence):
            return Constraint(kind=sentence, sentence=sentence, is_kept=_is_untested)
        case (str(sentence), check) if callable(check):
            return Constraint(
                kind=sentence, sentence=sentence, is_kept=partial(_is_kept, check)
            )
    raise UserFunctionError(
        f"{item!r:.80} is no constraint. Return a list of sentences, each alone or "
        "with a function that checks a program's source: [(sentence, check), ...]."
    )


def _is_untested(_: Features) -> bool:
    return True


def _is_kept(check: Callable[..., Any], candidate: Features) -> bool:
    return bool(_called(check, candidate.source))


def _called(function: Callable[..., Any], *arguments: object) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise UserFunctionError(
            f"{name} raised {type(error).__name__}: {error}"
        ) from error
