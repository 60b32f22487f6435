"""The loop: the path of the data, readable top to bottom.

    problems -> prompts -> rollouts -> completions -> scores -> regroup -> update

Each arrow is one call in `_step`. What the run must remember between steps lives in a
few objects made in `train_grpo`: the problem stream, the scorer, the checkpointer, the
metric log. All else is a function or an immutable record.
"""

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
    placed_weights,
    problems_of,
    update_settings,
)
from jaxgrpo.batching import (
    group_keys,
    is_prompt_major,
    prompt_arrays,
    rows_of_completions,
    sampled_groups,
    update_arrays,
)
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.conclusion import (
    conclude,
    kept_evaluation,
    say_finished,
    say_setting,
)
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.mesh import placed_like
from jaxgrpo.device.model.decoder import Params
from jaxgrpo.device.records import Rollouts, TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.device.sampling.sample import sample
from jaxgrpo.device.update import UpdateOutputs, UpdateSettings, update
from jaxgrpo.evaluate import Evaluation, check_errors, evaluate, score_groups
from jaxgrpo.host.records import Group, Problem, Prompt
from jaxgrpo.host.regroup import Regrouper, regroup
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.metrics_log import MetricLog, evaluation_metrics
from jaxgrpo.policy import (
    Policy,
    check_lengths,
    initial_weights,
    load_policy,
    load_reference,
)
from jaxgrpo.problems.stream import ProblemStream
from jaxgrpo.rollout_table import drop_after, write_rollouts
from jaxgrpo.run_folder import RunFolder
from jaxgrpo.step_metrics import (
    Counters,
    group_metrics,
    num_sampled,
    total_rewards,
    warnings_of,
)
from jaxgrpo.stopwatch import Stopwatch


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
    reference: Policy | None
    """Model whose evaluation is shown beside the result."""
    num_available: int
    """Problems of the training split."""
    begun_s: float
    """Clock when this process began the run."""
    counters: Counters = field(default_factory=Counters)


def train_grpo(config: Config, folder: Path) -> None:
    """Learns from scored samples, between an evaluation before and one after."""
    begun_s = time.monotonic()
    weights = {name: reward.weight for name, reward in config.rewards.items()}
    with (
        RunFolder(folder) as run_folder,
        Console(config.log.console, config.run.num_steps) as console,
    ):
        run_folder.adopt_config(config.model_dump(mode="json"))
        if run_folder.is_finished:
            say_finished(run_folder, console)
            return
        with (
            build_scorer(config.scorer, list(weights)) as scorer,
            Checkpointer(
                run_folder.checkpoints,
                every_steps=config.checkpoint.every_steps,
                keep=config.checkpoint.keep,
            ) as checkpointer,
        ):
            _train_in(
                config, run_folder, console, scorer, checkpointer, weights, begun_s
            )


