"""Harvest, distil, resume: a phase that turns what a policy can do into what it does.

    greedy answers -> the problems answered wrong -> many samples of these, at several
    temperatures -> the right ones among them -> a short supervised pass -> greedy
    answers again -> the problems still answered wrong, which come more often after it

A phase is decided by seed, step and weights alone: one that was interrupted is made
again from the checkpoint before it, to the same end.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import jax
import numpy as np

from jaxgrpo.assembly import Optimizer, build_optimizer, restarted_state
from jaxgrpo.config import Config
from jaxgrpo.console import Console
from jaxgrpo.device.mesh import placed_like
from jaxgrpo.device.model.lora import policy_weights
from jaxgrpo.device.records import TrainState
from jaxgrpo.device.sampling.keys import PURPOSE_DISTIL
from jaxgrpo.device.supervised import (
    Examples,
    SupervisedSettings,
    supervised_update,
)
from jaxgrpo.drawing import Drawing
from jaxgrpo.evaluate import (
    Measured,
    Submitted,
    check_errors,
    outcomes_of,
    scored_groups,
)
from jaxgrpo.evaluation.outcomes import Evaluation
from jaxgrpo.evaluation.tail import tail_of, top1_gap
from jaxgrpo.host.harvest import kept_hits, right_share, shuffled_epochs
from jaxgrpo.host.records import Group, Problem, Prompt
from jaxgrpo.imitation import padded_examples
from jaxgrpo.rollout_table import write_harvest
from jaxgrpo.sampling import drawn_groups, training_engine
from jaxgrpo.step_metrics import num_tokens


@dataclass(frozen=True)
class Distilling:
    """The phases of a run between its steps; what follows of them is in its drawing.

    Reference:
      Anthony et al., Thinking Fast and Slow with Deep Learning and Tree Search, 2017,
      https://arxiv.org/abs/1705.08439 (expert iteration: imitate what search finds);
      Zelikman et al., STaR, 2022, https://arxiv.org/abs/2203.14465 (imitate own samples
      that are right); Yuan et al., 2023, https://arxiv.org/abs/2308.01825 (of each
      problem the distinct ones).
      Differs from them: of the problems that the greedy answer fails alone, in a mix of
      temperatures, from the weights as they are and not from the first ones, and
      between steps of reinforcement learning.
    """

    drawing: Drawing
    folder: Path
    """Of the run; `harvest` in it has a part for each phase."""
    console: Console

    @property
    def config(self) -> Config:
        """Of the run."""
        return self.drawing.config

    def phase(
        self, state: TrainState, made: int
    ) -> tuple[TrainState, dict[str, float]]:
        """The state after the phase that is due, and what it did; as it was if none is.

        Args:
          state: Donated.
          made: Steps made.

        Raises:
          RuntimeError: Too many completions could not be judged.
        """
        d = self.config.distill
        if made not in d.at_steps:
            return state, {}
        begun_s = time.monotonic()
        pairs = self._looked_at()
        problems = [problem for problem, _ in pairs]
        before = self._measured(state, problems, made, "before")
        was_wrong = set(tail_of(before.outcomes, len(problems)))
        tail = [(p, prompt) for p, prompt in pairs if p.id in was_wrong]
        groups = self._harvested(state, tail, made)
        hits = kept_hits([g for at_one in groups for g in at_one], d.max_hits)
        write_harvest(self.folder, made, hits)
        state, metrics = self._imitated(state, hits, made)
        after = self._measured(state, problems, made, "after") if hits else before
        is_wrong = set(tail_of(after.outcomes, len(problems)))
        is_right = {o.problem_id for o in after.outcomes if o.greedy.is_correct}
        self.drawing.tail.define([p for p in problems if p.id in is_wrong])
        metrics |= {
            "distill/problems": len(problems),
            "distill/tail_problems": len(was_wrong),
            "distill/hit_problems": len(hits),
            "distill/solved_problems": len(was_wrong & is_right),
            "distill/new_tail_problems": len(is_wrong),
            **{
                f"distill/right_share/{temperature:g}": right_share(at_one)
                for temperature, at_one in zip(d.temperatures, groups, strict=True)
            },
            **_numbers(before.evaluation(self.config), "before"),
            **_numbers(after.evaluation(self.config), "after"),
        }
        self.console.note(_text(metrics, made))
        if metrics["distill/updates_skipped"]:
            self.console.warn(
                "a loss or gradient was not finite; the update was left out."
            )
        metrics["timing_s/distilling"] = time.monotonic() - begun_s
        return state, metrics

    def _looked_at(self) -> list[tuple[Problem, Prompt]]:
        """The run's next problems, each once, with their prompts."""
        drawing = self.drawing
        wanted = min(self.config.distill.num_problems, drawing.num_available)
        problems, prompts = drawing.next_prompts(wanted)
        drawing.counters.num_problems += wanted
        pairs = zip(problems, prompts, strict=True)
        return list({problem.id: (problem, p) for problem, p in pairs}.values())

    def _measured(
        self, state: TrainState, problems: Sequence[Problem], made: int, when: str
    ) -> Measured:
        """Greedy answers, and samples if asked for, as evaluations have them."""
        return outcomes_of(
            policy_weights(state),
            self.drawing.policy,
            [self.drawing.asked(problem) for problem in problems],
            self.drawing.scorer,
            self.config,
            step=made,
            with_samples=self.config.distill.measure_samples,
            report=self.console.counter(f"training problems {when} distilling"),
        )

    def _harvested(
        self, state: TrainState, tail: Sequence[tuple[Problem, Prompt]], made: int
    ) -> list[list[Group]]:
        """Judged samples of the tail: at each temperature, a group of each problem."""
        config, drawing, d = self.config, self.drawing, self.config.distill
        report, total = self.console.counter("harvesting"), len(tail)
        num_samples = d.samples_per_problem // len(d.temperatures)
        engine = drawing.engine
        if num_samples != engine.settings.group_size:
            engine = training_engine(config, drawing.policy, group_size=num_samples)
        harvested = []
        for place, temperature in enumerate(d.temperatures):
            drawn = drawn_groups(
                engine,
                policy_weights(state),
                drawing.policy,
                [problem for problem, _ in tail],
                [prompt for _, prompt in tail],
                seed=config.run.seed,
                purpose=PURPOSE_DISTIL,
                step=made,
                temperature=temperature,
                policy_step=int(state.step),
                draws=[place] * total,
                budget=config.sampling.budget_at(made),
            )
            submitted: Submitted = []
            for index, group in drawn:
                future = drawing.scorer.submit(group, wants_rewards=False)
                submitted.append((index, group, future))
                report(place * total + len(submitted), total * len(d.temperatures))
            groups = [_told(g, temperature) for g in scored_groups(submitted)]
            check_errors(groups, config.scorer.max_error_share)
            drawing.counters.num_tokens += num_tokens([p for _, p in tail], groups)
            harvested.append(groups)
        return harvested

    def _imitated(
        self, state: TrainState, hits: Sequence[Group], made: int
    ) -> tuple[TrainState, dict[str, float]]:
        """The state after the supervised pass; the run's own moments stay as they are.

        The very tokens that were sampled are imitated, after the prompt that they
        continued. `TrainState.step` counts these updates too, so that a completion
        drawn before the phase is never taken for one of the policy after it.
        """
        if not hits:
            return state, {"distill/hits": 0.0, **_of_updates([])}
        d, rows = self.config.distill, list(_examples(hits))
        longest = max(len(ids) for _, ids in rows)  # one width, one program a phase
        own = restarted_state(state, self._optimizer, int(state.step))
        epochs = shuffled_epochs(
            len(rows), d.hits_per_batch, epochs=d.epochs,
            seed=[self.config.run.seed, made],
        )  # fmt: skip
        found: list[list[dict[str, jax.Array]]] = []
        for batches in epochs:
            found.append([])
            for places in batches:
                examples = padded_examples(
                    [rows[place] for place in places],
                    d.hits_per_batch,
                    longest=longest,
                )
                own, metrics = self._updated(own, examples)
                found[-1].append(metrics)
        state = own._replace(opt_state=state.opt_state)
        numbers = _of_updates(jax.device_get(found))
        return state, {"distill/hits": float(len(rows)), **numbers}

    def _updated(
        self, state: TrainState, examples: Examples
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        policy = self.drawing.policy
        return supervised_update(
            state,
            placed_like(examples, state.params),
            architecture=policy.architecture,
            optimizer=self._optimizer.transformation,
            settings=SupervisedSettings(
                num_tokens=policy.num_tokens,
                forward=policy.forward,
                logprob_chunk=self.config.objective.logprob_chunk,
            ),
        )

    @cached_property
    def _optimizer(self) -> Optimizer:
        """The same for all phases, so that they share a program."""
        changes = {
            "name": "adamw",
            "learning_rate": self.config.distill.learning_rate,
            "schedule": "constant",
            "warmup_steps": 0,
        }
        own = self.config.optimizer.model_copy(update=changes)
        return build_optimizer(own, num_updates=1)  # a constant rate has no length


def _told(group: Group, temperature: float) -> Group:
    """The group, its scores telling at which temperature it was drawn."""
    extra = {"temperature": temperature}
    scores = tuple(replace(s, extra=s.extra | extra) for s in group.scores)
    return replace(group, scores=scores)


def _examples(hits: Sequence[Group]) -> Iterator[tuple[int, np.ndarray]]:
    """Length of the prompt, and the ids of prompt and completion, of each hit."""
    for group in hits:
        (prompt,) = group.prompts
        for completion in group.completions:
            ids = np.concatenate([prompt.token_ids, completion.token_ids])
            yield len(prompt.token_ids), ids.astype(np.int32)


def _of_updates(epochs: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, float]:
    """How the supervised pass went; NaN for the loss where nothing was imitated."""
    losses = [np.mean([float(m["loss"]) for m in epoch]).item() for epoch in epochs]
    all_updates = [metrics for epoch in epochs for metrics in epoch]
    return {
        "distill/updates": float(len(all_updates)),
        "distill/updates_skipped": float(
            sum(float(m["update_skipped"]) for m in all_updates)
        ),
        "distill/loss_first": losses[0] if losses else math.nan,
        "distill/loss_last": losses[-1] if losses else math.nan,
    }


def _numbers(evaluation: Evaluation, when: str) -> dict[str, float]:
    """What an evaluation of the problems looked at found, under its metrics' names."""
    names = [n for n in evaluation if n == "exact_match" or n.startswith("pass@")]
    numbers = {name: evaluation[name]["value"] for name in names}
    if len(names) > 1:
        numbers["top1_gap"] = top1_gap(evaluation)
    return {f"distill/{when}/{name}": value for name, value in numbers.items()}


def _text(metrics: Mapping[str, float], made: int) -> str:
    """A phase in a line."""
    m = {name.removeprefix("distill/"): value for name, value in metrics.items()}
    parts = [
        f"{m['tail_problems']:.0f} of {m['problems']:.0f} training problems were "
        f"answered wrong; {m['hits']:.0f} right samples of {m['hit_problems']:.0f} of "
        "them"
    ]
    if m["hits"]:
        parts.append(
            f"imitated in {m['updates']:.0f} updates: loss {m['loss_first']:.3f} -> "
            f"{m['loss_last']:.3f}, exact match {_change(m, 'exact_match')}"
        )
    if "before/top1_gap" in m:
        parts.append(f"pass@k minus exact match {_change(m, 'top1_gap')}")
    return f"distilling after step {made}: {', '.join(parts)}."


def _change(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[f'before/{name}']:.3f} -> {metrics[f'after/{name}']:.3f}"
