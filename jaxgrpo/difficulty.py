"""`jaxgrpo data rate`: how often a model solves each problem, measured before training.

What a run then keeps of the problems is decided by `problems/selection.py`.
"""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

import jax
import jax.numpy as jnp

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config
from jaxgrpo.config_loading import find_config, load_config, shipped_configs
from jaxgrpo.console import Console
from jaxgrpo.device.model.lora import weights_checksum
from jaxgrpo.device.sampling.keys import PURPOSE_RATE
from jaxgrpo.host.prompts import split_by_length
from jaxgrpo.host.records import Group, Problem, Prompt, Score
from jaxgrpo.host.scorer import ScoreFuture, Scorer
from jaxgrpo.policy import check_lengths, initial_weights, load_policy
from jaxgrpo.problems.pass_rates import (
    SUFFIXES,
    PassRate,
    Provenance,
    read_pass_rates,
    row_of,
    write_parquet,
)
from jaxgrpo.problems.selection import CLASSES, class_of
from jaxgrpo.report.evaluation_table import TextTable
from jaxgrpo.report.pass_rate_chart import write_pass_rates
from jaxgrpo.sampling import drawn_groups, training_engine
from jaxgrpo.scorer_setup import build_scorer
from jaxgrpo.source import Source, open_source, source_config
from jaxgrpo.step_metrics import is_judged

GROUPS_AHEAD = 64
"""Groups that are scored while others are drawn."""
_TABLES = ("model", "prompt", "sampling", "data", "scorer")
_NO_MATTER = {
    "sampling": (
        *("problems_per_step", "group_size", "slots", "rows_per_problem"),
        *("segment_tokens", "gather_weights", "stages"),
    ),
    "data": (
        *("cache_dir", "build_workers", "difficulty", "keep_solved"),
        *("keep_partly_solved", "keep_unsolved", "max_unsolved"),
    ),
    "scorer": ("num_workers", "deadline_s", "max_error_share"),
}
"""Fields that change no pass rate, or that a row names itself."""


def rate(
    name: str,
    overrides: Sequence[str],
    *,
    num_samples: int,
    out: Path,
    split: str | None = None,
    limit: int = 0,
) -> list[PassRate]:
    """Samples completions of each problem, judges them, and writes how many passed.

    Rows are written as problems are done; the same command again goes on with those
    that are left. What a problem gets depends on no other problem.

    Args:
      name: Run folder, checkpoint folder, `builtin:NAME`, or a configuration, whose
        model is then sampled as it is before training.
      overrides: Changes to the configuration.
      num_samples: Completions of each problem.
      out: File to write, `.jsonl` or `.parquet`; a histogram of the same name, `.png`,
        is written beside it.
      split: Of the data set; that of training, if not given.
      limit: Problems of the split; 0 for all.

    Returns:
      The pass rates, in the order of the file.

    Raises:
      ValueError: An argument is wrong, no prompt fits, or the file holds pass rates of
        other settings.
      RuntimeError: Too many samples could not be judged.
    """
    _check_out(out)
    config = _config_of(name, list(overrides))
    split = split or config.data.split
    with (
        Console(config.log.console, 1) as console,
        build_scorer(config.scorer, []) as scorer,
    ):
        report = console.counter("preparing problems")
        problems = problems_of(config.data, split, limit=limit, report=report)
        source = _opened(name, list(overrides), config)
        for note in source.policy.notes:
            console.note(note)
        provenance = _provenance(name, source, config, split, num_samples)
        known = _known(out, provenance)
        left, num_long = _left(source, problems, known, config)
        if known:
            console.note(f"{len(known):,} problems are in {_work_file(out)} already.")
        report = console.counter("sampling")
        with _work_file(out).open("a", encoding="utf-8") as file:
            for found in _measured(source, left, scorer, config, num_samples):
                known.append(found)
                _append(file, found, provenance)
                report(len(known), len(problems) - num_long)
        _check_judged(known, num_samples, config.scorer.max_error_share)
        _finish(known, provenance, out)
        console.text_table(_table(known, num_long), title=f"{name}, {split} split")
        console.note(f"wrote {out} and {out.with_suffix('.png')}")
    return known


def _check_out(out: Path) -> None:
    if out.suffix not in SUFFIXES:
        raise ValueError(f"--out {out}: end its name in {' or '.join(SUFFIXES)}.")
    if not out.absolute().parent.is_dir():
        raise ValueError(
            f"--out {out}: there is no folder {out.absolute().parent}. Make it first."
        )


def _is_config(name: str) -> bool:
    return name.endswith(".toml") or name in shipped_configs()


def _config_of(name: str, overrides: list[str]) -> Config:
    if _is_config(name):
        return load_config(find_config(name), overrides)
    return source_config(name, overrides)


def _opened(name: str, overrides: list[str], config: Config) -> Source:
    if not _is_config(name):
        return open_source(name, overrides)
    policy = load_policy(config.model, config.prompt)
    check_lengths(config, policy)
    params = jax.tree.map(jnp.asarray, initial_weights(policy, config))
    return Source(config=config, policy=policy, params=params, step=0)


