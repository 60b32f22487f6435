"""What stands before and after the loop: evaluations, the summary, the pictures."""

from collections.abc import Mapping
from typing import Any

import jax

from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.evaluation.outcomes import Evaluation
from jaxgrpo.host.sandbox import probe
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.metrics_log import MetricLog
from jaxgrpo.policy import Policy
from jaxgrpo.report.curves import write_curves
from jaxgrpo.report.evaluation_chart import write_evaluation
from jaxgrpo.run_folder import RunFolder, environment

TAIL_TITLE = "The tail: problems whose greedy answer was wrong before"


def say_setting(
    config: Config, policy: Policy, scorer: Scorer, log: MetricLog, console: Console
) -> None:
    """Says what the run computes with, and what is reduced on this machine."""
    devices = jax.devices()
    sandbox = probe()
    console.note(
        f"devices: {len(devices)} x {devices[0].device_kind} ({policy.forward.dtype}); "
        f"scorer workers: {len(scorer.worker_pids)}; wandb: {log.wandb_mode}; "
        f"sandbox: {f'level {sandbox.level}' if sandbox.level else 'none'}."
    )
    for missing in sandbox.missing:
        console.note(f"sandbox reduced: {missing}")
    for note in policy.notes:
        console.note(note)
    if config.sampling.stages:
        console.note(config.sampling.stages_text())


def conclude(
    folder: RunFolder,
    config: Config,
    console: Console,
    evaluations: Mapping[str, Evaluation],
    tails: Mapping[str, Evaluation],
    summary: Mapping[str, Any],
) -> None:
    """Writes table, pictures and summary; from then on the run is finished.

    Args:
      folder: Of the run.
      config: Of the run.
      console: Shows the table.
      evaluations: Before, after, and the reference's where one is configured.
      tails: The same on the tail; empty where there is none.
      summary: Counters and settings to keep beside them.
    """
    page = console.table(evaluations, title=f"{config.evaluation.split} split") + "\n"
    if tails:
        page += f"{TAIL_TITLE}\n\n{console.table(tails, title=TAIL_TITLE)}\n"
    (folder.path / "evaluation.md").write_text(page)
    write_curves(folder.path)
    write_evaluation(folder.path, evaluations)
    where = environment([str(device) for device in jax.devices()])
    on_tail = {"tail": tails} if tails else {}
    folder.write_summary({**evaluations, **on_tail, **summary, **where})
    wall_s = summary["wall_s"]
    console.note(f"finished in {wall_s:.0f} s; everything is in {folder.path}.")


def say_finished(folder: RunFolder, console: Console) -> None:
    """Says that the folder holds a finished run, and shows its table."""
    summary = folder.read_summary()
    names = [n for n in ("before", "after", "reference") if n in summary]
    console.note(
        f"{folder.path} holds a finished run of {summary['num_steps']} steps. Raise "
        "run.num_steps to go on, or choose another folder with --run DIR."
    )
    console.table({name: summary[name] for name in names})
    if "tail" in summary:
        console.table(summary["tail"], title=TAIL_TITLE)
