"""What specifications are made of: every part with its words, its code and its fact.

A part is written in two languages. Its words make the specification, its code the
reference; its fact is what a hint may say of it without any code. Where readers often
go wrong, `slip` is the code of the usual misreading.

Slots: `{k}` a number, `{d}` a divisor, `{p}` a small count, `{a}` a letter; `{v}` what
is gone through, `{r}` the result so far. How elements become a result stands in
`folds.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A building block of a specification."""

    code: str
    words: tuple[str, ...]
    """Ways of saying it. A predicate's begin with `is `, or with its own verb in the
    third person."""
    fact: str
    slip: str = ""
    """Code of the usual misreading; empty where there is none."""
    gives: str = ""
    """Type that a mapping turns the element into, or a fold returns; empty: the same
    as before."""


VARIABLES = {"number": "x", "letter": "c", "word": "w"}
"""Loop variable by type of the element."""

PLURALS = {"number": "numbers", "letter": "letters", "word": "words"}

ARGUMENTS = {"number": "xs", "letter": "s", "word": "ws"}

PREDICATES: dict[str, dict[str, Part]] = {
    "number": {
        "even": Part(
            code="x % 2 == 0",
            words=("is even",),
            fact="An even number leaves no remainder when it is divided by 2.",
        ),
        "odd": Part(
            code="x % 2 == 1",
            words=("is odd",),
            fact="An odd number leaves the remainder 1 when it is divided by 2.",
        ),
        "above": Part(
            code="x > {k}",
            words=("is greater than {k}", "is more than {k}"),
            fact="Greater than {k} leaves {k} itself out.",
            slip="x >= {k}",
        ),
        "below": Part(
            code="x < {k}",
            words=("is less than {k}", "is below {k}"),
            fact="Less than {k} leaves {k} itself out.",
            slip="x <= {k}",
        ),
        "least": Part(
            code="x >= {k}",
            words=("is at least {k}",),
            fact="At least {k} takes {k} itself in.",
            slip="x > {k}",
        ),
        "most": Part(
            code="x <= {k}",
            words=("is at most {k}",),
            fact="At most {k} takes {k} itself in.",
            slip="x < {k}",
        ),
        "other": Part(
            code="x != {k}",
            words=("is not {k}",),
            fact="Every number but {k} is not {k}.",
        ),
        "multiple": Part(
            code="x % {d} == 0",
            words=("is divisible by {d}", "is a multiple of {d}"),
            fact="A multiple of {d} leaves no remainder when it is divided by {d}.",
        ),
        "indivisible": Part(
            code="x % {d} != 0",
            words=("is not divisible by {d}",),
            fact="A multiple of {d} leaves no remainder when it is divided by {d}.",
        ),
        "positive": Part(
            code="x > 0",
            words=("is positive",),
            fact="Zero is not positive.",
            slip="x >= 0",
        ),
        "negative": Part(
            code="x < 0",
            words=("is negative",),
            fact="Zero is not negative.",
            slip="x <= 0",
        ),
        "remainder": Part(
            code="x % {d} == 1",
            words=("leaves remainder 1 when divided by {d}",),
            fact="The remainder is what the modulo operator gives.",
        ),
    },
    "letter": {
        "vowel": Part(
            code="c in 'aeiou'",
            words=("is a vowel",),
            fact="The vowels are a, e, i, o and u.",
        ),
        "consonant": Part(
            code="c not in 'aeiou'",
            words=("is a consonant",),
            fact="A consonant is a letter that is not a, e, i, o or u.",
        ),
        "after": Part(
            code="c > '{a}'",
            words=("comes after '{a}'",),
            fact="Letters compare by the alphabet; '{a}' does not come after itself.",
            slip="c >= '{a}'",
        ),
        "before": Part(
            code="c < '{a}'",
            words=("comes before '{a}'",),
            fact="Letters compare by the alphabet; '{a}' does not come before itself.",
            slip="c <= '{a}'",
        ),
        "other": Part(
            code="c != '{a}'",
            words=("is not '{a}'",),
            fact="Every letter but '{a}' is not '{a}'.",
        ),
    },
    "word": {
        "longer": Part(
            code="len(w) > {p}",
            words=("is longer than {p}", "has more than {p} letters"),
            fact="A word of {p} letters is not longer than {p}.",
            slip="len(w) >= {p}",
        ),
        "shorter": Part(
            code="len(w) < {p}",
            words=("is shorter than {p}", "has fewer than {p} letters"),
            fact="A word of {p} letters is not shorter than {p}.",
            slip="len(w) <= {p}",
        ),
        "least": Part(
            code="len(w) >= {p}",
            words=("has at least {p} letters",),
            fact="A word of {p} letters has at least {p} letters.",
            slip="len(w) > {p}",
        ),
        "starts": Part(
            code="w[0] == '{a}'",
            words=("starts with '{a}'",),
            fact="The first letter of a word is at position 0.",
        ),
        "ends": Part(
            code="w[-1] == '{a}'",
            words=("ends with '{a}'",),
            fact="The last letter of a word is at position -1.",
            slip="w[0] == '{a}'",
        ),
        "contains": Part(
            code="'{a}' in w",
            words=("contains '{a}'",),
            fact="Whether a text contains a letter is asked with `in`.",
        ),
        "lacks": Part(
            code="'{a}' not in w",
            words=("does not contain '{a}'",),
            fact="Whether a text lacks a letter is asked with `not in`.",
        ),
    },
}
"""Conditions on one element."""

