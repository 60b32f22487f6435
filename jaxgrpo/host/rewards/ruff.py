"""Ruff's opinion of the code, as a penalty."""

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxgrpo.host.judge.fences import parses
from jaxgrpo.host.judge.votes import PROGRAM_KINDS
from jaxgrpo.host.linting import SYNTAX_ERROR, Linter
from jaxgrpo.host.rewards.judged import Judged

FATAL, SERIOUS, LIGHT = 3, 2, 1
_FATAL_CODES = re.compile(r"E9\d*|F82\d+")
_SERIOUS_LINTERS = ("F", "B", "S", "PLE")
_LINTER = re.compile(r"[A-Z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Which rules count, and how many violations are too many."""

    select: tuple[str, ...] = ("E", "F", "W", "B", "S", "PLE")
    """Rules of Ruff, by their codes or the beginnings of these."""
    cap: float = 10.0
    """Sum of severities from which on the penalty is whole."""
    as_credit: bool = False
    """Count from 0 to 1 and not from -1 to 0. With a gate, which gives 0 to programs
    that fail, these are then never above one that passes."""

    def __post_init__(self) -> None:
        if not self.cap > 0:
            raise ValueError(f"cap {self.cap}. Set it above 0.")
        wrong = [code for code in self.select if not re.fullmatch(r"[A-Z]+\d*", code)]
        if wrong or not self.select:
            raise ValueError(
                f"select {list(self.select)}: rules have names such as E, F401 or B. "
                "Name at least one."
            )


def ruff(judged: Judged, settings: Settings) -> list[float]:
    """Returns minus the severity of what Ruff finds in each program, down to -1.

        r = -min(1, sum over violations of severity / cap)
        r = -1                            no program, or none that parses
        r + 1                             with as_credit

    with the severity from the rule's code, for Ruff has none of its own:

        3    syntax errors, E9.., F82.. (undefined names)
        2    F.., B.., S.., PLE..
        1    all others

    What is linted is the code that the scorer's extraction has found, nothing around
    it; a `# noqa` in it is ignored. An empty answer gets the whole penalty, or it would
    be the cleanest of all. A group is linted in one process of Ruff.

    Args:
      judged: Of a problem that asks for a program. For others it abstains.
      settings: Which rules count.

    Returns:
      Each in [-1, 0], or [0, 1] as credit; NaN to abstain, also where Ruff fails on a
      program.

    Reference:
      Skopin and Kotelnikov, Improving Small Language Models for Code Generation with
      Reinforcement Learning from Verification Feedback, 2026,
      https://arxiv.org/abs/2605.30478. Its formula, weights and severities were not at
      hand: these are our reading, r_test - w_lint * min(1, ...), with 0.2 for w_lint,
      which is the reward's weight. Ruff alone gave fewer violations and shorter
      programs there, and not more correct ones: combine it with `tests`.
    """
    if judged.problem.kind not in PROGRAM_KINDS:
        return [math.nan] * len(judged.verdicts)
    level = 1.0 if settings.as_credit else 0.0
    return [level + _penalty(row, settings) for row in _linted(judged, settings)]


def columns(judged: Judged, settings: Settings) -> list[Mapping[str, float]]:
    """Returns, for each completion, its violations by severity and by rule.

    `empty` and `unparsable` say where there was nothing to lint, `violations` counts
    all, `fatal`, `serious` and `light` those of each severity, and each code that
    occurs has its number under its own name.

    Args:
      judged: Of a problem that asks for a program.
      settings: Which rules count.
    """
    if judged.problem.kind not in PROGRAM_KINDS:
        return [{} for _ in judged.verdicts]
    return [_counts(row) for row in _linted(judged, settings)]


def check_installed(settings: Settings) -> None:
    """Raises where the reward cannot be computed on this machine.

    Args:
      settings: Which rules count.

    Raises:
      LinterMissingError: Ruff is not installed.
      ValueError: Ruff does not know one of the rules.
    """
    _linter(settings.select).violations([""])


def severity(code: str) -> int:
    """Returns how bad a violation of a rule is: 3, 2 or 1.

    Args:
      code: Of the rule.

    Example:
      >>> [severity(code) for code in ("F821", "E902", "F401", "B006", "E501", "SIM1")]
      [3, 3, 2, 2, 1, 1]
    """
    if code == SYNTAX_ERROR or _FATAL_CODES.fullmatch(code):
        return FATAL
    # By the linter's whole name: SIM and BLE are not S and B.
    linter = _LINTER.match(code)
    return SERIOUS if linter and linter[0] in _SERIOUS_LINTERS else LIGHT


class _Linted(NamedTuple):
    """What came of linting one completion's program."""

    outcome: Literal["linted", "failed", "unparsable", "empty"]
    codes: tuple[str, ...] = ()


def _linted(judged: Judged, settings: Settings) -> list[_Linted]:
    sources = [verdict.extracted for verdict in judged.verdicts]
    parsing = [source for source in dict.fromkeys(sources) if parses(source)]
    codes = _linter(settings.select).violations(parsing)
    of_source = dict(zip(parsing, codes, strict=True))

    def linted(source: str) -> _Linted:
        if not source.strip():
            return _Linted("empty")
        if source not in of_source:
            return _Linted("unparsable")
        found = of_source[source]
        return _Linted("failed") if found is None else _Linted("linted", found)

    return [linted(source) for source in sources]


def _penalty(row: _Linted, settings: Settings) -> float:
    if row.outcome == "failed":
        return math.nan
    if row.outcome != "linted":
        return -1.0
    return -min(1.0, sum(map(severity, row.codes)) / settings.cap)


def _counts(row: _Linted) -> dict[str, float]:
    severities = Counter(map(severity, row.codes))
    counts = {
        "empty": row.outcome == "empty",
        "unparsable": row.outcome == "unparsable",
        "violations": len(row.codes),
        "fatal": severities[FATAL],
        "serious": severities[SERIOUS],
        "light": severities[LIGHT],
        **Counter(row.codes),
    }
    return {name: float(number) for name, number in counts.items()}


@functools.cache
def _linter(select: tuple[str, ...]) -> Linter:
    """One for a process and its rules: it remembers what it has seen."""
    return Linter(select)
