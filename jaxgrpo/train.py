"""The loop: the path of the data, readable top to bottom.

    problems -> prompts -> rollouts -> completions -> scores -> regroup -> update

Each arrow is one call in `_step`. What the run must remember between steps lives in a
few objects made in `train_grpo`: the problem stream, the scorer, the checkpointer, the
metric log. All else is a function or an immutable record.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.assembly import (
    Optimizer,
    abstract_state,
    build_optimizer,
    build_scorer,
    export_checkpoint,
    initial_state,
    problems_of,
    update_settings,
)
from jaxgrpo.batching import group_keys, prompt_arrays, sampled_groups, update_arrays
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.device.sampling.sample import sample
from jaxgrpo.device.update import UpdateSettings, update
from jaxgrpo.evaluate import Evaluation, evaluate, score_groups
from jaxgrpo.host.records import Problem, Prompt
from jaxgrpo.host.regroup import Regrouper, regroup
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.metrics_log import MetricLog, evaluation_metrics
from jaxgrpo.policy import Policy, initial_weights, load_policy
from jaxgrpo.problems.stream import ProblemStream
from jaxgrpo.report.curves import write_curves, write_evaluation_plot
from jaxgrpo.rollout_table import drop_after, write_rollouts
from jaxgrpo.run_folder import RunFolder, environment
from jaxgrpo.step_metrics import error_share, group_metrics, total_rewards
from jaxgrpo.weights import checkpoint_folder


def train(config: Config, run_folder: Path) -> None:
    """Runs the configured training, or continues what the folder holds.

    Args:
      config: A whole, checked configuration.
      run_folder: Created if needed; everything that the run leaves is in it.
    """
    if config.run.mode == "supervised":
        from jaxgrpo.supervise import train_supervised

        train_supervised(config, run_folder)
    else:
        train_grpo(config, run_folder)


@dataclass(kw_only=True)
class _Counters:
    """Totals since the run began; saved with every checkpoint."""

    num_tokens: int = 0
    num_problems: int = 0
    dropped_prompts: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What every step uses; its parts with state are closed by `train_grpo`."""

    config: Config
    policy: Policy
    optimizer: Optimizer
    settings: UpdateSettings
    weights: dict[str, float]
    """Factor of each reward, in config order."""
    folder: RunFolder
    scorer: Scorer
    problems: ProblemStream
    validation: Sequence[Problem]
    regroupers: tuple[Regrouper, ...]
    checkpointer: Checkpointer
    log: MetricLog
    console: Console
    counters: _Counters = field(default_factory=_Counters)


def train_grpo(config: Config, folder: Path) -> None:
    """Learns from scored samples, between an evaluation before and one after."""
    weights = {name: reward.weight for name, reward in config.rewards.items()}
    with (
        RunFolder(folder) as run_folder,
        Console(config.log.console, config.run.num_steps) as console,
    ):
        run_folder.adopt_config(config.model_dump(mode="json"))
        if run_folder.is_finished:
            _say_finished(run_folder, console)
            return
        with (
            build_scorer(config.scorer, list(weights)) as scorer,
            Checkpointer(
                run_folder.checkpoints,
                every_steps=config.checkpoint.every_steps,
                keep=config.checkpoint.keep,
            ) as checkpointer,
        ):
            report = console.counter("preparing problems")
            policy = load_policy(config.model, config.prompt)
            source = problems_of(config.data, config.data.split, report=report)
            validation = problems_of(
                config.data,
                "validation",
                limit=config.evaluation.num_validation_problems,
            )
            optimizer = build_optimizer(
                config.optimizer, num_updates=config.num_updates
            )
            params = initial_weights(policy, config)
            state = initial_state(params, optimizer, policy, config)
            loop: dict[str, Any] = {}
            latest = checkpointer.latest_step()
            if latest is not None:
                state, loop = checkpointer.restore(latest, abstract_state(state))
                console.note(f"continuing from step {latest}.")
            drop_after(folder, latest or 0)
            with (
                MetricLog(
                    folder,
                    wandb_mode=config.log.wandb,
                    project=config.log.wandb_project,
                    config=config.model_dump(mode="json"),
                    wandb_id=loop.get("wandb_id"),
                    resume_step=latest,
                    notify=console.note,
                ) as log,
                ProblemStream(source, batch_size=1, seed=config.run.seed) as problems,
            ):
                run = _Run(
                    config=config,
                    policy=policy,
                    optimizer=optimizer,
                    settings=update_settings(config, policy),
                    weights=weights,
                    folder=run_folder,
                    scorer=scorer,
                    problems=problems,
                    validation=validation,
                    regroupers=(),
                    checkpointer=checkpointer,
                    log=log,
                    console=console,
                )
                _restore_loop(run, loop)
                _run_steps(run, state, first_step=latest or 0)


