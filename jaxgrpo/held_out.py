"""The evaluations of a run: before, during and after it, and of its tail."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxgrpo.assembly import problems_of
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.evaluate import Measured, evaluate, outcomes_of
from jaxgrpo.evaluation.generations import generations_folder
from jaxgrpo.evaluation.outcomes import Evaluation
from jaxgrpo.evaluation.tail import among, tail_metrics, tail_of
from jaxgrpo.host.records import Problem
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.metrics_log import evaluation_metrics
from jaxgrpo.policy import Policy
from jaxgrpo.run_folder import write_json

TAIL_FILE = "tail.json"
"""In the run folder: the tail's problems, and its evaluations by name."""


@dataclass(kw_only=True)
class HeldOut:
    """Measures a run on held-out problems; keeps what it found in the run folder.

    Its state is the tail: the list of problems is decided by the first evaluation, and
    is the same from then on.
    """

    config: Config
    folder: Path
    """Of the run."""
    scorer: Scorer
    console: Console
    validation: Sequence[Problem]
    """Problems of the evaluations during training."""
    tail_ids: list[str] | None = None
    """Problems of the tail; None before the first evaluation."""
    tails: dict[str, Evaluation] = field(default_factory=dict)
    """Evaluations of the tail, by name."""

    def kept(
        self, name: str, params: Weights, policy: Policy, *, step: int
    ) -> Evaluation:
        """The evaluation of a name: read from the run folder, or measured and kept.

        All its generations are kept too, in the folder `evaluations`.

        Args:
          name: `before`, `after` or `reference`; the file is `evaluation_NAME.json`.
          params: Weights to measure.
          policy: The model.
          step: Updates made. A kept evaluation of another step is measured anew.
        """
        path = self.folder / f"evaluation_{name}.json"
        # The reference may be another one by now.
        kept = None if name == "reference" else _read(path, step)
        if kept is None:
            self._measure(path, name, params, policy, step)
            kept = json.loads(path.read_text(encoding="utf-8"))
        if self.tail_ids is None:
            self.tail_ids = kept["tail_ids"]
        if kept["tail"] is not None:
            self.tails[name] = kept["tail"]
            tail = {"problem_ids": self.tail_ids, "evaluations": self.tails}
            write_json(self.folder / TAIL_FILE, tail)
        return kept["evaluation"]

    def during(self, params: Weights, policy: Policy, *, step: int) -> dict[str, float]:
        """The metrics of a step's evaluation: greedy on validation, and the tail.

        Args:
          params: Weights to measure.
          policy: The model.
          step: Updates made.
        """
        common = (self.scorer, self.config)
        metrics = evaluation_metrics(
            evaluate(
                params, policy, self.validation, *common, step=step, with_samples=False
            )
        )
        if self._tail_problems:
            on_tail = evaluate(
                params, policy, self._tail_problems, *common,
                step=step, with_samples=True,
            )  # fmt: skip
            metrics |= tail_metrics(on_tail)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """The tail, as JSON can hold it."""
        return {"tail_ids": self.tail_ids}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with the tail of a saved run."""
        self.tail_ids = state["tail_ids"]

    @cached_property
    def _tail_problems(self) -> list[Problem]:
        """The tail's problems; called only after the first evaluation."""
        wanted = set(self.tail_ids or ())
        return [p for p in self._problems if p.id in wanted] if wanted else []

    @cached_property
    def _problems(self) -> Sequence[Problem]:
        e = self.config.evaluation
        return problems_of(self.config.data, e.split, limit=e.num_problems)

    def _measure(
        self, path: Path, name: str, params: Weights, policy: Policy, step: int
    ) -> None:
        e = self.config.evaluation
        measured = outcomes_of(
            params,
            policy,
            self._problems,
            self.scorer,
            self.config,
            step=step,
            with_samples=True,
            keep=self._generations(name, step),
            report=self.console.counter(f"evaluating {name}"),
        )
        tail_ids = self.tail_ids
        if tail_ids is None:
            tail_ids = tail_of(measured.outcomes, e.tail_problems)
        on_tail = Measured(among(measured.outcomes, tail_ids), 0)
        result = measured.evaluation(self.config)
        kept = {
            "step": step,
            "evaluation": result,
            "tail_ids": tail_ids,
            "tail": on_tail.evaluation(self.config) if on_tail.outcomes else None,
        }
        write_json(path, kept)
        exact = result["exact_match"]
        self.console.note(
            f"{name}: exact match {exact['value']:.3f} (se {exact['se']:.3f}) on "
            f"{result['num_problems']} {e.split} problems."
        )

    def _generations(self, name: str, step: int) -> Path:
        """The folder for an evaluation's generations, in a run of one configuration."""
        identity = {"name": name, "step": step}
        if name == "reference":
            identity["checkpoint"] = self.config.evaluation.reference
        return generations_folder(self.folder / "evaluations", name, identity)


def _read(path: Path, step: int) -> dict[str, Any] | None:
    if not path.exists():
        return None
    kept = json.loads(path.read_text(encoding="utf-8"))
    return kept if kept["step"] == step and "tail_ids" in kept else None
