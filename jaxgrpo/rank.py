"""`jaxgrpo rank`: what picking the best of k completions by a reward model gains."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxgrpo.console import Console, ConsoleMode
from jaxgrpo.evaluation.estimates import (
    bootstrap_intervals,
    mean_and_error,
    pass_at_k,
)
from jaxgrpo.evaluation.ranking import auc, auc_within, best_of_k
from jaxgrpo.preferences.kept import KeptRow, read_kept
from jaxgrpo.report.evaluation_table import TextTable, cell
from jaxgrpo.reward_model import load_reward_model
from jaxgrpo.run_folder import write_json
from jaxgrpo.train_reward import TRAINED_PROBLEMS


def rank(
    source: str,
    folder: Path,
    *,
    out: Path | None = None,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
    cache_dir: str = "",
    console: ConsoleMode = "auto",
) -> dict[str, Any]:
    """Scores the samples of an evaluation, and shows best-of-k against a random pick.

    Problems that the model was trained on are left out.

    Args:
      source: Run of `jaxgrpo train-reward`, or a reward model's checkpoint.
      folder: Generations that `jaxgrpo evaluate` has kept.
      out: JSON file for the result, or None.
      confidence: Of the intervals, which are over problems.
      resamples: Bootstrap samples behind them.
      seed: Of the resampling.
      cache_dir: Where prepared data sets are; as usual, if empty.
      console: How the result is shown.

    Returns:
      What the JSON file holds.

    Raises:
      ValueError: The folder holds no samples of problems that are new to the model.
    """
    if out is not None and not out.absolute().parent.is_dir():
        raise ValueError(
            f"--out {out}: there is no folder {out.absolute().parent}. Make it first."
        )
    model = load_reward_model(source)
    kept = read_kept(folder, passes=("sampled",), cache_dir=cache_dir)
    trained = _trained_problems(Path(source))
    rows = [row for row in kept.rows if row.problem.id not in trained]
    num_trained = len(kept.problems) - len({row.problem.id for row in rows})
    if not rows:
        raise ValueError(
            f"{source} was trained on all {num_trained} problems of {folder}. Rank "
            "completions of other problems."
        )
    with Console(console, 1) as shown:
        if num_trained:
            shown.note(f"{num_trained:,} problems that it was trained on are left out.")
        scores, is_cut = model.scores([(row.problem, row.answer) for row in rows])
        columns = _columns(rows, scores)
        intervals = bootstrap_intervals(
            columns, confidence=confidence, resamples=resamples, seed=seed
        )
        has_run = np.array([row.has_run and bool(row.answer) for row in rows])
        is_right = np.array([row.is_right for row in rows])
        result = {
            "model": source,
            "generations": str(folder),
            "num_problems": len({row.problem.id for row in rows}),
            "num_trained_problems": num_trained,
            "num_completions": len(rows),
            "num_running": int(has_run.sum()),
            "num_cut": int(is_cut.sum()),
            "auc": auc(scores[has_run], is_right[has_run]),
            **{
                name: _entry(values, intervals[name])
                for name, values in columns.items()
            },
            "settings": {
                "confidence": confidence, "resamples": resamples, "seed": seed,
            },
        }  # fmt: skip
        shown.text_table(_table(result), f"{folder.name}, ranked by {source}")
        shown.note(_auc_text(result))
    if out is not None:
        write_json(out, result)
    return result


def _trained_problems(source: Path) -> set[str]:
    """Those of the run that the model stems from, where it is known."""
    for folder in (source, source.parent):
        if (folder / TRAINED_PROBLEMS).is_file():
            return set(json.loads((folder / TRAINED_PROBLEMS).read_text("utf-8")))
    return set()


def _columns(rows: Sequence[KeptRow], scores: np.ndarray) -> dict[str, np.ndarray]:
    """What each problem's samples come to; NaN where it has too few."""
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.problem.id, []).append(place)
    own = [np.array(found) for found in places.values()]
    is_right = np.array([row.is_right for row in rows])
    has_run = np.array([row.has_run and bool(row.answer) for row in rows])
    most = max(map(len, own))
    random = np.array([is_right[found].mean() for found in own])
    columns = {"random": random}
    for k in (2**power for power in range(1, most.bit_length())):
        best = np.array([
            best_of_k(scores[found], is_right[found], k)
            if len(found) >= k else math.nan for found in own
        ])  # fmt: skip
        columns[f"best@{k}"] = best
        columns[f"gain@{k}"] = best - random
        columns[f"pass@{k}"] = np.array([
            pass_at_k(len(found), int(is_right[found].sum()), k)
            if len(found) >= k else math.nan for found in own
        ])  # fmt: skip
    run = [found[has_run[found]] for found in own]
    columns["auc_within"] = auc_within(
        [scores[found] for found in run], [is_right[found] for found in run]
    )
    return columns


def _entry(values: np.ndarray, interval: tuple[float, float]) -> dict[str, Any]:
    value, error = mean_and_error(values)
    return {
        "value": value,
        "se": error,
        "low": interval[0],
        "high": interval[1],
        "num_problems": int((~np.isnan(values)).sum()),
    }


def _table(result: Mapping[str, Any]) -> TextTable:
    """One row for each k: the pick, what it gains, and what any pick could reach."""
    rows = [("random pick", cell("random", result["random"]), "", "")]
    ks = [int(name.removeprefix("best@")) for name in result if name[:5] == "best@"]
    rows += [
        (
            f"best of {k}",
            *(cell(name, result[f"{name}@{k}"]) for name in ("best", "gain", "pass")),
        )
        for k in ks
    ]
    return TextTable(("", "right", "above random", "any of k right"), tuple(rows))


def _auc_text(result: Mapping[str, Any]) -> str:
    within = result["auc_within"]
    return (
        f"{result['num_problems']:,} problems, {result['num_completions']:,} "
        f"completions, {result['num_running']:,} of which parse and run. Among these, "
        f"a right one is above a wrong one of the same problem with chance (AUC) "
        f"{within['value']:.3f} [{within['low']:.3f}, {within['high']:.3f}] (mean of "
        f"{within['num_problems']:,} problems), of any problem {result['auc']:.3f}."
    )
