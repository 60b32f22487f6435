"""The judge of output prediction: does a text spell the expected value exactly?"""

import functools
from collections.abc import Hashable

from jaxgrpo.host.judge.literal_values import readings, value_key
from jaxgrpo.host.records import TestResult, Verdict

EXACT = "exact"
"""The text is the reference, character by character."""
WRONG_REPR = "wrong_repr"
"""One literal with the right value, spelled otherwise than `repr` does."""
WRONG_VALUE = "wrong_value"
"""One literal with another value."""
NOT_ONE_LITERAL = "not_one_literal"
"""Prose, several literals, code, nothing at all, or too large to be read."""

LITERAL_CLASSES = (NOT_ONE_LITERAL, WRONG_VALUE, WRONG_REPR, EXACT)
"""From worst to best."""


def judge_literal(text: str, reference: str) -> Verdict:
    """Returns the verdict on a text that should be the `repr` of a value.

    Exactly one class holds, the first of these that applies:

        exact            the text equals the reference; nothing is stripped
        not_one_literal  the text is not exactly one literal
        wrong_repr       it is, and has the reference's value
        wrong_value      it is, and has another

    A literal in JSON's notation (`true`, `null`, `"a"`, also nested) counts as one, so
    that a model which knows the value and not the notation is told apart from one that
    knows neither. So does one with whitespace around it. Values compare with their
    types: True is not 1, 1 is not 1.0, a tuple is not a list, 0.0 is not -0.0; nan is
    nan, and the order of sets and dicts is free.

    If the reference is itself no literal (a `range`, an object), only the exact text is
    right, and every literal has the wrong value.

    Args:
      text: The completion, without special tokens; any text, also hostile.
      reference: The `repr` of the expected value.

    Example:
      >>> [judge_literal(text, "[1, True]").error_class
      ...  for text in ("[1, True]", "[1,true]", "[1, 1]", "It is [1, True]")]
      ['exact', 'wrong_repr', 'wrong_value', 'not_one_literal']
    """
    error_class = _literal_class(text, reference)
    is_exact = error_class == EXACT
    status = "OK" if is_exact else "WA"
    return Verdict(
        status=status,
        error_class=error_class,
        num_passed=int(is_exact),
        num_tests=1,
        results=(TestResult(status=status, error_class=error_class),),
        extracted=text,
    )


def _literal_class(text: str, reference: str) -> str:
    if text == reference:
        return EXACT
    values = readings(text)
    if not values:
        return NOT_ONE_LITERAL
    expected = _reference_keys(reference)
    is_right = any(value_key(value) in expected for value in values)
    return WRONG_REPR if is_right else WRONG_VALUE


@functools.lru_cache(maxsize=256)  # the completions of a group share their reference
def _reference_keys(reference: str) -> tuple[Hashable, ...]:
    # The reference is in Python's notation: its first reading is the meant one.
    return tuple([value_key(value) for value in readings(reference)[:1]])