def _run_steps(run: _Run, state: TrainState, *, first_step: int) -> None:
    config, begun = run.config, time.monotonic()
    already_s = run.counters.wall_s
    before = _test_evaluation(run, state, "before", step=0)
    num_steps = config.run.num_steps
    for step in range(first_step, num_steps):
        state, metrics = _step(run, state, step)
        made = step + 1
        every = config.evaluation.every_steps
        if every and made % every == 0 and made < num_steps:
            result = evaluate(
                state.params, run.policy, run.validation, run.scorer, config,
                step=made, with_samples=False,
            )  # fmt: skip
            metrics |= evaluation_metrics(result)
        run.log.write(made, metrics)
        run.console.step(made, metrics)
        run.counters.wall_s = already_s + time.monotonic() - begun
        run.checkpointer.save_if_due(
            made, made == num_steps, state, lambda: _loop_state(run)
        )
    after = _test_evaluation(run, state, "after", step=num_steps)
    run.counters.wall_s = already_s + time.monotonic() - begun
    _finish(run, state, before, after, resumed_from=first_step)


def _step(
    run: _Run, state: TrainState, step: int
) -> tuple[TrainState, dict[str, float]]:
    """One step: the whole path of the data."""
    config, clock = run.config, _Clock()
    problems, prompts = _next_prompts(run)
    num_prompts = config.sampling.problems_per_step
    group_size = config.sampling.group_size
    temperature = jnp.float32(config.sampling.temperature)
    shape = {
        "num_prompts": num_prompts,
        "num_positions": config.prompt.max_prompt_tokens,
    }
    clock.lap("prompt")
    rollouts = sample(
        state.params,
        prompt_arrays(prompts, **shape),
        group_keys(
            problems,
            seed=config.run.seed,
            purpose=PURPOSE_TRAIN,
            step=step,
            num_prompts=num_prompts,
            group_size=group_size,
        ),
        temperature,
        state.step,
        architecture=run.policy.architecture,
        settings=run.policy.sampler(
            group_size=group_size, max_new_tokens=config.sampling.max_new_tokens
        ),
    )
    jax.block_until_ready(rollouts)
    clock.lap("sample")
    sampled = sampled_groups(run.policy, problems, prompts, rollouts)
    scored = score_groups(run.scorer, sampled)
    _check_errors(run, error_share(scored))
    groups = regroup(scored, run.regroupers)
    clock.lap("score")
    batch = update_arrays(
        groups,
        list(run.weights),
        seed=config.run.seed,
        purpose=PURPOSE_TRAIN,
        step=step,
        num_rows=config.batch_size,
        num_columns=config.sampling.max_new_tokens,
        **shape,
    )
    learning_rate = run.optimizer.learning_rate(
        step * config.objective.updates_per_rollout * config.objective.minibatches
    )
    state, metrics, outputs = update(
        state,
        *batch,
        temperature,
        architecture=run.policy.architecture,
        optimizer=run.optimizer.transformation,
        settings=run.settings,
    )
    metrics, outputs = jax.device_get((metrics, outputs))
    clock.lap("update")
    num_rows = sum(len(group.completions) for group in groups)
    write_rollouts(
        run.folder.path,
        step + 1,
        groups,
        rewards_total=total_rewards(groups, run.weights),
        advantages=outputs.advantages_B[:num_rows],
        trainer_logprobs=outputs.logprobs_BT[:num_rows],
        entropies=outputs.entropies_BT[:num_rows],
    )
    clock.lap("write")
    num_tokens = int(np.sum(batch[1].lengths_B))
    run.counters.num_problems += len(problems)
    run.counters.num_tokens += num_tokens + sum(len(p.token_ids) for p in prompts)
    numbers = {name: float(value) for name, value in metrics.items()}
    numbers |= group_metrics(scored, run.weights)
    numbers |= {
        "dropped_groups": len(scored) - len(groups),
        "learning_rate": float(learning_rate),
        "num_tokens": run.counters.num_tokens,
        "num_problems": run.counters.num_problems,
        "dropped_prompts": run.counters.dropped_prompts,
    }
    _warn_of_gap(run, step + 1, numbers)
    return state, numbers | clock.metrics(num_tokens)


def _next_prompts(run: _Run) -> tuple[list[Problem], list[Prompt]]:
    """The next Q problems whose prompts fit, with their prompts."""
    problems: list[Problem] = []
    prompts: list[Prompt] = []
    while len(prompts) < run.config.sampling.problems_per_step:
        (problem,) = next(run.problems)
        prompt = run.policy.encode(problem)
        if len(prompt.token_ids) > run.config.prompt.max_prompt_tokens:
            run.counters.dropped_prompts += 1
            continue
        problems.append(problem)
        prompts.append(prompt)
    return problems, prompts


