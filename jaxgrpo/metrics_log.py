"""The numbers of a run: one line per step in `metrics.jsonl`, and wandb beside it.

Every name is defined once, in `glossary.py`; writing another one is an error.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from jaxgrpo.glossary import definition
from jaxgrpo.host.rewards.histogram import Histogram
from jaxgrpo.wandb_run import WandbMode, WandbRun

FILE_NAME = "metrics.jsonl"
_HISTOGRAMS = "histograms"


class MetricLog:
    """Writes the metrics of one run. Close it, or use `with`.

    Args:
      run_folder: Folder of the run; `metrics.jsonl` is in it.
      wandb_mode: As for `WandbRun`.
      project: Project name in Weights & Biases.
      config: Resolved configuration, plain data.
      wandb_id: Run to continue in Weights & Biases; None starts one.
      resume_step: Step that the run continues from. Later lines are dropped, and so
        is a line that an interruption left half-written. None starts an empty file.
      notify: Receives one line when wandb records less than was asked for.
    """

    def __init__(
        self,
        run_folder: Path,
        *,
        wandb_mode: WandbMode,
        project: str,
        config: Mapping[str, Any],
        wandb_id: str | None = None,
        resume_step: int | None = None,
        notify: Callable[[str], None] = print,
    ) -> None:
        path = run_folder / FILE_NAME
        kept = [] if resume_step is None else _lines_until(path, resume_step)
        _replace(path, kept)
        self._last_step = _step_of(kept[-1], path) if kept else -1
        self._file = path.open("a", encoding="utf-8")
        self._wandb = WandbRun(
            run_folder,
            mode=wandb_mode,
            project=project,
            config=config,
            run_id=wandb_id,
            notify=notify,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_failed=kind is not None)

    @property
    def wandb_id(self) -> str | None:
        """To be saved and passed as `wandb_id` when the run continues."""
        return self._wandb.id

    @property
    def wandb_mode(self) -> str:
        """What wandb does in this run: online, offline or disabled."""
        return self._wandb.mode

    def write(
        self,
        step: int,
        metrics: Mapping[str, float],
        histograms: Mapping[str, Histogram] = MappingProxyType({}),
    ) -> None:
        """Appends one line and hands the metrics to wandb.

        Args:
          step: Updates made so far; above the step of the line before.
          metrics: Numbers by names of `GLOSSARY`. NaN says that there was nothing to
            average.
          histograms: Of some of what the metrics are means of.
        """
        assert step > self._last_step, (
            f"step {step} does not follow step {self._last_step}"
        )
        for name in metrics:
            assert definition(name) is not None, (
                f"metric {name!r} is not in the glossary. Define it there."
            )
        self._file.write(_line(step, metrics, histograms))
        self._file.flush()
        self._last_step = step
        self._wandb.log(step, metrics, histograms)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Hands the result of the run to wandb."""
        self._wandb.summary(values)

    def close(self, *, is_failed: bool = False) -> None:
        """Closes the file and ends the wandb run, as failed where it is."""
        self._file.close()
        self._wandb.close(is_failed=is_failed)


def evaluation_metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Returns an evaluation as metrics: `eval/` the values, `eval_se/` their errors.

    Args:
      evaluation: `num_problems`, and `{"value": ..., "se": ...}` by name.

    Example:
      >>> evaluation_metrics({"num_problems": 4, "pass@1": {"value": 0.5, "se": 0.25}})
      {'eval/num_problems': 4.0, 'eval/pass@1': 0.5, 'eval_se/pass@1': 0.25}
    """
    metrics = {}
    for name, entry in evaluation.items():
        if isinstance(entry, Mapping):
            metrics[f"eval/{name}"] = _number(entry["value"])
            metrics[f"eval_se/{name}"] = _number(entry["se"])
        else:
            metrics[f"eval/{name}"] = float(entry)
    return metrics


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def read_metrics(run_folder: Path) -> list[dict[str, float]]:
    """Returns the written lines in order, each with its `step`.

    A line that is still being written, or was cut off, is left out.
    """
    lines = _complete_lines(run_folder / FILE_NAME)
    return [_parsed(line, run_folder / FILE_NAME) for line in lines]


def read_histograms(run_folder: Path) -> dict[int, dict[str, Histogram]]:
    """Returns the histograms of each step that has any, by name.

    Args:
      run_folder: Folder of the run.
    """
    found = {}
    for line in _complete_lines(run_folder / FILE_NAME):
        step = _step_of(line, run_folder / FILE_NAME)
        by_name = json.loads(line).get(_HISTOGRAMS, {})
        found[step] = {
            name: Histogram(edges=tuple(h["edges"]), counts=tuple(h["counts"]))
            for name, h in by_name.items()
        }
    return {step: histograms for step, histograms in found.items() if histograms}


def _line(
    step: int, metrics: Mapping[str, float], histograms: Mapping[str, Histogram]
) -> str:
    numbers = {"step": str(int(step))} | {
        name: _json_number(float(value)) for name, value in metrics.items()
    }
    if histograms:
        plain = {name: asdict(histogram) for name, histogram in histograms.items()}
        numbers[_HISTOGRAMS] = json.dumps(plain)
    body = ", ".join(f"{json.dumps(name)}: {text}" for name, text in numbers.items())
    return "{" + body + "}\n"


def _json_number(value: float) -> str:
    # JSON has no NaN and no infinity: null is "no value", and a number beyond every
    # double reads back as infinity.
    if math.isnan(value):
        return "null"
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def _complete_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    text = path.read_bytes().decode("utf-8", errors="replace")
    return text.split("\n")[:-1]


def _parsed(line: str, path: Path) -> dict[str, float]:
    try:
        numbers = json.loads(line)
        step = int(numbers["step"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} has a line that is no metrics: {line[:80]!r}. Repair or remove it."
        ) from error
    values = {
        name: math.nan if value is None else value
        for name, value in numbers.items()
        if name != _HISTOGRAMS
    }
    return {**values, "step": step}


def _step_of(line: str, path: Path) -> int:
    return int(_parsed(line, path)["step"])


def _lines_until(path: Path, last_step: int) -> list[str]:
    lines = _complete_lines(path)
    while lines and not _is_whole(lines[-1]):
        lines.pop()
    return [line for line in lines if _step_of(line, path) <= last_step]


def _is_whole(line: str) -> bool:
    # A machine that lost power can leave a last line of the right length and no sense.
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _replace(path: Path, lines: list[str]) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    os.replace(temporary, path)
