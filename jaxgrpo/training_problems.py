"""The problems that a run draws from: a split, without what a model has no use for."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config
from jaxgrpo.config_scaffold import check_hints
from jaxgrpo.console import Console
from jaxgrpo.host.records import Problem
from jaxgrpo.problems.pass_rates import read_pass_rates
from jaxgrpo.problems.selection import UNMEASURED, KeepRules, KeptProblems, select
from jaxgrpo.reach import unreached
from jaxgrpo.run_folder import KEPT_PROBLEMS, write_json

_MOST_SHOWN = 12
"""Of names in a message."""


def training_problems(
    config: Config, folder: Path, console: Console
) -> Sequence[Problem]:
    """The problems of the split that training draws from, as `data.difficulty` says.

    Args:
      config: Of the run.
      folder: Of the run, which records what was kept.
      console: Shows the counts.

    Raises:
      ValueError: There are fewer problems than are drawn at a time; or the file of
        pass rates is missing, malformed, of other problems or not the one that the
        run began with, or too few problems are kept; or no problem has a hint of a
        tier that is to be tried, is of a level of the curriculum, or comes round while
        what would be replayed is still stored.
    """
    data, report = config.data, console.counter("preparing problems")
    problems = problems_of(data, data.split, report=report)
    field, num_needed = config.drawn_problems
    if num_needed > len(problems):
        raise ValueError(
            f"{field} {num_needed} is more than the {len(problems)} problems that the "
            f"split {data.split!r} of {data.dataset} has. Lower {field}."
        )
    if data.difficulty:
        problems = _kept(config, problems, num_needed, folder, console)
    scaffold = config.scaffold
    where = f"the split {data.split!r} of {data.dataset}"
    check_hints(problems, scaffold.tiers, scaffold.source, where)
    check_levels(problems, config.curriculum.order, config.curriculum.tag, where)
    for text in unreached(config, len(problems)):
        console.warn(text)
    return problems


def check_levels(
    problems: Iterable[Problem], order: tuple[str, ...], tag: str, where: str
) -> None:
    """Refuses levels of a curriculum that no problem is of.

    Args:
      problems: That a run draws from; gone through until each level is found.
      order: As configured.
      tag: Likewise.
      where: What the problems are, for messages.

    Raises:
      ValueError: Names the levels, those that there are, and what to change.
    """
    missing, found, tags = dict.fromkeys(order), set[str](), set[str]()
    if not missing:
        return
    for problem in problems:
        tags |= problem.tags.keys()
        if tag in problem.tags:
            found.add(problem.tags[tag])
            missing.pop(problem.tags[tag], None)
        if not missing:
            return
    if not found:
        raise ValueError(
            f"curriculum.tag {tag!r}: no problem of {where} has such a tag; tags are: "
            f"{_listed(tags)}. Set curriculum.tag to one of them."
        )
    raise ValueError(
        f"curriculum.order names {', '.join(map(repr, missing))}, and no problem of "
        f"{where} has such a tag {tag!r}; its values are: {_listed(found)}. Correct "
        "the level or remove it."
    )


def _listed(names: set[str]) -> str:
    """The names, the first of many."""
    shown = sorted(names)[:_MOST_SHOWN]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "") or "none"


def _kept(
    config: Config,
    problems: Sequence[Problem],
    num_needed: int,
    folder: Path,
    console: Console,
) -> Sequence[Problem]:
    """Those that `data.difficulty` keeps."""
    data = config.data
    path = Path(data.difficulty).expanduser()
    rates, provenance = read_pass_rates(path)
    rules = KeepRules(
        solved=data.keep_solved,
        partly_solved=data.keep_partly_solved,
        unsolved=data.keep_unsolved,
        max_unsolved=data.max_unsolved,
    )
    by_id = {rate.problem_id: rate for rate in rates}
    selection = select([problem.id for problem in problems], by_id, rules)
    p = provenance
    if selection.num_found[UNMEASURED] == len(problems):
        raise ValueError(
            f"data.difficulty {data.difficulty}: it has none of the {len(problems)} "
            f"problems of {data.dataset} {data.split}; it is of {p.dataset} {p.split}. "
            "Measure these: jaxgrpo data rate."
        )
    if len(selection.places) < num_needed:
        raise ValueError(
            f"data.difficulty {data.difficulty}: {selection.text()}; a batch needs "
            f"{num_needed}. Raise data.keep_partly_solved or data.keep_solved, or "
            "lower the problems of a batch."
        )
    _record(folder / KEPT_PROBLEMS, path, dict(selection.num_kept))
    console.note(f"{selection.text()} (by {p.source}, {p.num_samples} samples each).")
    return KeptProblems(problems, selection.places)


def _record(path: Path, pass_rates: Path, num_kept: dict[str, int]) -> None:
    """Notes what was kept, or refuses a file that has changed since the run began."""
    digest = hashlib.sha256(pass_rates.read_bytes()).hexdigest()
    record = {"pass_rates": str(pass_rates), "sha256": digest, "kept": num_kept}
    if path.exists() and json.loads(path.read_text())["sha256"] != digest:
        raise ValueError(
            f"data.difficulty {pass_rates} has changed since the run began, so other "
            "problems would be kept. Restore it, or start a new run."
        )
    write_json(path, record)