def _check_errors(run: _Run, share: float) -> None:
    limit = run.config.scorer.max_error_share
    if share > limit:
        raise RuntimeError(
            f"{share:.0%} of the step's rows could not be scored, more than "
            f"scorer.max_error_share {limit:.0%}. Look at abstain reasons in the "
            "rollouts table and at `jaxgrpo doctor`."
        )


def _warn_of_gap(run: _Run, step: int, numbers: dict[str, float]) -> None:
    gap = numbers["sampling/sampling_logp_difference/mean"]
    limit = run.config.log.sampler_gap_warning
    if gap > limit:
        run.console.warn(
            f"step {step}: sampler and trainer differ by {gap:.2g} nats per token, "
            f"more than log.sampler_gap_warning {limit:.2g}."
        )
    if numbers["update_skipped"]:
        run.console.warn(
            f"step {step}: loss or gradient was not finite; the update was left out."
        )


def _test_evaluation(run: _Run, state: TrainState, name: str, *, step: int) -> Any:
    """The evaluation before or after, measured once and kept in the run folder."""
    path = run.folder.path / f"evaluation_{name}.json"
    if path.exists() and name == "before":
        return json.loads(path.read_text())
    e = run.config.evaluation
    result = evaluate(
        state.params,
        run.policy,
        problems_of(run.config.data, e.split, limit=e.num_problems),
        run.scorer,
        run.config,
        step=step,
        with_samples=True,
        report=run.console.counter(f"evaluating {name}"),
    )
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=2) + "\n")
    temporary.replace(path)
    exact = result["exact_match"]
    run.console.note(
        f"{name}: exact match {exact['value']:.3f} (se {exact['se']:.3f}) on "
        f"{result['num_problems']} {e.split} problems."
    )
    return result


def _loop_state(run: _Run) -> dict[str, Any]:
    return {
        "problems": run.problems.state_dict(),
        "counters": vars(run.counters),
        "wandb_id": run.log.wandb_id,
        "regroupers": {r.name: r.state_dict() for r in run.regroupers},
    }


def _restore_loop(run: _Run, loop: dict[str, Any]) -> None:
    if not loop:
        return
    run.problems.load_state_dict(loop["problems"])
    vars(run.counters).update(loop["counters"])
    for regrouper in run.regroupers:
        regrouper.load_state_dict(loop["regroupers"][regrouper.name])


def _finish(
    run: _Run,
    state: TrainState,
    before: Evaluation,
    after: Evaluation,
    *,
    resumed_from: int,
) -> None:
    """Exports the weights, writes table, plots and summary."""
    path = run.folder.path
    export_checkpoint(path / "export", run.policy, state.params, dtype="float32")
    evaluations = {"before": before, "after": after}
    reference = _reference(run.config)
    if reference is not None:
        evaluations["reference"] = reference
    table = run.console.table(evaluations, title=f"{run.config.evaluation.split} split")
    (path / "evaluation.md").write_text(table + "\n")
    write_curves(path)
    write_evaluation_plot(path, evaluations)
    summary = {
        **evaluations,
        **vars(run.counters),
        "num_steps": run.config.run.num_steps,
        "resumed_from": resumed_from,
        "seed": run.config.run.seed,
        "scorer": run.scorer.counters(),
        **environment([str(device) for device in jax.devices()]),
    }
    run.folder.write_summary(summary)
    run.log.summary(evaluation_metrics(after))
    run.console.note(f"finished in {run.counters.wall_s:.0f} s; everything is in {path}.")


def _reference(config: Config) -> Evaluation | None:
    if not config.evaluation.reference:
        return None
    folder = checkpoint_folder(config.evaluation.reference)
    return json.loads((folder / "evaluation.json").read_text())


def _say_finished(folder: RunFolder, console: Console) -> None:
    summary = folder.read_summary()
    names = [n for n in ("before", "after", "reference") if n in summary]
    console.note(
        f"{folder.path} holds a finished run of {summary['num_steps']} steps. Raise "
        "run.num_steps to go on, or choose another folder with --run DIR."
    )
    console.table({name: summary[name] for name in names})


class _Clock:
    """Seconds of the stages of a step."""

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """Ends a stage."""
        now = time.monotonic()
        self._laps[stage] = now - self._last
        self._last = now

    def metrics(self, num_tokens: int) -> dict[str, float]:
        """The stages' seconds and tokens per second."""
        total = self._last - self._begun
        metrics = {f"timing_s/{name}": seconds for name, seconds in self._laps.items()}
        return metrics | {
            "timing_s/step": total,
            "perf/tokens_per_s": num_tokens / total,
            "perf/sampled_tokens_per_s": num_tokens / self._laps["sample"],
        }
