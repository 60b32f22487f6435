"""The loop: the path of the data, readable top to bottom.

    problems -> prompts -> rollouts -> completions -> scores -> regroup -> update

Each arrow is one call in `_step`. What the run must remember between steps lives in a
few objects made in `train_grpo`: the problem stream, the scorer, the checkpointer, the
metric log. All else is a function or an immutable record.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.assembly import (
    Optimizer,
    base_checksum,
    build_optimizer,
    export_checkpoint,
    initial_state,
    problems_of,
    restored_state,
    run_mesh,
    update_settings,
)
from jaxgrpo.batching import is_prompt_major, rows_of_completions, update_arrays
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.compile_watch import CompileWatch
from jaxgrpo.conclusion import (
    conclude,
    kept_evaluation,
    say_finished,
    say_setting,
)
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.mesh import placed_like, replicated_like
from jaxgrpo.device.model.decoder import Weights
from jaxgrpo.device.model.lora import policy_weights, without_base
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.device.update import UpdateOutputs, UpdateSettings, update
from jaxgrpo.engine import Engine
from jaxgrpo.evaluate import (
    Evaluation,
    check_errors,
    evaluate,
    scored_groups,
    submit_each,
)
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
from jaxgrpo.sampling import drawn_groups, training_engine
from jaxgrpo.scorer_setup import build_scorer
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
    engine: Engine
    """Draws the completions of the steps."""
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
    compile_watch: CompileWatch
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
    engine = training_engine(config, policy)
    report = console.counter("preparing problems")
    source = problems_of(config.data, config.data.split, report=report)
    optimizer = build_optimizer(config.optimizer, num_updates=config.num_updates)
    state = initial_state(
        initial_weights(policy, config, run_mesh(config)), optimizer, policy, config
    )
    loop: dict[str, Any] = {}
    latest = checkpointer.latest_step()
    if latest is not None:
        state, loop = restored_state(checkpointer, latest, state)
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
        CompileWatch(expected=_programs_of(engine)) as compile_watch,
    ):
        run = _Run(
            config=config,
            policy=policy,
            engine=engine,
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
            compile_watch=compile_watch,
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
                policy_weights(state), run.policy, run.validation, run.scorer, config,
                step=made, with_samples=False,
            )  # fmt: skip
            metrics |= evaluation_metrics(result)
        run.log.write(made, metrics)
        run.console.step(made, metrics)
        run.counters.wall_s = already_s + time.monotonic() - run.begun_s
        run.checkpointer.save_if_due(
            made,
            made == num_steps,
            without_base(state),
            partial(_loop_state, run, state),
        )
    after = _evaluated(run, policy_weights(state), run.policy, "after", step=num_steps)
    evaluations = {"before": before, "after": after}
    if run.reference is not None:
        weights = initial_weights(run.reference, config, run_mesh(config))
        evaluations["reference"] = _evaluated(
            run, weights, run.reference, "reference", step=0
        )
    run.counters.wall_s = already_s + time.monotonic() - run.begun_s
    _finish(run, state, evaluations, resumed_from=first_step)


def _step(
    run: _Run, state: TrainState, step: int
) -> tuple[TrainState, dict[str, float]]:
    """One step: the whole path of the data."""
    clock = Stopwatch()
    run.compile_watch.skip()  # evaluations have shapes of their own
    problems, prompts = _next_prompts(run)
    clock.lap("prompt")
    drawn = _drawn(run, state, step, problems, prompts)
    submitted = submit_each(run.scorer, drawn)  # scored while others are drawn
    clock.lap("sample")
    scored = scored_groups(submitted)
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
    metrics |= run.scorer.metrics() | run.compile_watch.take()
    metrics["dropped_groups"] = len(scored) - len(groups)
    warnings = warnings_of(metrics, gap_limit=run.config.log.sampler_gap_warning)
    for text in warnings + run.compile_watch.excess():
        run.console.warn(f"step {step + 1}: {text}")
    return state, metrics | clock.metrics(num_sampled(scored))


def _drawn(
    run: _Run,
    state: TrainState,
    step: int,
    problems: Sequence[Problem],
    prompts: Sequence[Prompt],
) -> Iterator[tuple[int, Group]]:
    """G completions of each prompt, a group as it is completed."""
    return drawn_groups(
        run.engine,
        policy_weights(state),
        run.policy,
        problems,
        prompts,
        seed=run.config.run.seed,
        purpose=PURPOSE_TRAIN,
        step=step,
        temperature=run.config.sampling.temperature,
        policy_step=int(state.step),
    )


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
        replicated_like(run.engine.constraints, state.params),
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
    run: _Run, params: Weights, policy: Policy, name: str, *, step: int
) -> Evaluation:
    return kept_evaluation(
        run.folder.path, name, params, policy, run.scorer, run.config, run.console,
        step=step,
    )  # fmt: skip


def _evaluated_before(run: _Run, state: TrainState, first_step: int) -> Evaluation:
    """The evaluation of the first weights, also where its file was lost meanwhile."""
    params = policy_weights(state)
    if first_step and not (run.folder.path / "evaluation_before.json").exists():
        params = initial_weights(run.policy, run.config, run_mesh(run.config))
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
    weights = policy_weights(state)
    export_checkpoint(path / "export", run.policy, weights, dtype="float32")
    summary = {
        **vars(run.counters),
        "num_steps": run.config.run.num_steps,
        "resumed_from": resumed_from,
        "seed": run.config.run.seed,
        "scorer": run.scorer.counters(),
    }
    run.log.summary(evaluation_metrics(evaluations["after"]))
    conclude(run.folder, run.config, run.console, evaluations, summary)


def _programs_of(engine: Engine) -> dict[str, int]:
    """How many programs each function of a step may have."""
    num_widths = len(engine.settings.prompt_widths)
    return {
        "prefill": num_widths,
        "insert": num_widths,
        "decode_segment": engine.settings.num_segment_programs,
        "update": 2,  # with and without a gather of prompts
    }


def _loop_state(run: _Run, state: TrainState) -> dict[str, Any]:
    return {
        "base_checksum": base_checksum(state.base_params),
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
