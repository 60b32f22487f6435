"""`jaxgrpo data check`: runs every reference solution through the judge."""

import json
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jaxgrpo.config import ScorerConfig
from jaxgrpo.console import Console
from jaxgrpo.data_command.settings import config_of_name
from jaxgrpo.data_command.showing import shortened
from jaxgrpo.data_command.tables import show_table
from jaxgrpo.host.json_rows import completion_of, row_of_verdict
from jaxgrpo.host.records import Group, Problem, Verdict
from jaxgrpo.host.scorer import ScoreFuture, Scorer
from jaxgrpo.problems.datasets import load_splits
from jaxgrpo.scorer_setup import build_scorer

AHEAD = 128
"""Problems handed over before the first of their verdicts is waited for."""
LONGEST_REASON = 300
MAX_LISTED = 50
"""Failures listed; --out has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A problem whose own reference does not pass."""

    problem_id: str
    split: str
    verdict: Verdict
    reason: str


def check_data_set(
    name: str,
    overrides: Sequence[str],
    *,
    split: str | None = None,
    limit: int = 0,
    out: Path | None = None,
) -> bool:
    """Judges the references of a data set, and lists those that fail, with the reason.

    Args:
      name: A data set, or a configuration.
      overrides: `data.FIELD=VALUE` and `scorer.FIELD=VALUE` each.
      split: Which; None for all.
      limit: Problems of each split; 0 for all.
      out: Failures as JSON Lines; or None.

    Returns:
      Whether all references pass.

    Raises:
      ValueError: The data set is not here or is malformed, or no problem has a
        reference.
    """
    config = config_of_name(name, overrides)
    with ExitStack() as stack:
        file = stack.enter_context(out.open("w", encoding="utf-8")) if out else None
        scorer = stack.enter_context(build_scorer(as_written(config.scorer), []))
        progress = stack.enter_context(Console("auto", 1, stream=sys.stderr))
        splits = load_splits(
            config.data, progress.counter(f"preparing {config.data.dataset}")
        )
        chosen = _chosen(splits, split, limit)
        verdicts = _verdicts(chosen, scorer, progress)
        counts, failures, num_hinted = _counted(verdicts, file)
    num_without = sum(map(len, chosen.values())) - counts.total()
    if not counts:
        raise ValueError(
            f"{name}: none of {num_without} problems has a reference, so there is "
            "nothing to check."
        )
    _show(counts, failures, num_without)
    if num_hinted:
        tiers = ", ".join(f"{tier} {number:,}" for tier, number in num_hinted.items())
        print(f"Of {counts.total():,} problems these have hints: {tiers}.")
    return not failures


def as_written(settings: ScorerConfig) -> ScorerConfig:
    """Returns settings by which the whole text is the answer, as references are."""
    rules = {"extraction": "raw", "literal_extraction": "whole"}
    return settings.model_copy(update=rules)


def _chosen(
    splits: Mapping[str, Sequence[Problem]], split: str | None, limit: int
) -> dict[str, Sequence[Problem]]:
    if split is not None and split not in splits:
        raise ValueError(
            f"there is no split {split!r}. Choose one of {', '.join(splits)}."
        )
    wanted = splits if split is None else {split: splits[split]}
    return {name: found[:limit] if limit else found for name, found in wanted.items()}


def _verdicts(
    splits: Mapping[str, Sequence[Problem]], scorer: Scorer, progress: Console
) -> Iterator[tuple[str, Problem, Verdict]]:
    """Verdicts on the references that there are, a bounded number at a time."""
    total, done = sum(map(len, splits.values())), 0
    report = progress.counter("checking references")
    waiting: deque[tuple[str, Problem, ScoreFuture]] = deque()
    for split, problems in splits.items():
        for problem in problems:
            if problem.reference:
                waiting.append((split, problem, _submitted(problem, scorer)))
            else:
                done += 1
            if len(waiting) >= AHEAD:
                yield _judged(*waiting.popleft())
                done += 1
            report(done, total)
    while waiting:
        yield _judged(*waiting.popleft())
        done += 1
        report(done, total)


def _submitted(problem: Problem, scorer: Scorer) -> ScoreFuture:
    completion = completion_of(problem.id, problem.reference)
    group = Group(problem=problem, prompts=(), completions=(completion,))
    return scorer.submit(group)


def _judged(
    split: str, problem: Problem, future: ScoreFuture
) -> tuple[str, Problem, Verdict]:
    (score,) = future.result()
    assert score.verdict is not None, "the scorer always gives a verdict"
    return split, problem, score.verdict


def _counted(
    verdicts: Iterator[tuple[str, Problem, Verdict]], file: IO[str] | None
) -> tuple[Counter[tuple[str, str, str]], list[Failure], Counter[str]]:
    """Verdicts, failures, and problems that have hints of a tier."""
    num_hinted: Counter[str] = Counter()
    counts: Counter[tuple[str, str, str]] = Counter()
    failures: list[Failure] = []
    for split, problem, verdict in verdicts:
        counts[split, verdict.status, verdict.error_class] += 1
        untiered = ("of no tier",) if problem.hints else ()
        num_hinted.update(dict.fromkeys(problem.hint_tiers or untiered, 1))
        if verdict.is_correct:
            continue
        failure = Failure(
            problem_id=problem.id,
            split=split,
            verdict=verdict,
            reason=reason_of(verdict),
        )
        failures.append(failure)
        if file is not None:
            head = {"problem_id": problem.id, "split": split, "reason": failure.reason}
            file.write(json.dumps(head | row_of_verdict(verdict)) + "\n")
    return counts, failures, num_hinted


def reason_of(verdict: Verdict) -> str:
    """Returns why a verdict is what it is, in a line.

    Args:
      verdict: On a program or an answer that is not right.
    """
    for number, result in enumerate(verdict.results, start=1):
        if result.status == "OK":
            continue
        exception = result.exception
        raised = f"{exception.type_name}: {exception.message}" if exception else ""
        parts = (raised, result.detail)
        why = "; ".join(filter(None, dict.fromkeys(parts))) or result.error_class
        return f"test {number} of {verdict.num_tests}: {_one_line(why)}"
    return _one_line(verdict.detail or verdict.error_class)


def _one_line(text: str) -> str:
    return shortened(" ".join(text.split()), LONGEST_REASON)


def _show(
    counts: Counter[tuple[str, str, str]],
    failures: Sequence[Failure],
    num_without: int,
) -> None:
    rows = [
        (split, status, error_class, f"{number:,}")
        for (split, status, error_class), number in counts.most_common()
    ]
    show_table(("split", "verdict", "class", "references"), rows, num_right=1)
    if num_without:
        print(f"{num_without:,} problems have no reference and were not checked.")
    if not failures:
        print(f"All {counts.total():,} references pass.")
        return
    print(f"{len(failures):,} of {counts.total():,} references do not pass:")
    for failure in failures[:MAX_LISTED]:
        status = failure.verdict.status
        print(f"  {failure.problem_id} ({failure.split}): {status}: {failure.reason}")
    if len(failures) > MAX_LISTED:
        print(f"  ... and {len(failures) - MAX_LISTED:,} more; --out FILE has all.")