def _provenance(
    name: str, source: Source, config: Config, split: str, num_samples: int
) -> Provenance:
    tables = config.model_dump(mode="json", include=set(_TABLES))
    for table, fields in _NO_MATTER.items():
        for field in fields:
            tables[table].pop(field)
    tables["compute"] = source.policy.forward._asdict()
    text = json.dumps(tables, sort_keys=True)
    return Provenance(
        source=name,
        step=source.step,
        weights=int(weights_checksum(source.params)),
        dataset=config.data.dataset,
        split=split,
        num_samples=num_samples,
        temperature=config.sampling.temperature,
        max_new_tokens=config.sampling.max_new_tokens,
        seed=config.run.seed,
        settings=hashlib.blake2b(text.encode(), digest_size=8).hexdigest(),
    )


def _work_file(out: Path) -> Path:
    """Where rows are written as they come; Parquet can only be written whole."""
    return out if out.suffix == ".jsonl" else out.with_suffix(".partial.jsonl")


def _known(out: Path, provenance: Provenance) -> list[PassRate]:
    """What earlier commands have measured, whether or not they were finished."""
    known: dict[str, PassRate] = {}
    for path in dict.fromkeys((out, _work_file(out))):
        if not path.exists() or (path.suffix == ".jsonl" and not _mended(path)):
            continue
        rates, found = read_pass_rates(path)
        if found != provenance:
            ours, theirs = asdict(provenance), asdict(found)
            name = next(key for key in ours if ours[key] != theirs[key])
            raise ValueError(
                f"{path} holds pass rates of another measurement: its {name} is "
                f"{theirs[name]!r}, not {ours[name]!r}. Choose another --out, or "
                "remove it."
            )
        known |= {rate.problem_id: rate for rate in rates}
    return list(known.values())


def _mended(path: Path) -> bool:
    """Takes off a line that was not written to its end; whether any line is left."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)
    return end > 0


def _left(
    source: Source,
    problems: Sequence[Problem],
    known: Sequence[PassRate],
    config: Config,
) -> tuple[list[tuple[Problem, Prompt]], int]:
    """Problems that are not known, with their prompts; how many are too long."""
    by_id = {problem.id: problem for problem in problems}
    if len(by_id) < len(problems):
        ((name, number),) = Counter(p.id for p in problems).most_common(1)
        raise ValueError(f"problem id {name!r} occurs {number} times. Make ids unique.")
    limit = config.prompt.max_prompt_tokens
    prompts = [source.policy.encode(problem) for problem in by_id.values()]
    fitting, too_long = split_by_length(prompts, limit)
    if not fitting:
        raise ValueError(
            f"all {len(prompts)} prompts are longer than prompt.max_prompt_tokens "
            f"{limit}. Raise it."
        )
    done = {found.problem_id for found in known}
    left = [(by_id[p.problem_id], p) for p in fitting if p.problem_id not in done]
    return left, len(too_long)


def _measured(
    source: Source,
    left: Sequence[tuple[Problem, Prompt]],
    scorer: Scorer,
    config: Config,
    num_samples: int,
) -> Iterator[PassRate]:
    """Pass rates in the order in which groups are drawn."""
    if not left:
        return
    problems, prompts = zip(*left, strict=True)
    drawn = drawn_groups(
        training_engine(config, source.policy, group_size=num_samples),
        source.params,
        source.policy,
        problems,
        prompts,
        seed=config.run.seed,
        purpose=PURPOSE_RATE,
        step=source.step,
        temperature=config.sampling.temperature,
        policy_step=source.step,
    )
    waiting: deque[tuple[Group, ScoreFuture]] = deque()
    for _, group in drawn:
        waiting.append((group, scorer.submit(group)))
        while waiting and (waiting[0][1].is_done or len(waiting) > GROUPS_AHEAD):
            yield _rate(*waiting.popleft())
    while waiting:
        yield _rate(*waiting.popleft())


def _rate(group: Group, future: ScoreFuture) -> PassRate:
    judged = [score for score in future.result() if is_judged(score)]
    lengths = [len(completion.token_ids) for completion in group.completions]
    reasons = [completion.finish_reason for completion in group.completions]
    return PassRate(
        problem_id=group.problem.id,
        num_judged=len(judged),
        num_passed=sum(map(_has_passed, judged)),
        num_cut=reasons.count("length"),
        mean_tokens=sum(lengths) / len(lengths),
    )


def _has_passed(score: Score) -> bool:
    return score.verdict is not None and score.verdict.is_correct


def _append(file: IO[str], found: PassRate, provenance: Provenance) -> None:
    file.write(json.dumps(row_of(found, provenance)) + "\n")
    file.flush()


def _check_judged(rates: Sequence[PassRate], num_samples: int, limit: float) -> None:
    total = len(rates) * num_samples
    lost = total - sum(found.num_judged for found in rates)
    if lost > limit * total:
        raise RuntimeError(
            f"{lost} of {total} samples could not be judged, more than "
            f"scorer.max_error_share {limit} allows. Look at `jaxgrpo doctor`, remove "
            "what was written, and measure again."
        )


def _finish(rates: Sequence[PassRate], provenance: Provenance, out: Path) -> None:
    if out.suffix == ".parquet":
        write_parquet([row_of(found, provenance) for found in rates], out)
        _work_file(out).unlink()
    write_pass_rates(rates, provenance, out.with_suffix(".png"))


def _table(rates: Sequence[PassRate], num_long: int) -> TextTable:
    counts = Counter(map(class_of, rates))
    rows = [
        (name, f"{counts[name]:,}", f"{100 * counts[name] / len(rates):.1f} %")
        for name in CLASSES
        if counts[name]
    ]
    if num_long:
        rows.append(("prompt too long", f"{num_long:,}", ""))
    return TextTable(("by all samples", "problems", "share"), tuple(rows))