def _train_in(
    config: Config,
    run_folder: RunFolder,
    console: Console,
    scorer: Scorer,
    checkpointer: Checkpointer,
    weights: dict[str, float],
    begun_s: float,
) -> None:
    """Loads policy and problems, restores what the folder holds, and runs the steps."""
    policy = load_policy(config.model, config.prompt)
    check_lengths(config, policy)
    reference = load_reference(config)
    report = console.counter("preparing problems")
    source = problems_of(config.data, config.data.split, report=report)
    optimizer = build_optimizer(config.optimizer, num_updates=config.num_updates)
    state = initial_state(initial_weights(policy, config), optimizer, policy, config)
    loop: dict[str, Any] = {}
    latest = checkpointer.latest_step()
    if latest is not None:
        state, loop = checkpointer.restore(latest, abstract_state(state))
        console.note(f"continuing from step {latest}.")
    drop_after(run_folder.path, latest or 0)
    with (
        MetricLog(
            run_folder.path,
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
            validation=problems_of(
                config.data,
                "validation",
                limit=config.evaluation.num_validation_problems,
            ),
            regroupers=(),
            checkpointer=checkpointer,
            log=log,
            console=console,
            reference=reference,
            num_available=len(source),
            begun_s=begun_s,
        )
        _restore_loop(run, loop)
        say_setting(policy, scorer, log, console)
        _run_steps(run, state, first_step=latest or 0)


def _run_steps(run: _Run, state: TrainState, *, first_step: int) -> None:
    config, already_s = run.config, run.counters.wall_s
    before = _evaluated_before(run, state, first_step)
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
        run.counters.wall_s = already_s + time.monotonic() - run.begun_s
        run.checkpointer.save_if_due(
            made, made == num_steps, state, lambda: _loop_state(run)
        )
    after = _evaluated(run, state.params, run.policy, "after", step=num_steps)
    evaluations = {"before": before, "after": after}
    if run.reference is not None:
        weights = initial_weights(run.reference, config)
        evaluations["reference"] = _evaluated(
            run, placed_weights(weights, run.reference, config), run.reference,
            "reference", step=0,
        )  # fmt: skip
    run.counters.wall_s = already_s + time.monotonic() - run.begun_s
    _finish(run, state, evaluations, resumed_from=first_step)


def _step(
    run: _Run, state: TrainState, step: int
) -> tuple[TrainState, dict[str, float]]:
    """One step: the whole path of the data."""
    clock = Stopwatch()
    problems, prompts = _next_prompts(run)
    clock.lap("prompt")
    rollouts = _sampled(run, state, step, problems, prompts)
    clock.lap("sample")
    completed = sampled_groups(run.policy, problems, prompts, rollouts)
    scored = score_groups(run.scorer, completed)
    check_errors(scored, run.config.scorer.max_error_share)
    groups = regroup(scored, run.regroupers)
    clock.lap("score")
    state, update_metrics, outputs = _updated(run, state, step, groups)
    clock.lap("update")
    write_rollouts(
        run.folder.path,
        step + 1,
        groups,
        rewards_total=total_rewards(groups, run.weights),
        advantages=np.asarray(outputs.advantages_B),
        trainer_logprobs=np.asarray(outputs.logprobs_BT),
        entropies=np.asarray(outputs.entropies_BT),
    )
    clock.lap("write")
    metrics = update_metrics | group_metrics(scored, run.weights)
    metrics |= run.counters.add(prompts, scored)
    metrics["dropped_groups"] = len(scored) - len(groups)
    for text in warnings_of(metrics, gap_limit=run.config.log.sampler_gap_warning):
        run.console.warn(f"step {step + 1}: {text}")
    return state, metrics | clock.metrics(num_sampled(scored))


def _sampled(
    run: _Run,
    state: TrainState,
    step: int,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
) -> Rollouts:
    """G completions of each prompt, on the device."""
    s = run.config.sampling
    keys_B = group_keys(
        problems,
        seed=run.config.run.seed,
        purpose=PURPOSE_TRAIN,
        step=step,
        num_prompts=s.problems_per_step,
        group_size=s.group_size,
    )
    arrays = prompt_arrays(
        prompts,
        num_prompts=s.problems_per_step,
        num_positions=run.config.prompt.max_prompt_tokens,
    )
    rollouts = sample(
        state.params,
        *placed_like((arrays, keys_B), state.params),
        jnp.float32(s.temperature),
        state.step,
        architecture=run.policy.architecture,
        settings=run.policy.sampler(
            group_size=s.group_size, max_new_tokens=s.max_new_tokens
        ),
    )
    return jax.block_until_ready(rollouts)


def _updated(
    run: _Run, state: TrainState, step: int, groups: Sequence[Group]
) -> tuple[TrainState, dict[str, float], UpdateOutputs]:
    """The state after learning from scored groups; metrics, and values per completion.

    The values stand in the order of the groups' completions.
    """
    config, o = run.config, run.config.objective
    batch = update_arrays(
        groups,
        list(run.weights),
        seed=config.run.seed,
        purpose=PURPOSE_TRAIN,
        step=step,
        num_prompts=config.sampling.problems_per_step,
        num_rows=config.batch_size,
        num_positions=config.prompt.max_prompt_tokens,
        num_columns=config.sampling.max_new_tokens,
    )
    updates_made = step * o.updates_per_rollout * o.minibatches
    learning_rate = run.optimizer.learning_rate_at(updates_made)
    is_plain = is_prompt_major(batch[1], config.sampling.problems_per_step)
    state, metrics, outputs = update(
        state,
        *placed_like(batch, state.params),
        jnp.float32(config.sampling.temperature),
        architecture=run.policy.architecture,
        optimizer=run.optimizer.transformation,
        settings=run.settings._replace(is_prompt_major=is_plain),
    )
    rows = rows_of_completions(groups)
    metrics, outputs = jax.device_get((metrics, outputs))
    outputs = jax.tree.map(lambda values: values[rows], outputs)
    numbers = {name: float(value) for name, value in metrics.items()}
    return state, numbers | {"learning_rate": learning_rate}, outputs


def _next_prompts(run: _Run) -> tuple[list[Problem], list[Prompt]]:
    """The next Q problems whose prompts fit, with their prompts."""
    problems: list[Problem] = []
    prompts: list[Prompt] = []
    num_drawn = 0
    while len(prompts) < run.config.sampling.problems_per_step:
        if num_drawn > run.num_available and not prompts:
            raise ValueError(
                f"none of the {run.num_available} training prompts fits in "
                f"prompt.max_prompt_tokens {run.config.prompt.max_prompt_tokens}. "
                "Raise it."
            )
        (problem,) = next(run.problems)
        num_drawn += 1
        prompt = run.policy.encode(problem)
        if len(prompt.token_ids) > run.config.prompt.max_prompt_tokens:
            run.counters.dropped_prompts += 1
            continue
        problems.append(problem)
        prompts.append(prompt)
    return problems, prompts


def _evaluated(
    run: _Run, params: Params, policy: Policy, name: str, *, step: int
) -> Evaluation:
    return kept_evaluation(
        run.folder.path, name, params, policy, run.scorer, run.config, run.console,
        step=step,
    )  # fmt: skip


def _evaluated_before(run: _Run, state: TrainState, first_step: int) -> Evaluation:
    """The evaluation of the first weights, also where its file was lost meanwhile."""
    params = state.params
    if first_step and not (run.folder.path / "evaluation_before.json").exists():
        weights = initial_weights(run.policy, run.config)
        params = placed_weights(weights, run.policy, run.config)
    return _evaluated(run, params, run.policy, "before", step=0)


def _finish(
    run: _Run,
    state: TrainState,
    evaluations: dict[str, Evaluation],
    *,
    resumed_from: int,
) -> None:
    """Exports the weights; writes table, pictures and summary."""
    path = run.folder.path
    export_checkpoint(path / "export", run.policy, state.params, dtype="float32")
    summary = {
        **vars(run.counters),
        "num_steps": run.config.run.num_steps,
        "resumed_from": resumed_from,
        "seed": run.config.run.seed,
        "scorer": run.scorer.counters(),
    }
    run.log.summary(evaluation_metrics(evaluations["after"]))
    conclude(run.folder, run.config, run.console, evaluations, summary)


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
