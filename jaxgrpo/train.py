"""The loop: the path of the data, readable top to bottom.

    problems -> prompts -> rollouts -> completions -> scores -> regroup -> update

Each arrow is one call in `_step`. What the run must remember between steps lives in a
few objects made in `train_grpo`: the problem stream, the scorer, the checkpointer, the
metric log. All else is a function or an immutable record.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxgrpo.assembly import (
    base_checksum,
    build_optimizer,
    expected_programs,
    export_checkpoint,
    initial_state,
    restored_state,
    run_mesh,
    validation_problems,
)
from jaxgrpo.calibration import calibrate
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.compile_watch import CompileWatch
from jaxgrpo.conclusion import conclude, say_finished, say_setting
from jaxgrpo.config import Config
from jaxgrpo.config_guard import guard_limits, guard_warnings
from jaxgrpo.console import Console
from jaxgrpo.device.model.lora import policy_weights, without_base
from jaxgrpo.device.records import TrainState
from jaxgrpo.distilling import Distilling
from jaxgrpo.drawing import Drawing, build_drawing
from jaxgrpo.evaluate import submit_each
from jaxgrpo.evaluation.outcomes import Evaluation
from jaxgrpo.held_out import HeldOut
from jaxgrpo.host.collapse_guard import CollapseGuard
from jaxgrpo.host.credit.blame_metrics import blame_metrics, blame_warnings
from jaxgrpo.host.credit.step_metrics import step_metrics
from jaxgrpo.host.diversity import NGRAM, diversity_metrics
from jaxgrpo.host.regroup import (
    Regrouper,
    Turn,
    left_out,
    regroup,
    regroup_metrics,
)
from jaxgrpo.host.rewards.histogram import Histogram
from jaxgrpo.host.rewards.schedule import RewardWeights
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.learning import Learning, build_learning
from jaxgrpo.memory_metrics import memory_metrics
from jaxgrpo.methods import build_regroupers
from jaxgrpo.metrics_log import MetricLog, evaluation_metrics
from jaxgrpo.policy import (
    Policy,
    check_lengths,
    initial_weights,
    load_policy,
    load_reference,
)
from jaxgrpo.problems.stream import ProblemStream
from jaxgrpo.reward_setup import reward_weights
from jaxgrpo.rollout_table import drop_after, write_rollouts
from jaxgrpo.run_folder import RunFolder
from jaxgrpo.sampling import training_engine
from jaxgrpo.scorer_setup import training_scorer
from jaxgrpo.step_metrics import (
    Counters,
    group_metrics,
    group_tokens,
    num_sampled,
    num_tokens,
    reward_histograms,
    total_rewards,
    updated_group_metrics,
    warnings_of,
)
from jaxgrpo.stopwatch import Stopwatch
from jaxgrpo.training_problems import training_problems


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
    drawing: Drawing
    distilling: Distilling
    learning: Learning
    weights: RewardWeights
    """Factor of each reward in a step."""
    folder: RunFolder
    scorer: Scorer
    held_out: HeldOut
    regroupers: tuple[Regrouper, ...]
    guard: CollapseGuard
    checkpointer: Checkpointer
    log: MetricLog
    compile_watch: CompileWatch
    console: Console
    reference: Policy | None
    """Model whose evaluation is shown beside the result."""
    begun_s: float
    """Clock when this process began the run."""
    counters: Counters


def train_grpo(config: Config, folder: Path) -> None:
    """Learns from scored samples, between an evaluation before and one after."""
    begun_s = time.monotonic()
    weights = reward_weights(config)
    with (
        RunFolder(folder) as run_folder,
        Console(config.log.console, config.num_steps) as console,
    ):
        run_folder.adopt_config(config.model_dump(mode="json"))
        if run_folder.is_finished:
            say_finished(run_folder, console)
            return
        with (
            training_scorer(config) as scorer,
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
    weights: RewardWeights,
    begun_s: float,
) -> None:
    """Loads policy and problems, restores what the folder holds, and runs the steps."""
    policy = load_policy(config.model, config.prompt)
    check_lengths(config, policy)
    reference = load_reference(config)
    engine = training_engine(config, policy)
    source = training_problems(config, run_folder.path, console)
    optimizer = build_optimizer(config.optimizer, num_updates=config.num_updates)
    state = initial_state(
        initial_weights(policy, config, run_mesh(config)), optimizer, policy, config
    )
    loop: dict[str, Any] = {}
    counters = Counters()
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
        CompileWatch(expected=expected_programs(engine, config)) as compile_watch,
    ):
        drawing = build_drawing(
            config, policy, engine, problems, source, scorer, counters
        )
        run = _Run(
            config=config,
            policy=policy,
            drawing=drawing,
            distilling=Distilling(drawing, run_folder.path, console),
            learning=build_learning(config, policy, optimizer, engine),
            weights=weights,
            folder=run_folder,
            scorer=scorer,
            held_out=HeldOut(
                config=config,
                folder=run_folder.path,
                scorer=scorer,
                console=console,
                validation=validation_problems(config),
            ),
            regroupers=build_regroupers(config),
            guard=CollapseGuard(guard_limits(config)),
            checkpointer=checkpointer,
            log=log,
            compile_watch=compile_watch,
            console=console,
            reference=reference,
            counters=counters,
            begun_s=begun_s,
        )
        _restore_loop(run, loop)
        say_setting(config, policy, scorer, log, console)
        for text in guard_warnings(config):
            console.warn(text)
        _run_steps(run, state, first_step=latest or 0)


def _run_steps(run: _Run, state: TrainState, *, first_step: int) -> None:
    config, already_s = run.config, run.counters.wall_s
    before = _evaluated_before(run, state, first_step)
    number = config.temperature.calibration_problems
    if number and not first_step:
        problems = run.held_out.validation[:number]
        run.console.note(calibrate(run.drawing, policy_weights(state), problems))
    made, num_steps = first_step, config.num_steps
    if not made:
        state, metrics = run.distilling.phase(state, made)
        if metrics:
            run.log.write(made, metrics)
    while made < num_steps and not run.guard.reason:
        state, metrics, histograms = _step(run, state, made)
        made += 1
        state, of_phase = run.distilling.phase(state, made)
        metrics |= of_phase
        every = config.evaluation.every_steps
        if every and made % every == 0 and made < num_steps:
            clock = Stopwatch()
            weights = policy_weights(state)
            metrics |= run.held_out.during(weights, run.policy, step=made)
            metrics["timing_s/testing"] = clock.elapsed_s
        metrics |= run.guard.observe(metrics)
        for name in run.weights.observe(made, metrics):
            run.console.note(f"step {made}: the weight of rewards.{name} switches.")
        run.log.write(made, metrics, histograms)
        run.console.step(made, metrics)
        run.counters.wall_s = already_s + time.monotonic() - run.begun_s
        run.checkpointer.save_if_due(
            made,
            made == num_steps or bool(run.guard.reason),
            without_base(state),
            partial(_loop_state, run, state),
        )
    if run.guard.reason:
        run.console.warn(f"stopped after step {made}: {run.guard.reason}")
    weights = policy_weights(state)
    after = run.held_out.kept("after", weights, run.policy, step=made)
    evaluations = {"before": before, "after": after}
    if run.reference is not None:
        weights = initial_weights(run.reference, config, run_mesh(config))
        evaluations["reference"] = run.held_out.kept(
            "reference", weights, run.reference, step=0
        )
    run.counters.wall_s = already_s + time.monotonic() - run.begun_s
    _finish(run, state, evaluations, num_steps=made, resumed_from=first_step)


def _step(
    run: _Run, state: TrainState, step: int
) -> tuple[TrainState, dict[str, float], dict[str, Histogram]]:
    """One step: the whole path of the data."""
    clock, weights = Stopwatch(), run.weights.at(step)
    run.compile_watch.skip()  # evaluations have shapes of their own
    number = run.config.sampling.problems_per_step
    problems, prompts = run.drawing.step_prompts(number)
    clock.lap("prompt")
    drawn = run.drawing.groups(state, step, problems, prompts)
    # Scored while others are drawn.
    submitted = submit_each(run.scorer, drawn, step=step)
    clock.lap("gen")
    try:
        scored = run.drawing.scored(state, step, submitted)
    finally:  # What a reward printed tells why it stopped the run.
        for name, text in run.scorer.take_outputs().items():
            run.console.note(f"rewards.{name} wrote (shown once):\n{text}")
    clock.lap("reward")
    run.drawing.requested.clear()
    run.drawing.require_scored(scored)
    groups = regroup(scored, run.regroupers, _turn(run, state, step))
    run.drawing.require_scored(scored)
    requested = run.drawing.requested
    others = left_out([*scored, *requested], groups)
    clock.lap("regroup")
    temperature = run.drawing.temperature.current
    state, update_metrics, outputs = run.learning.updated(
        state, step, groups, weights=weights, temperature=temperature
    )
    clock.lap("update_actor")
    write_rollouts(
        run.folder.path,
        step + 1,
        groups,
        rewards_total=total_rewards(groups, weights),
        advantages=np.asarray(outputs.advantages_B),
        trainer_logprobs=np.asarray(outputs.logprobs_BT),
        entropies=np.asarray(outputs.entropies_BT),
        credit=jax.device_get(outputs.credit_BT),
        token_advantages=jax.device_get(outputs.token_advantages_BT),
        left_out=others,
        left_out_total=total_rewards(others, weights),
    )
    clock.lap("dump_rollout_generations")
    gdpo = run.config.objective.is_decoupled
    metrics = update_metrics | group_metrics(scored, weights, is_decoupled=gdpo)
    metrics |= updated_group_metrics(groups, weights, is_decoupled=gdpo)
    metrics |= run.weights.metrics(step)
    metrics |= run.counters.add(prompts, scored)
    metrics |= run.scorer.metrics() | run.compile_watch.take()
    metrics |= regroup_metrics(run.regroupers) | run.drawing.temperature.metrics()
    metrics |= diversity_metrics(scored) | blame_metrics(scored) | step_metrics(scored)
    run.drawing.temperature.observe(metrics[f"diversity/distinct_{NGRAM}"])
    run.drawing.curriculum.observe(scored)
    metrics |= run.drawing.curriculum.metrics() | run.drawing.tail.metrics(scored)
    metrics["dropped_groups"] = len(others)
    metrics["sampling/max_new_tokens"] = run.config.sampling.budget_at(step)
    warnings = warnings_of(metrics, gap_limit=run.config.log.sampler_gap_warning)
    warnings += blame_warnings(scored)
    for text in warnings + run.compile_watch.excess():
        run.console.warn(f"step {step + 1}: {text}")
    num_read = run.counters.num_problems + run.counters.dropped_prompts
    metrics["epoch"] = num_read / run.drawing.num_available
    metrics |= memory_metrics()
    metrics |= clock.metrics(
        num_sampled=num_sampled(scored),
        num_tokens=num_tokens(prompts, scored) + group_tokens(requested),
        num_devices=jax.device_count(),
        num_requested=num_sampled(requested),
    )
    return state, metrics, reward_histograms(scored, weights)


def _turn(run: _Run, state: TrainState, step: int) -> Turn:
    """The step as regroupers see it."""
    return Turn(
        step=step,
        num_steps=run.config.run.num_steps,
        policy_step=int(state.step),
        weights=run.weights.at(step),
        is_decoupled=run.config.objective.is_decoupled,
        draw=partial(run.drawing.scored_on_request, state, step),
        next_problems=run.drawing.more_problems,
    )


def _evaluated_before(run: _Run, state: TrainState, first_step: int) -> Evaluation:
    """The evaluation of the first weights, also where its file was lost meanwhile."""
    params = policy_weights(state)
    if first_step and not (run.folder.path / "evaluation_before.json").exists():
        params = initial_weights(run.policy, run.config, run_mesh(run.config))
    return run.held_out.kept("before", params, run.policy, step=0)


def _finish(
    run: _Run,
    state: TrainState,
    evaluations: dict[str, Evaluation],
    *,
    num_steps: int,
    resumed_from: int,
) -> None:
    """Exports the weights; writes table, pictures and summary."""
    path = run.folder.path
    weights = policy_weights(state)
    export_checkpoint(path / "export", run.policy, weights, dtype="float32")
    summary = {
        **vars(run.counters),
        "num_steps": num_steps,
        "stopped_because": run.guard.reason,
        "resumed_from": resumed_from,
        "seed": run.config.run.seed,
        "scorer": run.scorer.counters(),
    }
    run.log.summary(evaluation_metrics(evaluations["after"]))
    tails = run.held_out.tails
    conclude(run.folder, run.config, run.console, evaluations, tails, summary)


def _loop_state(run: _Run, state: TrainState) -> dict[str, Any]:
    return {
        "base_checksum": base_checksum(state.base_params),
        "guard": run.guard.state_dict(),
        "reward_weights": run.weights.state_dict(),
        "problems": run.drawing.problems.state_dict(),
        "curriculum": run.drawing.curriculum.state_dict(),
        "training_tail": run.drawing.tail.state_dict(),
        "temperature": run.drawing.temperature.state_dict(),
        "counters": vars(run.counters),
        "held_out": run.held_out.state_dict(),
        "wandb_id": run.log.wandb_id,
        "regroupers": {r.name: r.state_dict() for r in run.regroupers},
    }


def _restore_loop(run: _Run, loop: dict[str, Any]) -> None:
    if not loop:
        return
    run.guard.load_state_dict(loop["guard"])
    run.weights.load_state_dict(loop["reward_weights"])
    run.drawing.problems.load_state_dict(loop["problems"])
    run.drawing.curriculum.load_state_dict(loop["curriculum"])
    run.drawing.tail.load_state_dict(loop["training_tail"])
    run.drawing.temperature.load_state_dict(loop["temperature"])
    vars(run.counters).update(loop["counters"])
    run.held_out.load_state_dict(loop["held_out"])
    for regrouper in run.regroupers:
        regrouper.load_state_dict(loop["regroupers"][regrouper.name])