MAPPINGS: dict[str, dict[str, Part]] = {
    "number": {
        "square": Part(
            code="x * x",
            words=("squared",),
            fact="The square of a number is its product with itself.",
        ),
        "plus": Part(
            code="x + {k}",
            words=("increased by {k}",),
            fact="Every number is changed before it is taken up.",
        ),
        "minus": Part(
            code="x - {k}",
            words=("decreased by {k}",),
            fact="Every number is changed before it is taken up.",
            slip="{k} - x",
        ),
        "times": Part(
            code="x * {k}",
            words=("multiplied by {k}",),
            fact="Every number is changed before it is taken up.",
        ),
        "half": Part(
            code="x // 2",
            words=("halved and rounded down",),
            fact="Rounding down is what whole-number division does.",
        ),
        "modulo": Part(
            code="x % {d}",
            words=("taken modulo {d}",),
            fact="Modulo is the remainder of a division.",
            slip="x // {d}",
        ),
        "negate": Part(
            code="-x",
            words=("negated",),
            fact="Negating a number turns its sign around.",
        ),
        "size": Part(
            code="abs(x)",
            words=("without its sign",),
            fact="A number without its sign is its absolute value.",
            slip="-x",
        ),
    },
    "letter": {
        "upper": Part(
            code="c.upper()",
            words=("in upper case",),
            fact="Texts have a method for upper case.",
        ),
        "twice": Part(
            code="c * 2",
            words=("written twice",),
            fact="A text times 2 is the text written twice.",
        ),
        "dash": Part(
            code="c + '-'",
            words=("followed by a dash",),
            fact="Texts are joined with plus.",
            slip="'-' + c",
        ),
    },
    "word": {
        "length": Part(
            code="len(w)",
            words=("replaced by its length",),
            fact="The length of a word counts its letters.",
            gives="number",
        ),
        "reverse": Part(
            code="w[::-1]",
            words=("written backwards",),
            fact="A slice with the step -1 goes backwards.",
        ),
        "upper": Part(
            code="w.upper()",
            words=("in upper case",),
            fact="Texts have a method for upper case.",
        ),
        "initial": Part(
            code="w[0]",
            words=("cut to its first letter",),
            fact="The first letter of a word is at position 0.",
            gives="letter",
        ),
        "mark": Part(
            code="w + '{a}'",
            words=("followed by '{a}'",),
            fact="Texts are joined with plus.",
            slip="'{a}' + w",
        ),
    },
}
"""What becomes of one element before it is taken up."""

