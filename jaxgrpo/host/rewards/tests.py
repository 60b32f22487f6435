"""Rewards from the tests that a program passed: all of them, or a share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxgrpo.host.records import Verdict
from jaxgrpo.host.rewards.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What part of the tests is paid for."""

    mode: Literal["binary", "pass_rate", "reweighted"] = "binary"
    """`binary`: all or nothing. `pass_rate`: the share passed. `reweighted`: the share,
    tests that the group seldom passes counting more."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r}. Use one of {', '.join(MODES)}.")


def tests(judged: Judged, settings: Settings) -> list[float]:
    """Returns what each completion earns by the tests it passed, in [0, 1].

    The modes are `binary`, `pass_rate` and `reweighted`, functions of this module. All
    give 1 to a program that passes every test, and agree on what earns 0: no program,
    or one that passes none. A change from one mode to another in the middle of a run
    (the source's two stages, pass rate and then binary) is a schedule between two
    rewards of kind `tests`.

    Args:
      judged: Its verdicts decide. Tests that were left out count as not passed, which
        is why modes other than `binary` need `scorer.stop_at_failure = false`.
      settings: Which mode.

    Reference:
      Pass-rate rewards, 2026, https://arxiv.org/abs/2605.02944. The pass rate does not
      beat the binary reward there (Qwen3-4B, pass@1 44.2 against 46.4): groups without
      a full pass push in conflicting directions. Hence the default.
    """
    return MODES[settings.mode](judged)


def binary(judged: Judged) -> list[float]:
    """Returns 1 for each program that passed all its tests, else 0.

        r = [every test passed]

    Args:
      judged: Its verdicts decide.
    """
    return [1.0 if verdict.is_correct else 0.0 for verdict in judged.verdicts]


def pass_rate(judged: Judged) -> list[float]:
    """Returns the share of the tests that each program passed; NaN without tests.

        r = passed / all

    Args:
      judged: Its verdicts decide.
    """
    return [
        verdict.num_passed / verdict.num_tests if verdict.num_tests else math.nan
        for verdict in judged.verdicts
    ]


def reweighted(judged: Judged) -> list[float]:
    """Returns the share passed, each test weighted by how seldom the group passes it.

        w_j = 1 - (share of the group that passed test j)
        r   = sum_j w_j [passed j] / sum_j w_j

    Where the whole group passes everything all weights would be 0: the plain pass rate
    is returned.

    Args:
      judged: The verdicts of one group, which is the batch that a share is taken over.
        Every row counts, also where equal programs share one verdict; rows without a
        decision do not.

    Reference:
      Pass-rate rewards, 2026, https://arxiv.org/abs/2605.02944. The weights' formula is
      not given there. This is our reading, with the group in place of the batch, for
      tests of other problems say nothing about these.
    """
    decided = [verdict for verdict in judged.verdicts if verdict.status != "INFRA"]
    num_tests = max((verdict.num_tests for verdict in decided), default=0)
    rows = [_passed_tests(verdict, num_tests) for verdict in judged.verdicts]
    passed = [flags for flags in rows if flags is not None]
    weights = [
        1.0 - sum(flags[j] for flags in passed) / len(passed) for j in range(num_tests)
    ]
    if not any(weights):
        return pass_rate(judged)
    return [
        math.nan if flags is None else _weighted_share(flags, weights) for flags in rows
    ]


def _passed_tests(verdict: Verdict, num_tests: int) -> list[bool] | None:
    """Whether each test passed; None without a decision, those not run did not."""
    if verdict.status == "INFRA":
        return None
    flags = [status == "OK" for status in verdict.test_statuses]
    return flags + [False] * (num_tests - len(flags))


def _weighted_share(flags: list[bool], weights: list[float]) -> float:
    gained = math.fsum(w for w, flag in zip(weights, flags, strict=True) if flag)
    return gained / math.fsum(weights)


MODES: dict[str, Callable[[Judged], list[float]]] = {
    "binary": binary,
    "pass_rate": pass_rate,
    "reweighted": reweighted,
}
"""By the name that the configuration gives them."""
