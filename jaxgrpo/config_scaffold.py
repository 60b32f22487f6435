"""Which hints a data set has: tiers that would select nothing are refused."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

from jaxgrpo.host.hints import LITERAL_KINDS, OWN_TRACES, TIERS, hints_of
from jaxgrpo.host.records import Problem, ProblemKind

if TYPE_CHECKING:
    from jaxgrpo.config import Config

_WITH_HINTS = ("mini_programs", "file")
"""Data sets that may bring hints along."""
_TIERS_OF_VALUES = ("knowledge",)
"""Tiers that a reference which is a literal gives."""


def check_scaffold(config: "Config") -> None:
    """Refuses hints that no problem can have, or that cannot be answered.

    Args:
      config: Of a `grpo` run.

    Raises:
      ValueError: Says which, why, and what to change.
    """
    table, data = config.scaffold, config.data
    if not table.tiers or config.run.mode == "supervised":
        return
    kinds = _kinds(data.kinds)
    for tier in table.tiers:
        if tier in OWN_TRACES:
            if not kinds & set(LITERAL_KINDS):
                raise ValueError(
                    f"scaffold.tiers {tier!r} asks for the run of given code, and the "
                    f"problems of data.dataset {data.dataset!r} ask for programs. "
                    "Remove it."
                )
        elif table.source == "data" and data.dataset not in _WITH_HINTS:
            raise ValueError(
                f"scaffold.tiers {tier!r}: problems of data.dataset {data.dataset!r} "
                "bring no hints along. Set scaffold.source = 'reference' to derive "
                "them, or remove it."
            )
        elif (
            table.source == "reference"
            and tier not in _TIERS_OF_VALUES
            and kinds <= set(LITERAL_KINDS)
        ):
            raise ValueError(
                f"scaffold.tiers {tier!r}: references of data.dataset "
                f"{data.dataset!r} are values, which give hints of the tier "
                "'knowledge' alone. Remove it."
            )
    _check_source(config)
    _check_trace_can_be_written(config)


def check_hints(
    problems: Iterable[Problem], tiers: tuple[str, ...], source: str, where: str
) -> None:
    """Refuses tiers that no problem has a hint of.

    Args:
      problems: That a run draws from; gone through until each tier is found.
      tiers: As configured.
      source: Likewise.
      where: What the problems are, for messages.

    Raises:
      ValueError: Names the tiers, and what to change.
    """
    missing = dict.fromkeys(tiers)
    if not missing:
        return
    for problem in problems:
        for hint in hints_of(problem, tuple(missing), source):
            for tier in (hint.tier,) if hint.tier else TIERS:
                missing.pop(tier, None)
        if not missing:
            return
    names = ", ".join(map(repr, missing))
    remedy = (
        "Map hints in data.columns, set scaffold.source = 'reference',"
        if source == "data"
        else "Give references,"
    )
    raise ValueError(
        f"scaffold.tiers {names}: no problem of {where} has such a hint "
        f"(scaffold.source is {source!r}). {remedy} or remove the tier."
    )


def _kinds(names: str) -> set[ProblemKind]:
    known: tuple[ProblemKind, ...] = get_args(ProblemKind)
    return {kind for kind in known if names == "any" or kind in names.split(", ")}


def _check_source(config: "Config") -> None:
    source, tiers = config.scaffold.source, config.scaffold.tiers
    if source != "data" and not set(tiers) & set(TIERS):
        raise ValueError(
            f"scaffold.source {source!r} has no effect while scaffold.tiers is "
            f"{list(tiers)}, which needs no hints. Add a tier or remove it."
        )


def _check_trace_can_be_written(config: "Config") -> None:
    tiers = [tier for tier in config.scaffold.tiers if tier in OWN_TRACES]
    if not tiers:
        return
    sampling = config.sampling
    if sampling.constraint and not sampling.constraint_after:
        raise ValueError(
            f"scaffold.tiers {tiers[0]!r} asks for a trace before the answer, which "
            f"sampling.constraint {sampling.constraint!r} does not let a completion "
            "write. Set sampling.constraint_after, or remove the tier."
        )
    for text in sampling.stop:
        if text in "\n\n":
            raise ValueError(
                f"scaffold.tiers {tiers[0]!r} asks for several lines, and "
                f"sampling.stop {text!r} ends completions at the first. Remove one of "
                "them."
            )
