"""`jaxgrpo train-reward`: a reward model from the answers that runs have left."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgrpo.assembly import Optimizer, build_optimizer, restored_state
from jaxgrpo.checkpoint import Checkpointer
from jaxgrpo.config import OptimizerConfig
from jaxgrpo.console import Console, ConsoleMode
from jaxgrpo.device.mesh import make_mesh, placed_like, replicated
from jaxgrpo.device.model.lora import plain_weights
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.reward_model import (
    Pairs,
    backbone_of,
    preference_update,
    reward_params,
)
from jaxgrpo.evaluation.ranking import auc, auc_within
from jaxgrpo.metrics_log import MetricLog
from jaxgrpo.preferences.batches import batches
from jaxgrpo.preferences.harvest import Harvest, RewardTraining, harvest
from jaxgrpo.preferences.pairs import JudgedAnswer
from jaxgrpo.report.curves import write_curves
from jaxgrpo.report.evaluation_table import TextTable
from jaxgrpo.reward_model import (
    Reader,
    RewardModel,
    check_tokenizer,
    is_reward_source,
    load_reward_model,
    padded,
    reward_forward,
)
from jaxgrpo.run_folder import RunFolder, environment, write_whole
from jaxgrpo.source import open_source
from jaxgrpo.weights.reward_model import EXPORT, RewardInput, save_reward_model

TRAINED_PROBLEMS = "trained_problems.json"
"""File of the run with the ids of the problems that were learned from."""
_MEASURED = 1024
"""Held-out answers that are scored during training; in the end all are."""
_WARMUP = 0.1
"""Share of the updates over which the learning rate rises."""
_LABELS = {
    "auc_within": "AUC within problems, of those that run",
    "auc": "AUC over all problems, of those that run",
    "accuracy": "pairs in the right order",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tools:
    """What the training works with."""

    settings: RewardTraining
    harvest: Harvest
    num_steps: int
    run: RunFolder
    console: Console
    checkpointer: Checkpointer
    begun_s: float
    """Clock when the run began, interruptions taken out."""

    @property
    def wall_s(self) -> float:
        """Seconds that the run has taken so far."""
        return time.monotonic() - self.begun_s


def train_reward(
    settings: RewardTraining,
    out: Path,
    *,
    dtype: str = "float32",
    cache_dir: str = "",
    console: ConsoleMode = "auto",
) -> dict[str, Any]:
    """Trains a reward model, or goes on where the folder's last checkpoint stands.

    Args:
      settings: What decides the result.
      out: Run folder: metrics, curves, summary, and the model in `export`.
      dtype: Of the exported weights.
      cache_dir: Where prepared data sets are; as the sources say, if empty.
      console: How progress is shown.

    Returns:
      The summary.

    Raises:
      ValueError: A source holds no pairs, or the folder another run.
    """
    with RunFolder(out) as run:
        run.adopt_config({"train_reward": asdict(settings)})
        with Console(console, 1) as shown:
            if run.is_finished:
                shown.note(f"{out} holds a finished run: see {out}/summary.json.")
                return run.read_summary()
            found = harvest(settings, cache_dir, shown.note)
        model = _first_model(settings, found.template)
        num_steps = math.ceil(settings.epochs * len(found.pairs) / settings.batch_pairs)
        with (
            Console(console, num_steps) as shown,
            Checkpointer(
                run.checkpoints, every_steps=settings.evaluate_every, keep=1
            ) as checkpointer,
        ):
            latest = checkpointer.latest_step()
            loop = {} if latest is None else checkpointer.loop_state(latest)
            tools = _Tools(
                settings=settings,
                harvest=found,
                num_steps=num_steps,
                run=run,
                console=shown,
                checkpointer=checkpointer,
                begun_s=time.monotonic() - loop.get("wall_s", 0.0),
            )
            model = _trained(tools, model, latest)
            return _finished(tools, model, dtype, latest)


def _first_model(settings: RewardTraining, template: str) -> RewardModel:
    """The model before its first update."""
    mesh = make_mesh("auto", settings.fsdp)
    if settings.batch_pairs % (parts := mesh.shape["data"] * settings.fsdp):
        raise ValueError(
            f"--batch-pairs {settings.batch_pairs} does not divide by the {parts} "
            "devices. Choose a multiple of their number."
        )
    if is_reward_source(settings.model):
        model = load_reward_model(settings.model, mesh)
        architecture, params = model.architecture, model.params
        tokenizer = model.reader.tokenizer
    else:
        source = open_source(settings.model, [])
        architecture = backbone_of(source.policy.architecture)
        tokenizer = source.policy.tokenizer
        params = reward_params(plain_weights(source.params))
        params = jax.device_put(params, state_shardings(params, mesh))
    check_tokenizer(tokenizer, architecture, settings.model)
    shown = RewardInput(
        max_tokens=min(settings.max_tokens, architecture.max_positions),
        template=template,
    )
    return RewardModel(
        architecture=architecture,
        params=params,
        reader=Reader(tokenizer=tokenizer, shown=shown),
        forward=reward_forward(architecture, is_trained=True),
    )


def _trained(tools: _Tools, model: RewardModel, latest: int | None) -> RewardModel:
    """The model after all updates that are left; the one given is used up."""
    settings, found = tools.settings, tools.harvest
    optimizer = _optimizer(settings, tools.num_steps)
    state, start = _initial_state(model.params, optimizer), latest or 0
    if latest is not None:
        state, _ = restored_state(tools.checkpointer, latest, state)
        tools.console.note(f"continuing from step {latest}.")
    often = _first_answers(found.held_out, _MEASURED)
    stream = pair_batches(found, model.reader, settings, start, tools.console.note)
    with MetricLog(
        tools.run.path, wandb_mode="disabled", project="", config={},
        resume_step=latest,
    ) as log:  # fmt: skip
        for step in range(start, tools.num_steps):
            begun_s, pairs = time.monotonic(), next(stream)
            state, numbers = preference_update(
                state,
                placed_like(pairs, state.params),
                architecture=model.architecture,
                optimizer=optimizer.transformation,
                forward=model.forward,
            )
            metrics = {name: float(value) for name, value in numbers.items()}
            if metrics["update_skipped"]:
                tools.console.warn("loss or gradient was not finite; update left out.")
            seconds, made = time.monotonic() - begun_s, step + 1
            metrics |= {
                "learning_rate": optimizer.learning_rate_at(step),
                "epoch": made * settings.batch_pairs / len(found.pairs),
                "timing_s/step": seconds,
                "perf/trained_tokens_per_s": int(pairs.lengths_B2.sum()) / seconds,
            }
            if made % settings.evaluate_every == 0 or made == tools.num_steps:
                measured = held_out(replace(model, params=state.params), found, often)
                metrics |= {f"eval/{name}": value for name, value in measured.items()}
            log.write(made, metrics)
            tools.console.step(made, metrics)
            tools.checkpointer.save_if_due(
                made, made == tools.num_steps, state, lambda: {"wall_s": tools.wall_s}
            )
    return replace(model, params=state.params)


def _optimizer(settings: RewardTraining, num_steps: int) -> Optimizer:
    table = OptimizerConfig(
        learning_rate=settings.learning_rate,
        schedule="linear",
        warmup_steps=round(_WARMUP * num_steps),
        beta2=0.95,
    )
    return build_optimizer(table, num_updates=num_steps)


def _initial_state(params: Any, optimizer: Optimizer) -> TrainState:
    mesh = jax.tree.leaves(params)[0].sharding.mesh
    init = optimizer.transformation.init
    shardings = state_shardings(jax.eval_shape(init, params), mesh)
    return TrainState(
        step=jax.device_put(jnp.int32(0), replicated(mesh)),
        params=params,
        opt_state=jax.jit(init, out_shardings=shardings)(params),
        ref_params=None,
    )


def pair_batches(
    found: Harvest, reader: Reader, settings: RewardTraining, start: int, note: Any
) -> Iterator[Pairs]:
    """Batches of pairs without end, from a step on.

    Args:
      found: The pairs.
      reader: Turns answers into conversations.
      settings: Size of a batch and seed.
      start: Batches to leave out.
      note: Is told how many conversations had to be cut.
    """
    texts = {(p.problem_id, a) for p in found.pairs for a in (p.preferred, p.rejected)}
    read = {key: reader.read(found.problems[key[0]], key[1]) for key in texts}
    if num_cut := sum(is_cut for _, is_cut in read.values()):
        note(
            f"{num_cut:,} of {len(read):,} answers are cut at "
            f"{reader.shown.max_tokens} tokens."
        )
    both = [
        [read[p.problem_id, answer][0] for answer in (p.preferred, p.rejected)]
        for p in found.pairs
    ]
    size, lengths = settings.batch_pairs, np.array([max(map(len, two)) for two in both])
    for places in batches(lengths, size, seed=settings.seed, start=start):
        rows = [token_ids for place in places for token_ids in both[place]]
        token_ids_PS, lengths_P = padded(rows, 2 * size)
        yield Pairs(
            jnp.asarray(token_ids_PS.reshape(size, 2, -1)),
            jnp.asarray(lengths_P.reshape(size, 2)),
        )


def held_out(
    model: RewardModel, found: Harvest, answers: Sequence[JudgedAnswer]
) -> dict[str, float]:
    """How a model ranks held-out answers: `loss` and `accuracy` of pairs, and AUCs.

    Args:
      model: To measure.
      found: With the held-out pairs.
      answers: Those that are scored; pairs of others do not count. The AUCs are among
        those that run to their end.
    """
    scores, _ = model.scores(
        [(found.problems[a.problem_id], a.answer) for a in answers]
    )
    keys = [(answer.problem_id, answer.answer) for answer in answers]
    score_of = dict(zip(keys, scores.astype(float), strict=True))
    gaps = np.array(
        [
            score_of[pair.problem_id, pair.preferred]
            - score_of[pair.problem_id, pair.rejected]
            for pair in found.held_out_pairs
            if (pair.problem_id, pair.preferred) in score_of
            and (pair.problem_id, pair.rejected) in score_of
        ]
    )
    has_run = np.array([answer.has_run for answer in answers])
    is_right = np.array([answer.is_right for answer in answers])
    names = np.array([answer.problem_id for answer in answers])
    own = [has_run & (names == name) for name in dict.fromkeys(names)]
    within = auc_within([scores[own_] for own_ in own], [is_right[o] for o in own])
    return {
        "loss": float(np.logaddexp(0.0, -gaps).mean()) if gaps.size else math.nan,
        "accuracy": float((gaps > 0).mean()) if gaps.size else math.nan,
        "auc": auc(scores[has_run], is_right[has_run]),
        "auc_within": float(np.nanmean(within))
        if (~np.isnan(within)).any()
        else math.nan,
    }


def _first_answers(answers: Sequence[JudgedAnswer], limit: int) -> list[JudgedAnswer]:
    """Those of the first problems, all answers of each."""
    kept: dict[str, list[JudgedAnswer]] = {}
    for answer in answers:
        kept.setdefault(answer.problem_id, []).append(answer)
    chosen: list[JudgedAnswer] = []
    for own in kept.values():
        if chosen and len(chosen) + len(own) > limit:
            break
        chosen += own
    return chosen


def _finished(
    tools: _Tools, model: RewardModel, dtype: str, resumed_from: int | None
) -> dict[str, Any]:
    """Exports the model, measures it on all held-out answers, and says so."""
    folder, found = tools.run.path, tools.harvest
    tokenizer = model.reader.tokenizer
    pad_id = tokenizer.pad_token_id
    assert pad_id is None or isinstance(pad_id, int)
    save_reward_model(
        folder / EXPORT,
        model.params,
        model.architecture,
        model.reader.shown,
        dtype=dtype,
        pad_id=pad_id,
        tokenizer_folder=Path(tokenizer.name_or_path),
    )
    ids = sorted({pair.problem_id for pair in found.pairs})
    write_whole(folder / TRAINED_PROBLEMS, json.dumps(ids, indent=0) + "\n")
    measured = held_out(model, found, found.held_out)
    write_curves(folder)
    summary = {
        "held_out": measured,
        "num_completions": found.num_completions,
        "num_answers": len(found.answers),
        "num_pairs": len(found.pairs),
        "num_problems": len(ids),
        "num_held_out_answers": len(found.held_out),
        "num_held_out_pairs": len(found.held_out_pairs),
        "num_steps": tools.num_steps,
        "wall_s": tools.wall_s,
        "resumed_from": resumed_from,
        **environment([str(device) for device in jax.devices()]),
    }
    tools.run.write_summary(summary)
    rows = [(text, f"{measured[name]:.3f}") for name, text in _LABELS.items()]
    tools.console.text_table(TextTable(("", "held out"), tuple(rows)))
    tools.console.note(f"wrote {folder / EXPORT}")
    return summary
