"""The supervised mode of the trainer: phases of imitation, each one exported."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from jaxgrpo.assembly import (
    Optimizer,
    abstract_state,
    build_optimizer,
    build_scorer,
    export_checkpoint,
    initial_state,
    problems_of,
)
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.mesh import placed_like
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.supervised import (
    Examples,
    SupervisedSettings,
    supervised_update,
)
from jaxgrpo.evaluate import Evaluation, evaluate
from jaxgrpo.host.scorer import Scorer
from jaxgrpo.imitation import ExampleStream
from jaxgrpo.metrics_log import MetricLog, evaluation_metrics
from jaxgrpo.policy import Policy, initial_weights, load_policy
from jaxgrpo.run_folder import RunFolder, environment

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
    problems: Any
    validation: Any


def train_supervised(config: Config, folder: Path) -> None:
    """Runs all phases, or continues where the folder's last checkpoint stands."""
    with (
        RunFolder(folder) as run,
        build_scorer(config.scorer, ["exact"]) as scorer,
        Checkpointer(
            run.checkpoints,
            every_steps=config.checkpoint.every_steps,
            keep=config.checkpoint.keep,
        ) as checkpointer,
        Console(config.log.console, _num_steps(config)) as console,
    ):
        run.adopt_config(config.model_dump(mode="json"))
        if run.is_finished:
            console.note(f"{folder} holds a finished run: see {folder}/summary.json.")
            return
        policy = load_policy(config.model, config.prompt)
        latest = checkpointer.latest_step()
        with MetricLog(
            folder,
            wandb_mode=config.log.wandb,
            project=config.log.wandb_project,
            config=config.model_dump(mode="json"),
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
                problems=problems_of(config.data, config.data.split),
                validation=problems_of(
                    config.data,
                    "validation",
                    limit=config.evaluation.num_validation_problems,
                ),
            )
            _run_stages(tools, latest)


def _run_stages(tools: _Tools, latest: int | None) -> None:
    config, started = tools.config, time.monotonic()
    params = initial_weights(tools.policy, config)
    first_step, evaluations = 0, {}
    for index, stage in enumerate(config.supervised.stages):
        last_step = first_step + stage.num_steps
        optimizer = build_optimizer(
            config.optimizer,
            num_updates=stage.num_steps,
            scale=stage.learning_rate_scale,
        )
        state = initial_state(params, optimizer, tools.policy, config)
        state = state._replace(step=state.step + first_step)
        if latest is None or latest < last_step:
            resumed = latest if latest is not None and latest > first_step else None
            state = _run_stage(tools, index, first_step, state, optimizer, resumed)
        elif latest == last_step:
            state, _ = tools.checkpointer.restore(latest, abstract_state(state))
        else:
            state = None  # a later phase holds the weights
        if state is not None:
            params = state.params
            evaluations[stage.name] = _finish_stage(tools, stage.name, state)
        first_step = last_step
    for stage in config.supervised.stages:
        if stage.name not in evaluations:
            evaluations[stage.name] = json.loads(
                (_export(tools, stage.name) / "evaluation.json").read_text()
            )
    tools.run.write_summary(
        {
            "evaluations": evaluations,
            "wall_s": time.monotonic() - started,
            "num_steps": first_step,
            "resumed_from": latest,
            "seed": config.run.seed,
            **environment([str(device) for device in jax.devices()]),
        }
    )
    tools.console.table(evaluations)


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
            state, loop = tools.checkpointer.restore(resumed, abstract_state(state))
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
                state,
                lambda: {"examples": examples.state_dict()},
            )
    return state


def _example_stream(tools: _Tools, index: int) -> ExampleStream:
    config = tools.config
    return ExampleStream(
        tools.problems,
        tools.policy,
        config.supervised.stages[index],
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
        dtype=policy.dtype,
        unroll_layers=policy.unroll_layers,
        remat=policy.remat,
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
        state.params,
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
    export_checkpoint(folder, tools.policy, state.params, dtype=EXPORT_DTYPE)
    stored = jax.tree.map(
        lambda x: x.astype(EXPORT_DTYPE).astype(x.dtype), state.params
    )
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
    (folder / "evaluation.json").write_text(json.dumps(result, indent=2) + "\n")
    exact = result["exact_match"]
    tools.console.note(
        f"{name}: exact match {exact['value']:.3f} (se {exact['se']:.3f}), "
        f"exported to {folder}."
    )
    return result


def _num_steps(config: Config) -> int:
    return sum(stage.num_steps for stage in config.supervised.stages)
