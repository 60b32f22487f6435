"""How elements become a result: in words, in code, and as steps of a plan.

Slots: `{of}` the elements in words, `{it}` one of them; `{e}` the code of one; `{m}`
what a fold starts from or falls back to.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """How the elements become the result."""

    words: str
    """With `{of}` where the elements are named."""
    gives: str
    """`number`, `list`, `text`, `truth`, `table` or `element`."""
    start: tuple[str, ...] = ()
    """Lines before the loop."""
    update: tuple[str, ...] = ()
    """Lines for one element."""
    end: str = ""
    """What is returned when the loop is over."""
    idiom: str = ""
    """The same without a loop: over `{all}` (`x for x in xs`), their `{list}`, `{ones}`
    (`1 for x in xs`) or a `{test}` of each; empty where none is common."""
    plan: tuple[str, str, str] = ("", "", "")
    """What is done before the loop, for an element, and at the end, in words."""
    fact: str = ""
    """What a hint says of it."""
    maps: bool = True
    """Whether the value of an element matters, so that it can be mapped."""
    has_start: bool = False
    """Whether the specification says what it starts from or falls back to, `{m}`."""
    slip: tuple[str, str] = ("", "")
    """A careless reader writes the second for the first."""


FOLDS: dict[str, Fold] = {
    "sum": Fold(
        words="the sum of {of}",
        gives="number",
        start=("total = 0",),
        update=("total += {e}",),
        end="total",
        idiom="sum({all})",
        plan=("Start a total at 0.", "Add {it} to the total.", "Return the total"),
        fact="A sum of nothing is 0.",
    ),
    "count": Fold(
        words="the count of {of}",
        gives="number",
        start=("count = 0",),
        update=("count += 1",),
        end="count",
        idiom="sum({ones})",
        plan=("Start a count at 0.", "Raise the count by 1.", "Return the count"),
        fact="A count goes up by 1, whatever the value.",
        maps=False,
    ),
    "product": Fold(
        words="the product of {of}",
        gives="number",
        start=("total = 1",),
        update=("total *= {e}",),
        end="total",
        plan=("Start a product at 1.", "Multiply it by {it}.", "Return the product"),
        fact="A product of nothing is 1.",
        slip=("total = 1", "total = 0"),
    ),
    "largest": Fold(
        words="the largest among {m} and {of}",
        gives="number",
        start=("best = {m}",),
        update=("best = max(best, {e})",),
        end="best",
        plan=("Start with {m}.", "Keep the larger one.", "Return it"),
        fact="The result is never less than the number that one starts with.",
        has_start=True,
        slip=("best = {m}", "best = 0"),
    ),
    "smallest": Fold(
        words="the smallest among {m} and {of}",
        gives="number",
        start=("best = {m}",),
        update=("best = min(best, {e})",),
        end="best",
        plan=("Start with {m}.", "Keep the smaller one.", "Return it"),
        fact="The result is never more than the number that one starts with.",
        has_start=True,
        slip=("best = {m}", "best = 0"),
    ),
    "first": Fold(
        words="the first of {of}, or {m} if there is none",
        gives="element",
        update=("return {e}",),
        end="{m}",
        plan=("", "Return {it} at once.", "Return {m}"),
        fact="Only when the loop is over is it known that there is none.",
        has_start=True,
        slip=("return {m}", "return 0"),
    ),
    "last": Fold(
        words="the last of {of}, or {m} if there is none",
        gives="element",
        start=("last = {m}",),
        update=("last = {e}",),
        end="last",
        plan=("Start with {m}.", "Remember {it}.", "Return what is remembered"),
        fact="Later elements replace earlier ones.",
        has_start=True,
        slip=("last = {m}", "last = 0"),
    ),
    "list": Fold(
        words="a list of {of}",
        gives="list",
        start=("result = []",),
        update=("result.append({e})",),
        end="result",
        idiom="{list}",
        plan=("Start an empty list.", "Append {it}.", "Return the list"),
        fact="A list grows at its end, so the order is kept.",
    ),
    "running": Fold(
        words="a list of the running sums of {of}",
        gives="list",
        start=("total = 0", "result = []"),
        update=("total += {e}", "result.append(total)"),
        end="result",
        plan=(
            "Start a total at 0 and an empty list.",
            "Add {it} to the total, and append the total.",
            "Return the list",
        ),
        fact="A running sum is the total after each element.",
    ),
    "distinct": Fold(
        words="a list of {of}, without repeats",
        gives="list",
        start=("result = []",),
        update=("if {e} not in result:", "    result.append({e})"),
        end="result",
        plan=(
            "Start an empty list.",
            "Append {it} unless the list has it.",
            "Return the list",
        ),
        fact="What is in the list already is not appended again.",
    ),
    "join": Fold(
        words="a string of {of}",
        gives="text",
        start=("result = ''",),
        update=("result += {e}",),
        end="result",
        idiom="''.join({all})",
        plan=("Start an empty string.", "Add {it} at its end.", "Return the string"),
        fact="A string grows by plus.",
    ),
    "table": Fold(
        words="a dictionary that counts {of}",
        gives="table",
        start=("counts = {{}}",),
        update=("counts[{e}] = counts.get({e}, 0) + 1",),
        end="counts",
        plan=(
            "Start an empty dictionary.",
            "Raise the count of {it} by 1.",
            "Return the dictionary",
        ),
        fact="What has not been met yet counts 0.",
    ),
    "any": Fold(
        words="whether any of {of}",
        gives="truth",
        update=("return True",),
        end="False",
        idiom="any({test})",
        plan=("", "Return True at once.", "Return False"),
        fact="Of nothing, none is so: the answer is False.",
        maps=False,
    ),
    "all": Fold(
        words="whether all of {of}",
        gives="truth",
        update=("return False",),
        end="True",
        idiom="all({test})",
        plan=("", "Return False at once.", "Return True"),
        fact="Of nothing, all are so: the answer is True.",
        maps=False,
    ),
}
"""What is made of the elements."""
