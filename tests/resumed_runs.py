"""Runs that are made whole, and again from a checkpoint of theirs."""

import json
import shutil
from pathlib import Path

from jaxgrpo.config import Config
from jaxgrpo.glossary import is_timing
from jaxgrpo.rollout_table import read_rollouts
from jaxgrpo.train import train


def whole_and_resumed(
    config: Config, folder: Path, last_checkpoint: int
) -> tuple[Path, Path]:
    """A whole run, and a copy that was put back by a checkpoint and made again.

    Args:
      config: Of both.
      folder: Gets them as `whole` and `again`.
      last_checkpoint: Step of the checkpoint that the copy loses.
    """
    whole, again = folder / "whole", folder / "again"
    train(config, whole)
    shutil.copytree(whole, again)
    shutil.rmtree(again / "checkpoints" / str(last_checkpoint))
    (again / "summary.json").unlink()
    train(config, again)
    return whole, again


def lines(run: Path) -> list[dict[str, float]]:
    """The lines of `metrics.jsonl`, without what depends on the machine."""
    return [
        {name: value for name, value in json.loads(line).items() if not is_timing(name)}
        for line in (run / "metrics.jsonl").read_text().splitlines()
    ]


def check_equal(whole: Path, again: Path, *columns: str) -> None:
    """Asserts that two runs agree to the bit.

    Args:
      whole: One run.
      again: The other.
      columns: Of the rollout table, that are compared besides all metrics.
    """
    assert lines(whole) == lines(again)
    for name in columns:
        ours, theirs = (read_rollouts(run).column(name) for run in (whole, again))
        assert ours == theirs, name