PARTS: dict[str, Part] = {
    "skip": Part(
        code="{v}[{p}:]",
        words=("after the first {p}",),
        fact="A slice from {p} on leaves {p} elements out; positions begin at 0.",
        slip="{v}[{p} + 1:]",
    ),
    "head": Part(
        code="{v}[:{p}]",
        words=("among the first {p}",),
        fact="A slice up to {p} holds {p} elements; its end is not taken in.",
        slip="{v}[:{p} - 1]",
    ),
    "butlast": Part(
        code="{v}[:-1]",
        words=("except the last",),
        fact="The last element is at position -1.",
        slip="{v}[1:]",
    ),
    "even": Part(
        code="{v}[::2]",
        words=("at even positions",),
        fact="The first position is 0, which is even.",
        slip="{v}[1::2]",
    ),
    "odd": Part(
        code="{v}[1::2]",
        words=("at odd positions",),
        fact="The first position is 0, which is even.",
        slip="{v}[::2]",
    ),
    "backwards": Part(
        code="{v}[::-1]",
        words=("from last to first",),
        fact="A slice with the step -1 goes backwards.",
        slip="{v}",
    ),
}
"""Which elements of a list or text are gone through."""

RANGES: dict[str, Part] = {
    "one": Part(
        code="range(1, n + 1)",
        words=("from 1 to n",),
        fact="A range does not reach its end; to n means that n is taken in.",
        slip="range(1, n)",
    ),
    "zero": Part(
        code="range(n)",
        words=("from 0 up to but not including n",),
        fact="A range does not reach its end.",
    ),
    "from": Part(
        code="range({p}, n + 1)",
        words=("from {p} to n",),
        fact="A range does not reach its end; to n means that n is taken in.",
        slip="range({p}, n)",
    ),
    "down": Part(
        code="range(n, 0, -1)",
        words=("from n down to 1",),
        fact="A range with the step -1 goes down, and does not reach its end.",
        slip="range(n, 1, -1)",
    ),
}
"""Numbers that are gone through where the argument is a number."""

ENDINGS: dict[str, dict[str, Part]] = {
    "number": {
        "plus": Part(
            code="{r} + {k}",
            words=("add {k}",),
            fact="The result is changed once, after the loop.",
        ),
        "minus": Part(
            code="{r} - {k}",
            words=("subtract {k}",),
            fact="The result is changed once, after the loop.",
            slip="{k} - {r}",
        ),
        "times": Part(
            code="{r} * {k}",
            words=("multiply by {k}",),
            fact="The result is changed once, after the loop.",
        ),
        "negate": Part(
            code="-{r}",
            words=("negate it",),
            fact="Negating a number turns its sign around.",
        ),
        "modulo": Part(
            code="{r} % {d}",
            words=("take it modulo {d}",),
            fact="Modulo is the remainder of a division.",
            slip="{r} // {d}",
        ),
        "cap": Part(
            code="min({r}, {k})",
            words=("cap it at {k}",),
            fact="A capped number is the smaller one of itself and the cap.",
            slip="max({r}, {k})",
        ),
    },
    "list": {
        "reverse": Part(
            code="{r}[::-1]",
            words=("reverse it",),
            fact="A slice with the step -1 goes backwards.",
        ),
        "sort": Part(
            code="sorted({r})",
            words=("sort it",),
            fact="Sorting is from small to large.",
        ),
        "head": Part(
            code="{r}[:{p}]",
            words=("keep the first {p}",),
            fact="A slice up to {p} holds {p} elements.",
            slip="{r}[:{p} - 1]",
        ),
        "drop": Part(
            code="{r}[{p}:]",
            words=("drop the first {p}",),
            fact="A slice from {p} on leaves {p} elements out.",
            slip="{r}[{p} + 1:]",
        ),
    },
    "text": {
        "reverse": Part(
            code="{r}[::-1]",
            words=("write it backwards",),
            fact="A slice with the step -1 goes backwards.",
        ),
        "twice": Part(
            code="{r} * 2",
            words=("write it twice",),
            fact="A text times 2 is the text written twice.",
        ),
        "head": Part(
            code="{r}[:{p}]",
            words=("keep the first {p} letters",),
            fact="A slice up to {p} holds {p} letters.",
            slip="{r}[:{p} - 1]",
        ),
    },
}
"""What becomes of the result at the end."""
