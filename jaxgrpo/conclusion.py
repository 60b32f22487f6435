"""What stands before and after the loop: evaluations, the summary, the pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.evaluate import Evaluation, evaluate
from jaxgrpo.host.sandbox import probe
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.metrics_log import MetricLog
from jaxgrpo.policy import Policy
from jaxgrpo.report.curves import write_curves
from jaxgrpo.report.evaluation_chart import write_evaluation
from jaxgrpo.run_folder import RunFolder, environment, write_whole


def say_setting(
    policy: Policy, scorer: Scorer, log: MetricLog, console: Console
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


def kept_evaluation(
    folder: Path,
    name: str,
    params: Weights,
    policy: Policy,
    scorer: Scorer,
    config: Config,
    console: Console,
    *,
    step: int,
) -> Evaluation:
    """The evaluation of a name: read from the run folder, or measured and kept there.

    Args:
      folder: Of the run; the file is `evaluation_NAME.json`.
      name: `before`, `after` or `reference`.
      params: Weights to measure.
      policy: The model.
      scorer: Judges.
      config: Of the run.
      console: Shows progress and result.
      step: Updates made. A kept evaluation of another step is measured anew.
    """
    path = folder / f"evaluation_{name}.json"
    if path.exists() and name != "reference":  # which may be another one by now
        kept = json.loads(path.read_text())
        if kept["step"] == step:
            return kept["evaluation"]
    e = config.evaluation
    result = evaluate(
        params,
        policy,
        problems_of(config.data, e.split, limit=e.num_problems),
        scorer,
        config,
        step=step,
        with_samples=True,
        report=console.counter(f"evaluating {name}"),
    )
    kept = {"step": step, "evaluation": result}
    write_whole(path, json.dumps(kept, indent=2) + "\n")
    exact = result["exact_match"]
    console.note(
        f"{name}: exact match {exact['value']:.3f} (se {exact['se']:.3f}) on "
        f"{result['num_problems']} {e.split} problems."
    )
    return result


def conclude(
    folder: RunFolder,
    config: Config,
    console: Console,
    evaluations: Mapping[str, Evaluation],
    summary: Mapping[str, Any],
) -> None:
    """Writes table, pictures and summary; from then on the run is finished.

    Args:
      folder: Of the run.
      config: Of the run.
      console: Shows the table.
      evaluations: Before, after, and the reference's where one is configured.
      summary: Counters and settings to keep beside them.
    """
    table = console.table(evaluations, title=f"{config.evaluation.split} split")
    (folder.path / "evaluation.md").write_text(table + "\n")
    write_curves(folder.path)
    write_evaluation(folder.path, evaluations)
    where = environment([str(device) for device in jax.devices()])
    folder.write_summary({**evaluations, **summary, **where})
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
