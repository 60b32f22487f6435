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
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.supervised import SupervisedSettings, supervised_update
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
    examples = ExampleStream(
        tools.problems,
        tools.policy,
        stage,
        batch_size=config.supervised.problems_per_batch,
        max_prompt_tokens=config.prompt.max_prompt_tokens,
        seed=config.run.seed + index,
    )
    settings = SupervisedSettings(
        num_tokens=tools.policy.num_tokens,
        dtype=tools.policy.dtype,
        unroll_layers=tools.policy.unroll_layers,
        remat=tools.policy.remat,
        logprob_chunk=config.objective.logprob_chunk,
    )
    step, total_tokens = first_step, 0
    if resumed is not None:
        state, loop = tools.checkpointer.restore(resumed, abstract_state(state))
        examples.load_state_dict(loop["examples"])
        step, total_tokens = resumed, loop["num_tokens"]
        tools.console.note(f"continuing {stage.name} from step {step}.")
    begun = time.monotonic()
    while step < last_step:
        batch = next(examples)
        learning_rate = float(optimizer.learning_rate(step - first_step))
        state, metrics = supervised_update(
            state,
            batch,
            architecture=tools.policy.architecture,
            optimizer=optimizer.transformation,
            settings=settings,
        )
        step += 1
        numbers = {name: float(value) for name, value in metrics.items()}
        num_tokens = int(batch.lengths_B.sum())
        total_tokens += num_tokens
        now = time.monotonic()
        numbers |= {
            "num_tokens": total_tokens,
            "learning_rate": learning_rate,
            "stage": index,
            "dropped_prompts": examples.num_dropped,
            "timing_s/step": now - begun,
            "perf/trained_tokens_per_s": num_tokens / (now - begun),
        }
        every = config.evaluation.every_steps
        if every and step % every == 0 and step < last_step:
            result = _evaluated(tools, state, step, with_samples=False)
            numbers |= evaluation_metrics(result)
        tools.log.write(step, numbers)
        tools.console.step(step, numbers)
        begun = time.monotonic()
        tools.checkpointer.save_if_due(
            step,
            step == last_step,
            state,
            lambda: {"examples": examples.state_dict(), "num_tokens": total_tokens},
        )
    examples.close()
    return state


def _evaluated(
    tools: _Tools, state: TrainState, step: int, *, with_samples: bool
) -> Evaluation:
    return evaluate(
        state.params,
        tools.policy,
        tools.validation,
        tools.scorer,
        tools.config,
        step=step,
        with_samples=with_samples,
    )


def _export(tools: _Tools, name: str) -> Path:
    return tools.run.path / "export" / name


def _finish_stage(tools: _Tools, name: str, state: TrainState) -> Evaluation:
    """Exports the phase's weights and measures what was exported on the test split."""
    folder = _export(tools, name)
    export_checkpoint(folder, tools.policy, state.params, dtype=EXPORT_DTYPE)
    stored = jax.tree.map(lambda x: x.astype(EXPORT_DTYPE).astype(x.dtype), state.params)
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
