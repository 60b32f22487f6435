"""The supervised mode of the trainer: phases of imitation, each one exported."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax

from jaxgrpo.assembly import (
    Optimizer,
    base_checksum,
    build_optimizer,
    export_checkpoint,
    initial_state,
    problems_of,
    restarted_state,
    restored_state,
    run_mesh,
    validation_problems,
)
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.conclusion import say_setting
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.mesh import placed_like
from jaxgrpo.device.model.lora import plain_weights, policy_weights, without_base
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.supervised import (
    Examples,
    SupervisedSettings,
    supervised_update,
)
from jaxgrpo.evaluate import Evaluation, evaluate
from jaxgrpo.host.records import Problem
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.imitation import ExampleStream
from jaxgrpo.metrics_log import MetricLog, evaluation_metrics
from jaxgrpo.policy import Policy, check_lengths, initial_weights, load_policy
from jaxgrpo.problems.targets import target_style
from jaxgrpo.report.curves import write_curves
from jaxgrpo.report.evaluation_chart import write_evaluation
from jaxgrpo.run_folder import RunFolder, environment, write_whole
from jaxgrpo.scorer_setup import build_scorer
from jaxgrpo.training_problems import training_problems

EXPORT_DTYPE = "float16"
"""Of exported weights: half the size, and 8 times finer than bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tools:
    """What every phase uses."""

    config: Config
    policy: Policy
    run: RunFolder
    scorer: Scorer
    checkpointer: Checkpointer
    log: MetricLog
    console: Console
    problems: Sequence[Problem]
    validation: Sequence[Problem]
    begun_s: float
    """Clock when the run began, interruptions taken out."""

    @property
    def wall_s(self) -> float:
        """Seconds that the run has taken so far."""
        return time.monotonic() - self.begun_s


def train_supervised(config: Config, folder: Path) -> None:
    """Runs all phases, or continues where the folder's last checkpoint stands."""
    begun_s = time.monotonic()
    for stage in config.supervised.stages:
        target_style(config.data.dataset, stage.targets)  # refused now, not later
    with (
        RunFolder(folder) as run,
        Console(config.log.console, _num_steps(config)) as console,
    ):
        run.adopt_config(config.model_dump(mode="json"))
        if run.is_finished:
            console.note(f"{folder} holds a finished run: see {folder}/summary.json.")
            console.table(run.read_summary()["evaluations"])
            return
        with (
            build_scorer(config.scorer, ["exact"]) as scorer,
            Checkpointer(
                run.checkpoints,
                every_steps=config.checkpoint.every_steps,
                keep=config.checkpoint.keep,
            ) as checkpointer,
        ):
            _train_in(config, run, console, scorer, checkpointer, begun_s)


def _train_in(
    config: Config,
    run: RunFolder,
    console: Console,
    scorer: Scorer,
    checkpointer: Checkpointer,
    begun_s: float,
) -> None:
    """Loads policy and problems, and runs the phases that are left."""
    policy = load_policy(config.model, config.prompt)
    check_lengths(config, policy)
    problems = training_problems(config, run.path, console)
    validation = validation_problems(config)
    latest = checkpointer.latest_step()
    loop = {} if latest is None else checkpointer.loop_state(latest)
    with MetricLog(
        run.path,
        wandb_mode=config.log.wandb,
        project=config.log.wandb_project,
        config=config.model_dump(mode="json"),
        wandb_id=loop.get("wandb_id"),
        resume_step=latest,
        notify=console.note,
    ) as log:
        tools = _Tools(
            config=config,
            policy=policy,
            run=run,
            scorer=scorer,
            checkpointer=checkpointer,
            log=log,
            console=console,
            problems=problems,
            validation=validation,
            # As if the run had begun this long ago and never stopped.
            begun_s=begun_s - loop.get("wall_s", 0.0),
        )
        say_setting(config, policy, scorer, log, console)
        _run_stages(tools, latest)


def _run_stages(tools: _Tools, latest: int | None) -> None:
    config = tools.config
    first_step, evaluations, state = 0, {}, None
    for index, stage in enumerate(config.supervised.stages):
        last_step = first_step + stage.num_steps
        optimizer = build_optimizer(
            config.optimizer,
            num_updates=stage.num_steps,
            scale=stage.learning_rate_scale,
        )
        if state is None:
            state = initial_state(
                initial_weights(tools.policy, config, run_mesh(config)),
                optimizer,
                tools.policy,
                config,
            )
        else:
            state = restarted_state(state, optimizer, first_step)
        if latest is None or latest < last_step:
            resumed = latest if latest is not None and latest > first_step else None
            state = _run_stage(tools, index, first_step, state, optimizer, resumed)
        elif latest == last_step:
            state, _ = restored_state(tools.checkpointer, latest, state)
        if latest is None or latest <= last_step:  # else a later phase has the weights
            evaluations[stage.name] = _finish_stage(tools, stage.name, state)
        first_step = last_step
    for stage in config.supervised.stages:
        if stage.name not in evaluations:
            evaluations[stage.name] = json.loads(
                (_export(tools, stage.name) / "evaluation.json").read_text()
            )
    table = tools.console.table(evaluations, title=f"{config.evaluation.split} split")
    (tools.run.path / "evaluation.md").write_text(table + "\n")
    write_curves(tools.run.path)
    write_evaluation(tools.run.path, evaluations)
    tools.run.write_summary(
        {
            "evaluations": evaluations,
            "wall_s": tools.wall_s,
            "num_steps": first_step,
            "resumed_from": latest,
            "seed": config.run.seed,
            **environment([str(device) for device in jax.devices()]),
        }
    )


