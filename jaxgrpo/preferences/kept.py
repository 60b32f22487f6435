"""Judged answers as they were kept: by a run, in its rollouts, or by an evaluation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxgrpo.config import DataConfig, PromptConfig, ScorerConfig
from jaxgrpo.config_loading import load_config
from jaxgrpo.host.judge.extraction import extract
from jaxgrpo.host.judge.fences import parses
from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.judge.settings import JudgeSettings
from jaxgrpo.host.prompt_variants import FIRST_STAGE
from jaxgrpo.host.prompts import THINKING_START
from jaxgrpo.host.records import Problem
from jaxgrpo.host.trace.steps import COLUMN
from jaxgrpo.preferences.pairs import JudgedAnswer
from jaxgrpo.problems.datasets import load_problems
from jaxgrpo.rollout_table import FOLDER_NAME, clean, read_part
from jaxgrpo.weights.folder import read_json

_COLUMNS = (
    *("problem_id", "prompt", "prompt_variant", "completion"),
    *("verdict", "finish_reason", "sample"),
)
_RAN = ("OK", "WA")
"""Verdicts on programs that ran to their end in every test up to the one that decides:
nothing else is wrong with them than a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRow:
    """A completion that was kept."""

    problem: Problem
    answer: str
    """What is extracted from it; empty where there is nothing that parses."""
    is_right: bool
    has_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """All completions of a folder that could be judged."""

    rows: tuple[KeptRow, ...]
    template: str
    """Of the user's message."""

    @property
    def problems(self) -> dict[str, Problem]:
        """By id, in the order in which they first occur."""
        return {row.problem.id: row.problem for row in self.rows}

    @property
    def answers(self) -> Iterator[JudgedAnswer]:
        """The rows that have an answer."""
        for row in self.rows:
            if row.answer:
                yield JudgedAnswer(
                    problem_id=row.problem.id,
                    answer=row.answer,
                    is_right=row.is_right,
                    has_run=row.has_run,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where rows are, and what they were made with."""

    parts: Sequence[Path]
    data: DataConfig
    split: str
    scorer: ScorerConfig
    prompt: PromptConfig
    stops: tuple[str, ...]


def read_kept(
    folder: Path, *, passes: Sequence[str] = ("greedy", "sampled"), cache_dir: str = ""
) -> Kept:
    """Returns the judged completions of a folder, with their problems.

    Answers are extracted anew, by the rules that the judge had. Completions that could
    not be judged are left out.

    Args:
      folder: Of a run with rollouts, or of one evaluation (`evaluations/NAME-...`).
      passes: Of an evaluation: which completions are read.
      cache_dir: Where prepared data sets are; as configured, if not given.

    Raises:
      ValueError: It is no such folder, or the data set has changed since.
    """
    origin = _origin(folder, passes)
    data = origin.data
    if cache_dir:
        data = data.model_copy(update={"cache_dir": cache_dir})
    raw = [row for path in origin.parts for row in _rows(path)]
    if not raw:
        raise ValueError(f"{folder} holds no judged completions.")
    problems = _problems(data, origin.split, {row["problem_id"] for row in raw}, folder)
    settings = JudgeSettings(
        extraction=origin.scorer.extraction,
        literal_extraction=origin.scorer.literal_extraction,
        markers=Markers(origin.scorer.answer_opening, origin.scorer.answer_closing),
    )
    rows = []
    for row in raw:
        problem = problems[row["problem_id"]]
        _check_prompt(problem, row["prompt"], origin.prompt.template, folder)
        rows.append(
            KeptRow(
                problem=problem,
                answer=_answer(problem, row, settings, origin.stops),
                is_right=row["verdict"] == "OK",
                has_run=row["verdict"] in _RAN,
            )
        )
    return Kept(rows=tuple(rows), template=origin.prompt.template)


def _origin(folder: Path, passes: Sequence[str]) -> _Origin:
    if (folder / "identity.json").is_file():
        tables = read_json(folder / "identity.json")
        parts = [
            part
            for name in passes
            for part in sorted((folder / name).glob("part_*.parquet"))
        ]
        return _Origin(
            parts=parts,
            data=_table(DataConfig, tables["data"]),
            split=tables["evaluation"]["split"],
            scorer=_table(ScorerConfig, tables["scorer"]),
            prompt=_table(PromptConfig, tables["prompt"]),
            stops=tuple(tables["sampling"]["stop"]),
        )
    if (folder / "config.toml").is_file() and (folder / FOLDER_NAME).is_dir():
        config = load_config(folder / "config.toml")
        return _Origin(
            parts=sorted((folder / FOLDER_NAME).glob("step_*.parquet")),
            data=config.data,
            split=config.data.split,
            scorer=config.scorer,
            prompt=config.prompt,
            stops=config.sampling.stop,
        )
    below = sorted(path.parent.name for path in folder.glob("*/identity.json"))
    hint = f" It has {', '.join(below)}: give one of them." if below else ""
    raise ValueError(
        f"{folder} is neither a run with rollouts nor an evaluation whose generations "
        f"were kept (jaxgrpo evaluate --keep DIR).{hint}"
    )


def _table(schema: Any, plain: Mapping[str, Any]) -> Any:
    # As JSON: what is strict in Python is a list there where a tuple is meant.
    return schema.model_validate_json(json.dumps(plain))


def _rows(path: Path) -> list[dict[str, Any]]:
    rows = read_part(path).select(_COLUMNS).to_pylist()
    # The first of two stages was not asked for an answer.
    answered = [row for row in rows if row["prompt_variant"] != FIRST_STAGE]
    return [row for row in answered if row["verdict"] not in (None, "INFRA")]


def _problems(
    data: DataConfig, split: str, wanted: set[str], folder: Path
) -> dict[str, Problem]:
    found: dict[str, Problem] = {}
    for problem in load_problems(data, split):
        if clean(problem.id) in wanted:
            found[clean(problem.id)] = problem
            if len(found) == len(wanted):
                return found
    absent = min(wanted - found.keys())
    raise ValueError(
        f"{folder} has completions of problem {absent!r}, which the {split} split of "
        f"{data.dataset} does not have. Has the data changed? Sample again."
    )


def _check_prompt(problem: Problem, prompt: str, template: str, folder: Path) -> None:
    first_line = clean(problem.prompt).strip().partition("\n")[0].strip()
    if "{prompt}" in template and first_line not in prompt:
        raise ValueError(
            f"{folder} has a completion of problem {problem.id!r} that was asked "
            "another question: the data has changed. Sample again."
        )


def _answer(
    problem: Problem,
    row: Mapping[str, Any],
    settings: JudgeSettings,
    stops: Sequence[str],
) -> str:
    """What the judge took from the completion, where that is Python."""
    rule = settings.rule_of(
        problem.kind,
        row["prompt_variant"],
        has_steps=bool(problem.columns.get(COLUMN)),
    )
    in_thought = row["prompt"].rstrip().endswith(THINKING_START)
    # The table does not say which stop string it was that ended a text.
    ends = stops if row["finish_reason"] == "stop" else ("",)
    for stop in ends:
        found = extract(
            row["completion"],
            rule,
            markers=settings.markers,
            stop=stop,
            in_thought=in_thought,
        )
        if found.answer.strip() and parses(found.answer):
            return found.answer
    return ""
