"""`jaxgrpo score`: the judge for a person. Files in, verdicts out; loads no jax."""

import itertools
import json
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from jaxgrpo.config import ScorerConfig
from jaxgrpo.console import Console
from jaxgrpo.host.json_rows import (
    CompletionRow,
    read_completions,
    read_problems,
    row_of_rewards,
    row_of_verdict,
)
from jaxgrpo.host.judge import INFRA_CLASS
from jaxgrpo.host.judge.programs import untrusted_reason
from jaxgrpo.host.records import Group, Problem, Score, Verdict
from jaxgrpo.host.rewards.gate import Gate, gated
from jaxgrpo.host.scorer import ScoreFuture, Scorer
from jaxgrpo.host.stored_tests import tests_of
from jaxgrpo.report.evaluation_table import TextTable, markdown
from jaxgrpo.reward_setup import reward_gates, reward_specs
from jaxgrpo.score_rewards import (
    MOST_SHOWN,
    Choice,
    chosen,
    completions_table,
    reward_table,
)
from jaxgrpo.scorer_setup import build_scorer

GROUP_SIZE = 8
"""Completions of one problem that a worker is given at a time."""
GROUPS_AHEAD = 128
"""Groups handed over before the first of their verdicts is waited for."""
OUT_SUFFIXES = (".jsonl", ".parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One completion and what became of it."""

    row: CompletionRow
    problem: Problem
    verdict: Verdict
    score: Score = Score(rewards={})
    """With the rewards that were asked for."""


def score(
    problems_file: Path,
    completions_file: Path,
    overrides: Sequence[str] = (),
    *,
    out: Path | None = None,
    trusts_asserts: bool = False,
    rewards: Sequence[str] = (),
    config: str = "",
) -> list[Judged]:
    """Judges completions, and shows how many came to which end, and what they earn.

    Args:
      problems_file: JSON Lines; `host/json_rows.py` has the fields.
      completions_file: Likewise.
      overrides: Changes to the tables `scorer` and `rewards`, as
        `scorer.FIELD=VALUE` and `rewards.NAME.FIELD=VALUE`.
      out: Verdicts as JSON Lines or Parquet, one row per completion in order; or None.
      trusts_asserts: Whether to run asserts that cannot be kept apart from the program
        in its process, where it can forge their outcome.
      rewards: Rewards to compute: names, or functions as `path/to/file.py:name`.
      config: Configuration whose `scorer` and `rewards` are taken; empty for the
        defaults.

    Returns:
      What the table counts.

    Raises:
      ValueError: A file, field or override is wrong.
      RuntimeError: More of the rows than `scorer.max_error_share` could not be judged.
    """
    choice = chosen(rewards, config, overrides)
    if out is not None and out.suffix not in OUT_SUFFIXES:
        raise ValueError(f"--out {out}: end its name in {' or '.join(OUT_SUFFIXES)}.")
    if out is not None and out.exists():
        raise ValueError(
            f"--out {out}: there is such a file already. Remove it or choose another."
        )
    problems = {problem.id: problem for problem in read_problems(problems_file)}
    rows = read_completions(completions_file, problems)
    untrusted = {
        p.id: reason for p in problems.values() if (reason := untrusted_reason(p))
    }
    if trusts_asserts:
        problems |= {name: _trusting(problems[name]) for name in untrusted}
    with ExitStack() as stack:
        writer = stack.enter_context(_Writer(out))
        specs = reward_specs(choice.rewards)
        scorer = stack.enter_context(build_scorer(choice.scorer, specs))
        console = stack.enter_context(Console("auto", 1, stream=sys.stderr))
        report = console.counter("scoring")
        judged: list[Judged] = []
        gates = reward_gates(choice.rewards)
        for found in verdicts(rows, problems, scorer, whole_groups=bool(specs)):
            found = _as_counted(found, gates, choice.shown)
            judged.append(found)
            writer.write(found)
            report(len(judged), len(rows))
        outputs = scorer.take_outputs()
    for line in summary_lines(judged) + _reward_lines(judged, choice):
        print(line)
    for name, text in outputs.items():
        print(f"rewards.{name} wrote (shown once):\n{text}", file=sys.stderr)
    _tell_untrusted(untrusted, trusts_asserts=trusts_asserts)
    _check_share(judged, choice.scorer)
    return judged


def verdicts(
    rows: Sequence[CompletionRow],
    problems: Mapping[str, Problem],
    scorer: Scorer,
    *,
    whole_groups: bool = False,
) -> Iterator[Judged]:
    """Yields the verdict on each completion, in order.

    Args:
      rows: Completions.
      problems: By id.
      scorer: Judges them, a bounded number at a time.
      whole_groups: Whether all completions of a problem that follow each other are
        judged together, for rewards that compare them.
    """
    waiting: deque[tuple[Sequence[CompletionRow], Problem, ScoreFuture]] = deque()
    for batch in _batches(rows, len(rows) if whole_groups else GROUP_SIZE):
        problem = problems[batch[0].completion.problem_id]
        completions = tuple(row.completion for row in batch)
        group = Group(problem=problem, prompts=(), completions=completions)
        waiting.append((batch, problem, scorer.submit(group)))
        if len(waiting) >= GROUPS_AHEAD:
            yield from _judged(*waiting.popleft())
    while waiting:
        yield from _judged(*waiting.popleft())


def _batches(rows: Sequence[CompletionRow], size: int) -> Iterator[list[CompletionRow]]:
    for _, same in itertools.groupby(rows, lambda row: row.completion.problem_id):
        while batch := list(itertools.islice(same, size)):
            yield batch


def _judged(
    batch: Sequence[CompletionRow], problem: Problem, future: ScoreFuture
) -> Iterator[Judged]:
    for row, found in zip(batch, future.result(), strict=True):
        assert found.verdict is not None, "the scorer always gives a verdict"
        yield Judged(row=row, problem=problem, verdict=found.verdict, score=found)


def _as_counted(
    judged: Judged, gates: Mapping[str, Gate], shown: Sequence[str]
) -> Judged:
    """With the rewards that were asked for, after their gates."""
    counted = gated(judged.score.rewards, gates)
    rewards = {name: counted[name] for name in shown}
    return replace(judged, score=replace(judged.score, rewards=rewards))


def _trusting(problem: Problem) -> Problem:
    tests = tuple(replace(test, is_inside=True) for test in tests_of(problem))
    return replace(problem, tests=tests)


# Tables


def _reward_lines(judged: Sequence[Judged], choice: Choice) -> list[str]:
    """What the rewards came to, where any were asked for."""
    lines = [
        f"rewards.{name} is only computed in a run; it is left out."
        for name in choice.left_out
    ]
    if not choice.shown:
        return lines
    scores = [found.score for found in judged]
    texts = [found.row.completion.text for found in judged]
    lines.append(markdown(reward_table(scores, choice.shown)))
    lines.append(markdown(completions_table(scores, texts, choice.shown)))
    if len(judged) > MOST_SHOWN:
        lines.append(
            f"and {len(judged) - MOST_SHOWN:,} more completions; --out FILE has all."
        )
    return lines


def summary_lines(judged: Sequence[Judged]) -> list[str]:
    """Returns what came of the completions: a line of totals, then tables.

    Rates leave out completions that were not decided (INFRA).

    Args:
      judged: At least one.
    """
    decided = [found for found in judged if found.verdict.status != "INFRA"]
    solved = {found.problem.id for found in decided if found.verdict.is_correct}
    tried = {found.problem.id for found in judged}
    lines = [
        f"{len(judged)} completions of {len(tried)} problems: "
        f"{_rate(decided)} correct, {_tests_rate(decided)} of tests passed, "
        f"{len(solved)} problems solved at least once, "
        f"{len(judged) - len(decided)} not decided",
        "",
        markdown(_ends(judged)),
    ]
    if by_tag := _by_tag(judged):
        lines.append(markdown(by_tag))
    if by_rung := _by_rung(judged):
        lines.append(markdown(by_rung))
    return lines


def _ends(judged: Sequence[Judged]) -> TextTable:
    counts = Counter((j.verdict.status, j.verdict.error_class) for j in judged)
    rows = [
        (status, error_class, f"{count:,}", f"{100 * count / len(judged):.1f} %")
        for (status, error_class), count in counts.most_common()
    ]
    return TextTable(("verdict", "class", "completions", "share"), tuple(rows))


def _by_tag(judged: Sequence[Judged]) -> TextTable | None:
    groups: dict[tuple[str, str], list[Judged]] = {}
    for found in judged:
        for tag in found.problem.tags.items():
            groups.setdefault(tag, []).append(found)
    rows = [
        (f"{name}: {value}", f"{len(found):,}", _rate(kept), _tests_rate(kept))
        for (name, value), found in sorted(groups.items())
        if (kept := [j for j in found if j.verdict.status != "INFRA"]) or found
    ]
    header = ("tag", "completions", "correct", "tests passed")
    return TextTable(header, tuple(rows)) if rows else None


def _by_rung(judged: Sequence[Judged]) -> TextTable | None:
    """What matched, where a comparator may match in several ways."""
    counts = Counter(
        result.rung
        for found in judged
        for result in found.verdict.results
        if result.rung
    )
    total = counts.total()
    rows = [
        (rung, f"{count:,}", f"{100 * count / total:.1f} %")
        for rung, count in counts.most_common()
    ]
    return TextTable(("rung", "tests", "share"), tuple(rows)) if rows else None


def _rate(judged: Sequence[Judged]) -> str:
    if not judged:
        return "-"
    return f"{100 * sum(j.verdict.is_correct for j in judged) / len(judged):.1f} %"


def _tests_rate(judged: Sequence[Judged]) -> str:
    """Mean over completions of the share of tests passed."""
    shares = [
        j.verdict.num_passed / j.verdict.num_tests
        for j in judged
        if j.verdict.num_tests
    ]
    return f"{100 * sum(shares) / len(shares):.1f} %" if shares else "-"


def _tell_untrusted(untrusted: Mapping[str, str], *, trusts_asserts: bool) -> None:
    if not untrusted:
        return
    name, reason = next(iter(untrusted.items()))
    what = "were run all the same" if trusts_asserts else "--trust-asserts runs them"
    print(
        f"problems whose asserts only work beside the program, which can forge them: "
        f"{len(untrusted)}; {what} (first: {name}: {reason})",
        file=sys.stderr,
    )


def _check_share(judged: Sequence[Judged], settings: ScorerConfig) -> None:
    lost = [j.verdict for j in judged if j.verdict.error_class == INFRA_CLASS]
    if len(lost) > settings.max_error_share * len(judged):
        raise RuntimeError(
            f"{len(lost)} of {len(judged)} completions could not be judged, more than "
            f"scorer.max_error_share {settings.max_error_share} allows: "
            f"{lost[0].detail}. Mend the cause, or see jaxgrpo doctor."
        )


# Files


class _Writer:
    """Writes verdicts as they come: lines at once, Parquet at the end."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: list[dict[str, Any]] = []
        self._file: IO[str] | None = None

    def __enter__(self) -> "_Writer":
        if self._path is not None and self._path.suffix == ".jsonl":
            self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        elif self._path is not None:
            write_parquet(self._rows, self._path)

    def write(self, judged: Judged) -> None:
        """Takes the next verdict."""
        if self._path is None:
            return
        head = {"problem_id": judged.problem.id, "where": judged.row.where}
        row = head | row_of_verdict(judged.verdict) | {"columns": judged.row.columns}
        row |= row_of_rewards(judged.score)
        if self._file is None:
            self._rows.append(row)
            return
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def write_parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Writes verdicts as a table. Columns of the user's own become JSON text.

    Args:
      rows: As in the JSON Lines.
      path: File to write.
    """
    import pyarrow as pa
    from pyarrow import parquet

    exception = pa.struct(
        [("type_name", pa.string()), ("message", pa.string())]
        + [(name, pa.int64()) for name in ("line", "end_line", "column", "end_column")]
    )
    texts = ("status", "error_class", "stdout", "rung", "detail")
    result = pa.struct(
        [(name, pa.string()) for name in texts]
        + [("cpu_s", pa.float64()), ("peak_bytes", pa.int64())]
        + [("is_stdout_cut", pa.bool_()), ("exception", exception)]
    )
    span = pa.struct(
        [("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())]
    )
    head = ("problem_id", "where", "status", "error_class", "extracted", "detail")
    schema = pa.schema(
        [(name, pa.string()) for name in (*head, "columns")]
        + [("num_passed", pa.int64()), ("num_tests", pa.int64())]
        + [("results", pa.list_(result)), ("spans", pa.list_(span))]
        + [("rewards", pa.map_(pa.string(), pa.float64()))]
        + [("abstain_reason", pa.string()), ("extra", pa.string())]
    )
    texts_of_json = ("columns", "extra")
    flat = [
        _clean({**row, **{name: json.dumps(row[name]) for name in texts_of_json}})
        for row in rows
    ]
    flat = [{**row, "rewards": list(row["rewards"].items())} for row in flat]
    parquet.write_table(pa.Table.from_pylist(flat, schema=schema), path)


def _clean(value: Any) -> Any:
    """The value without halves of surrogate pairs, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value
