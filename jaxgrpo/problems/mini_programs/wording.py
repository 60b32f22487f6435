"""Sketches in English: the specification that a problem shows."""

from jaxgrpo.problems.mini_programs.code import signature
from jaxgrpo.problems.mini_programs.grammar import PLURALS
from jaxgrpo.problems.mini_programs.sketch import Sketch

_PLURAL_VERBS = {
    "is": "are",
    "has": "have",
    "comes": "come",
    "starts": "start",
    "ends": "end",
    "contains": "contain",
    "leaves": "leave",
    "does": "do",
}
_ADJECTIVES = ("even", "odd", "positive", "negative")


def specification(sketch: Sketch) -> str:
    """Returns the whole specification, in one or two sentences."""
    text = f"Write a function {signature(sketch)} that returns {_result(sketch)}"
    if sketch.ending is not None:
        text += f"; then {sketch.ending.words}"
    return f"{text}.{_guard(sketch)}"


def elements(sketch: Sketch) -> str:
    """Returns what the loop goes through: `the numbers of xs after the first 2`."""
    return f"the {_elements(sketch)}"


def test_in_words(sketch: Sketch, *, is_plural: bool) -> str:
    """Returns the conditions: `are even and greater than 3`; empty for none."""
    clauses = [
        plural(condition.words) if is_plural else condition.words
        for condition in sketch.conditions
    ]
    if not clauses:
        return ""
    first, *others = clauses
    verb = first.split(" ", 1)[0] + " "
    return f" {sketch.connective} ".join(
        [first, *(clause.removeprefix(verb) for clause in others)]
    )


def plural(clause: str) -> str:
    """Returns a clause in the third person for many.

    Example:
      >>> plural("starts with 'a'"), plural("is not 3")
      ("start with 'a'", 'are not 3')
    """
    verb, _, rest = clause.partition(" ")
    if rest.startswith("a "):
        article, noun, *others = rest.split(" ")
        rest = " ".join([f"{noun}s", *others])
    return f"{_PLURAL_VERBS[verb]} {rest}"


def change(sketch: Sketch) -> str:
    """Returns what becomes of an element: `squared`; empty for nothing."""
    if sketch.branch is not None:
        b = sketch.branch
        condition = b.condition.words
        return f"{b.mapping.words} if it {condition}, else {b.otherwise.words}"
    return "" if sketch.mapping is None else sketch.mapping.words


def _result(sketch: Sketch) -> str:
    if sketch.fold.gives == "truth":
        of = f"{elements(sketch)} {_predicate(sketch)}"
    else:
        of = elements(sketch)
        test = test_in_words(sketch, is_plural=True)
        adjective = test.removeprefix("are ")
        if adjective in _ADJECTIVES:
            of = of.replace("the ", f"the {adjective} ", 1)
        elif test:
            of += f" that {test}"
    if change(sketch):
        of += f", each {change(sketch)}"
    if sketch.stop is not None:
        of += f", stopping before the first that {sketch.stop.words}"
    return sketch.fold.words.replace("{m}", sketch.start).replace("{of}", of)


def _predicate(sketch: Sketch) -> str:
    return test_in_words(sketch, is_plural=sketch.fold_name == "all")


def _elements(sketch: Sketch) -> str:
    if sketch.argument != "n":
        words = f"{PLURALS[sketch.element]} of {sketch.argument}"
    elif sketch.source.code.startswith("map"):
        return "digits of n"
    else:
        words = "numbers"
    return f"{words} {sketch.source.words}".rstrip()


def _guard(sketch: Sketch) -> str:
    guard = sketch.guard
    if guard is None:
        return ""
    if sketch.argument == "n":
        return f" If n is less than {guard.size}, it returns {guard.value}."
    what = PLURALS[sketch.element]
    few = f"has fewer than {guard.size} {what}" if guard.size > 1 else "is empty"
    return f" If {sketch.argument} {few}, it returns {guard.value}."
