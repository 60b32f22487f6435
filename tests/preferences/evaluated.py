"""An evaluation folder made by hand: problems of a file, with judged completions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxgrpo.config_loading import config_of_checkpoint
from jaxgrpo.evaluation.generations import Generations
from jaxgrpo.host.judge.literal import judge_literal
from jaxgrpo.host.judge.results import infra_verdict
from jaxgrpo.host.records import Group, Prompt, Score
from tests.host.conftest import group_of

REFERENCE = "True"
LOST = "<lost>"
"""A completion that no judge has seen."""


def write_problems(path: Path, names: Sequence[str]) -> None:
    rows = [
        {"id": name, "kind": "output", "prompt": f"Is {name} so?",
         "reference": REFERENCE} for name in names
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_evaluation(
    folder: Path,
    texts: Mapping[str, Sequence[str]],
    cache_dir: Path,
    *changes: str,
    asked: str = "Is {name} so?",
) -> Path:
    """Returns the folder, with the completions of each problem as its samples."""
    path = folder / "test.jsonl"
    folder.mkdir(parents=True)
    write_problems(path, list(texts))
    overrides = ["data.dataset=file", f"data.path={path}", "data.columns.kind=kind"]
    config = config_of_checkpoint("none", [*overrides, *changes])
    tables = config.model_dump(mode="json")
    tables["data"]["cache_dir"] = str(cache_dir)
    kept = folder / "kept"
    kept.mkdir()
    (kept / "identity.json").write_text(json.dumps(tables))
    groups = [_group(name, asked.format(name=name), own) for name, own in texts.items()]
    Generations(kept / "sampled", 0).write(groups)
    return kept


def _group(name: str, asked: str, texts: Sequence[str]) -> Group:
    group = group_of(REFERENCE, *texts, problem_id=name)
    verdicts: list[Any] = [
        infra_verdict("no disk") if text == LOST else judge_literal(text, REFERENCE)
        for text in texts
    ]
    prompt = Prompt(
        problem_id=name,
        text=f"<user>{asked}<assistant>",
        token_ids=np.zeros(4, np.int32),
    )
    completions = [
        replace(completion, sample=number)
        for number, completion in enumerate(group.completions)
    ]
    return replace(
        group,
        prompts=(prompt,),
        completions=tuple(completions),
        scores=tuple(
            Score(rewards={}, verdict=v, error_class=v.error_class) for v in verdicts
        ),
    )
