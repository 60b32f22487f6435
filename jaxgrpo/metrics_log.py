"""The numbers of a run: one line per step in `metrics.jsonl`, and wandb beside it.

Every name is defined once, in `GLOSSARY`; writing another one is an error. Training
names are those of TRL, so that dashboards made for it work.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from jaxgrpo.wandb_run import WandbMode, WandbRun

FILE_NAME = "metrics.jsonl"

TIMING_PREFIXES = ("timing_s/", "perf/")
"""Names that depend on the machine; all others repeat bit for bit when a run does."""

GLOSSARY: dict[str, str] = {
    # Reward. Shares are of the groups or rows of the step.
    "reward": "Mean weighted sum of rewards over the rows that did not abstain.",
    "reward_std": "Standard deviation of the summed reward over the rows of the step.",
    "rewards/{name}/mean": "Mean of one reward over the rows that did not abstain.",
    "rewards/{name}/std": "Standard deviation of one reward over the same rows.",
    "rewards/{name}/abstained": "Share of rows in which this reward abstained.",
    "frac_reward_zero_std": "Share of groups with all rewards equal (dead groups).",
    "frac_reward_all_zero": "Share of groups in which every judged row is wrong.",
    "frac_reward_all_one": "Share of groups in which every judged row is correct.",
    "frac_reward_mixed": "Share of groups with both correct and wrong rows.",
    "exact_match": "Share of sampled rows judged correct.",
    "error_class/{name}": "Share of rows that the judge put in this class.",
    "verdict/{status}": "Rows of the step with this verdict.",
    "errored_rollouts": "Rows that could not be scored (infrastructure errors).",
    "abstained_rollouts": "Rows without a summed reward, errored ones included.",
    "dropped_groups": "Groups that regrouping took out before the update.",
    "dropped_prompts": "Prompts left out so far because they exceed max_prompt_tokens.",
    "advantages/{statistic}": "Advantages of the real rows; unitless.",
    # Completions.
    "completions/mean_length": "Mean completion length in tokens.",
    "completions/min_length": "Shortest completion in tokens.",
    "completions/max_length": "Longest completion in tokens.",
    "completions/mean_terminated_length": "Mean tokens of those not cut.",
    "completions/min_terminated_length": "Shortest in tokens of the same.",
    "completions/max_terminated_length": "Longest in tokens of the same.",
    "completions/clipped_ratio": "Share of completions cut at max_new_tokens.",
    # Loss and update.
    "loss": "Training loss of the step.",
    "policy_loss": "Loss without divergence and entropy terms.",
    "kl": "Mean divergence from the reference policy, nats per token.",
    "ppo_kl": "Mean log-prob before minus after within the step, nats per token.",
    "entropy": "Mean entropy of the next-token distribution, nats.",
    "ratio/{statistic}": "Probability ratio of the policy to the one that sampled.",
    "clip_ratio/low_mean": "Share of tokens below the lower clip with A < 0.",
    "clip_ratio/low_min": "Smallest such share of one completion.",
    "clip_ratio/high_mean": "Share of tokens above the upper clip with A > 0.",
    "clip_ratio/high_max": "Largest such share of one completion.",
    "clip_ratio/dual_mean": "Share of tokens at the dual clip's bound (A < 0).",
    "clip_ratio/region_mean": "Share of tokens clipped on either side.",
    "cispo_clip_ratio": "Share of tokens whose weight CISPO bounds.",
    "off_policy_masked_fraction": "Share of tokens left out as too far off-policy.",
    "token_accuracy": "Share of target tokens that are the most likely one.",
    "grad_norm": "Global norm of the gradient before clipping.",
    "learning_rate": "Learning rate of AdamW in this step.",
    "learning_rate/{name}": "Learning rate of another optimiser part in this step.",
    "update_skipped": "Updates of the step left out because loss or gradient was not "
    "finite.",
    # Log-probs of the sampler against those of the trainer.
    "sampling/sampling_logp_difference/mean": "Mean |sampler - trainer|, nats.",
    "sampling/sampling_logp_difference/max": "Largest |sampler - trainer|, nats.",
    "sampling/importance_sampling_ratio/{statistic}": "Sampler weights as applied.",
    "sampling/importance_sampling_ratio_raw/{statistic}": "Sampler weights unbounded.",
    "token_mult_prob_error": "Mean of exp |sampler - trainer|; 1 is perfect.",
    # Progress.
    "epoch": "Passes over the training problems.",
    "num_tokens": "Prompt and completion tokens trained on since the phase began.",
    "num_problems": "Problems drawn since the run began.",
    "stage": "Index of the supervised stage, from 0.",
    # Held-out problems.
    "eval/num_problems": "Problems evaluated.",
    "eval/dropped_prompts": "Problems left out because of max_prompt_tokens.",
    "eval/exact_match": "Share of problems whose greedy completion is correct.",
    "eval/pass@{k}": "Unbiased estimate of at least one of k samples being correct.",
    "eval/groups/{kind}": "Share of problems by their samples: all_wrong, mixed, "
    "all_correct.",
    "eval/taxonomy/{class}": "Share of greedy completions in this class.",
    "eval/errored": "Share of greedy completions that could not be judged.",
    "eval/mean_length": "Mean greedy completion length in tokens.",
    "eval/clipped_ratio": "Share of greedy completions cut at max_new_tokens.",
    "eval/loss": "Mean loss on held-out targets, nats per token.",
    "eval_se/{metric}": "Standard error over problems of that eval/ metric.",
    # The machine. Never equal in two runs.
    "timing_s/{stage}": "Wall-clock seconds of this stage in the step.",
    "perf/tokens_per_s": "Completion tokens of the step per second of the step.",
    "perf/sampled_tokens_per_s": "Completion tokens per second of sampling.",
    "perf/trained_tokens_per_s": "Prompt and completion tokens per second of update.",
    "perf/samples_per_s": "Completions per second of the step.",
    "perf/scored_per_s": "Completions per second of scoring.",
    "perf/cache_hit_rate": "Share of rows so far whose verdict was known already.",
    "perf/scorer_restarts": "Scoring workers replaced so far.",
    "perf/sandbox_level/{level}": "1 for the level that confines programs, A to D.",
    "perf/compilations": "Programs that jax compiled, or loaded compiled, in the step.",
    "perf/compile_s": "Wall-clock seconds of that.",
    "perf/device_memory_bytes": "Peak bytes in use on the first device.",
    "perf/host_memory_bytes": "Resident bytes of the training process.",
}
"""Every metric and what it means. `{name}` stands for a part without a slash, except
that the last part of `eval_se/{metric}` may have any."""


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

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends one line and hands the metrics to wandb.

        Args:
          step: Updates made so far; above the step of the line before.
          metrics: Numbers by names of `GLOSSARY`. NaN says that there was nothing to
            average.
        """
        assert step > self._last_step, (
            f"step {step} does not follow step {self._last_step}"
        )
        for name in metrics:
            assert definition(name) is not None, (
                f"metric {name!r} is not in the glossary. Define it there."
            )
        self._file.write(_line(step, metrics))
        self._file.flush()
        self._last_step = step
        self._wandb.log(step, metrics)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Hands the result of the run to wandb."""
        self._wandb.summary(values)

    def close(self, *, is_failed: bool = False) -> None:
        """Closes the file and ends the wandb run, as failed where it is."""
        self._file.close()
        self._wandb.close(is_failed=is_failed)


def definition(name: str) -> str | None:
    """Returns what a metric means, or None for a name that is not in the glossary.

    Example:
      >>> definition("rewards/exact/mean")
      'Mean of one reward over the rows that did not abstain.'
    """
    if name in GLOSSARY:
        return GLOSSARY[name]
    for pattern, meaning in _patterns():
        if pattern.fullmatch(name):
            return meaning
    return None


def is_timing(name: str) -> bool:
    """Returns whether a metric depends on the machine and not only on the run.

    Example:
      >>> is_timing("timing_s/sample"), is_timing("reward")
      (True, False)
    """
    return name.startswith(TIMING_PREFIXES)


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
            metrics[f"eval/{name}"] = float(entry["value"])
            metrics[f"eval_se/{name}"] = float(entry["se"])
        else:
            metrics[f"eval/{name}"] = float(entry)
    return metrics


def read_metrics(run_folder: Path) -> list[dict[str, float]]:
    """Returns the written lines in order, each with its `step`.

    A line that is still being written, or was cut off, is left out.
    """
    lines = _complete_lines(run_folder / FILE_NAME)
    return [_parsed(line, run_folder / FILE_NAME) for line in lines]


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(_regular_expression(name)), meaning)
        for name, meaning in GLOSSARY.items()
        if "{" in name
    ]


def _regular_expression(name: str) -> str:
    fixed_parts = re.split(r"\{\w+\}", name)
    part = ".+" if name == "eval_se/{metric}" else "[^/]+"
    return part.join(re.escape(fixed) for fixed in fixed_parts)


def _line(step: int, metrics: Mapping[str, float]) -> str:
    numbers = {"step": str(int(step))} | {
        name: _json_number(float(value)) for name, value in metrics.items()
    }
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
        name: math.nan if value is None else value for name, value in numbers.items()
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
