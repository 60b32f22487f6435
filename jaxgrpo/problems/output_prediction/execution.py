"""Drafts in, examples out: the sandbox says what each call returns."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxgrpo.host.records import Execution, Limits, Program
from jaxgrpo.problems.output_prediction.generator import Draft

MAX_PROMPT_CHARS = 220
"""Characters of the function and its call."""
MAX_ANSWER_CHARS = 26
MAX_ANSWER_SYMBOLS = 22
"""Characters of an answer without the blanks after commas and colons: a bound on its
tokens."""

_DRIVER = Path(__file__).with_name("driver.py").read_text(encoding="utf-8")
_LIMITS = Limits(cpu_s=30.0, wall_s=300.0)
"""Generous: the driver bounds each draft by its number of statements, so that the
result does not depend on how fast the machine is. These only stop what escapes it."""

Run = Callable[[Program], Execution]
"""Runs a program in a sandbox."""


@dataclass(frozen=True, slots=True)
class Example:
    """A function, a call of it, and what the call returns."""

    code: str
    call: str
    answer: str
    """`repr` of the returned value."""
    output_type: str
    """Name of the returned value's type."""
    difficulty: str
    """One of `generator.LEVELS`."""
    executed_lines: int
    """Statements that the call executed; a loop's header counts once."""


def examples_of(drafts: Sequence[Draft], run: Run) -> list[Example]:
    """Returns an example for each draft that makes a good problem, in order.

    Dropped are drafts that raise, run too long, return None or are long to read or
    to answer.

    Args:
      drafts: What to execute; all share one run of the sandbox.
      run: The sandbox.

    Raises:
      RuntimeError: The sandbox itself failed.
    """
    short = [d for d in drafts if len(d.code) + len(d.call) <= MAX_PROMPT_CHARS]
    outcomes = _outcomes(short, run)
    return [
        Example(draft.code, draft.call, answer, type_name, draft.level, executed)
        for draft, (answer, type_name, executed) in zip(short, outcomes, strict=True)
        if type_name not in ("", "NoneType") and _is_short(answer)
    ]


def _is_short(answer: str) -> bool:
    blanks = answer.count(", ") + answer.count(": ")
    return (
        len(answer) <= MAX_ANSWER_CHARS and len(answer) - blanks <= MAX_ANSWER_SYMBOLS
    )


def _outcomes(drafts: Sequence[Draft], run: Run) -> list[tuple[str, str, int]]:
    """Returns (repr, type name, executed lines) by draft; an empty type: it failed.

    A batch that dies, by a draft that hits a limit, is halved until that draft is
    alone.
    """
    items = [[draft.code, draft.call] for draft in drafts]
    execution = run(
        Program(
            source=_DRIVER,
            stdin=json.dumps(items),
            limits=_LIMITS,
        )
    )
    if execution.status == "INFRA":
        raise RuntimeError(
            f"the sandbox failed while the data set was built: {execution.reason}. "
            "Run `jaxgrpo doctor` to see what it can use on this machine."
        )
    if execution.status == "OK":
        found = json.loads(execution.stdout)
        return [("", "", 0) if one is None else tuple(one) for one in found]
    if len(drafts) == 1:
        return [("", "", 0)]
    middle = len(drafts) // 2
    return _outcomes(drafts[:middle], run) + _outcomes(drafts[middle:], run)