def _run_stage(
    tools: _Tools,
    index: int,
    first_step: int,
    state: TrainState,
    optimizer: Optimizer,
    resumed: int | None,
) -> TrainState:
    """The updates of one phase."""
    config = tools.config
    stage = config.supervised.stages[index]
    last_step = first_step + stage.num_steps
    with _example_stream(tools, index) as examples:
        start = first_step
        if resumed is not None:
            state, loop = restored_state(tools.checkpointer, resumed, state)
            examples.load_state_dict(loop["examples"])
            start = resumed
            tools.console.note(f"continuing {stage.name} from step {resumed}.")
        for step in range(start, last_step):
            begun, tokens_before = time.monotonic(), examples.num_tokens
            learning_rate = optimizer.learning_rate_at(step - first_step)
            state, metrics = _updated(tools, state, optimizer, next(examples))
            seconds = time.monotonic() - begun
            made = step + 1
            metrics |= {
                "num_tokens": examples.num_tokens,
                "learning_rate": learning_rate,
                "stage": index,
                "dropped_prompts": examples.num_dropped,
                "timing_s/step": seconds,
                "perf/trained_tokens_per_s": (examples.num_tokens - tokens_before)
                / seconds,
            }
            every = config.evaluation.every_steps
            if every and made % every == 0 and made < last_step:
                result = _evaluated(tools, state, made)
                metrics |= evaluation_metrics(result)
            tools.log.write(made, metrics)
            tools.console.step(made, metrics)
            tools.checkpointer.save_if_due(
                made,
                made == last_step,
                without_base(state),
                lambda state=state: {
                    "base_checksum": base_checksum(state.base_params),
                    "examples": examples.state_dict(),
                    "wandb_id": tools.log.wandb_id,
                    "wall_s": tools.wall_s,
                },
            )
    return state


def _example_stream(tools: _Tools, index: int) -> ExampleStream:
    config = tools.config
    stage = config.supervised.stages[index]
    return ExampleStream(
        tools.problems,
        tools.policy,
        target_style(config.data.dataset, stage.targets),
        share=stage.share,
        batch_size=config.supervised.problems_per_batch,
        max_prompt_tokens=config.prompt.max_prompt_tokens,
        seed=config.run.seed + index,
    )


def _updated(
    tools: _Tools, state: TrainState, optimizer: Optimizer, batch: Examples
) -> tuple[TrainState, dict[str, float]]:
    policy = tools.policy
    settings = SupervisedSettings(
        num_tokens=policy.num_tokens,
        forward=policy.forward,
        logprob_chunk=tools.config.objective.logprob_chunk,
    )
    state, metrics = supervised_update(
        state,
        placed_like(batch, state.params),
        architecture=policy.architecture,
        optimizer=optimizer.transformation,
        settings=settings,
    )
    numbers = {name: float(value) for name, value in metrics.items()}
    del numbers["num_tokens"]  # of the batch's targets; the log counts the run's
    if numbers["update_skipped"]:
        tools.console.warn("loss or gradient was not finite; the update was left out.")
    return state, numbers


def _evaluated(tools: _Tools, state: TrainState, step: int) -> Evaluation:
    """Greedy results on the validation split."""
    return evaluate(
        policy_weights(state),
        tools.policy,
        tools.validation,
        tools.scorer,
        tools.config,
        step=step,
        with_samples=False,
    )


def _export(tools: _Tools, name: str) -> Path:
    return tools.run.path / "export" / name


def _finish_stage(tools: _Tools, name: str, state: TrainState) -> Evaluation:
    """Exports the phase's weights and measures what was exported on the test split."""
    folder = _export(tools, name)
    weights = plain_weights(policy_weights(state))
    export_checkpoint(folder, tools.policy, weights, dtype=EXPORT_DTYPE)
    stored = jax.tree.map(lambda x: x.astype(EXPORT_DTYPE).astype(x.dtype), weights)
    e = tools.config.evaluation
    result = evaluate(
        stored,
        tools.policy,
        problems_of(tools.config.data, e.split, limit=e.num_problems),
        tools.scorer,
        tools.config,
        step=int(state.step),
        with_samples=True,
    )
    write_whole(folder / "evaluation.json", json.dumps(result, indent=2) + "\n")
    exact = result["exact_match"]
    tools.console.note(
        f"{name}: exact match {exact['value']:.3f} (se {exact['se']:.3f}), "
        f"exported to {folder}."
    )
    return result


def _num_steps(config: Config) -> int:
    return sum(stage.num_steps for stage in config.supervised.stages)
