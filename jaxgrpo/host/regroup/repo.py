"""Replay of single samples by prompt (RePO): what a problem's earlier samples were."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxgrpo.host.plain_records import from_plain, to_plain
from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Completion, Group, Prompt, Score
from jaxgrpo.host.regroup import Turn
from jaxgrpo.host.regroup.liveness import total_reward
from jaxgrpo.host.regroup.stored import kept_group


class StoredSample(NamedTuple):
    """One earlier completion of a problem."""

    prompt: Prompt
    completion: Completion
    score: Score


Strategy = Callable[[np.ndarray, int, np.random.Generator], list[int]]
"""Takes the totals of stored samples, oldest first, and how many to take; returns
their places."""


def random_k(
    totals: np.ndarray, number: int, generator: np.random.Generator
) -> list[int]:
    """Any of them, each as likely."""
    return sorted(generator.choice(len(totals), number, replace=False).tolist())


def highest_k(
    totals: np.ndarray, number: int, generator: np.random.Generator
) -> list[int]:
    """Those of the highest rewards; of equal ones the earliest.

    Example:
      >>> highest_k(np.array([0.0, 1.0, 0.5, 1.0]), 2, np.random.default_rng(0))
      [1, 3]
    """
    return np.argsort(-totals, kind="stable")[:number].tolist()


def recent_k(
    totals: np.ndarray, number: int, generator: np.random.Generator
) -> list[int]:
    """The last ones stored."""
    return list(range(len(totals) - number, len(totals)))


def max_variance_k(
    totals: np.ndarray, number: int, generator: np.random.Generator
) -> list[int]:
    """Those whose rewards differ most: of the largest population variance.

    The best subset takes some of the lowest and the rest of the highest rewards, so
    that k + 1 candidates are all there are. Of equal variances the larger sum wins.

    Example:
      >>> max_variance_k(np.array([0.0, 1.0, 1.0, 0.5]), 2, np.random.default_rng(0))
      [0, 2]
    """
    order = np.argsort(totals, kind="stable")
    candidates = [
        np.concatenate([order[:low], order[len(order) - (number - low) :]])
        for low in range(number)
    ] + [order[:number]]
    best = max(candidates, key=lambda c: (totals[c].var(), totals[c].sum()))
    return sorted(best.tolist())


def all_samples(
    totals: np.ndarray, number: int, generator: np.random.Generator
) -> list[int]:
    """Everything stored, whatever the number."""
    return list(range(len(totals)))


STRATEGIES: dict[str, Strategy] = {
    "random": random_k,
    "highest": highest_k,
    "recent": recent_k,
    "max_variance": max_variance_k,
    "all": all_samples,
}
"""By the name that the configuration gives them."""


class SampleReplay:
    """Adds earlier samples of the same problem to a step's groups.

    A problem's stored samples are taken before this step's are stored, so that none
    comes back at once. `split` makes them a group of their own, with a baseline of
    their own; `mixed` joins them to the problem's group. A sample drawn under a hint
    continues another prompt than the problem's, and is not stored.

    Args:
      strategy: One of STRATEGIES.
      num_replays: Samples taken for a problem at most; `all` takes all.
      min_stored: Samples that a problem must have stored before any is taken.
      max_stored: Samples stored for a problem; the oldest make room.
      is_mixed: Whether replayed and new samples share one baseline.
      factor: Of the advantages of replayed samples.
      max_staleness: Updates that a stored sample may be behind; older ones are dropped
        when their problem comes up.
      seed: Of the run.

    Reference:
      RePO, 2025, https://arxiv.org/abs/2506.09340, and its code: the buffer, retrieval
      before storage, five strategies, split and mixed advantages, stored log-probs.
      Differs from it: the off-policy part is one loss with the other, its coefficient a
      factor on advantages; samples have a largest age; the divergence from a reference,
      where there is one, is of replayed tokens too.
    """

    name = "sample_replay"

    def __init__(
        self,
        *,
        strategy: str,
        num_replays: int,
        min_stored: int,
        max_stored: int,
        is_mixed: bool,
        factor: float,
        max_staleness: int,
        seed: int,
    ):
        self._choose = STRATEGIES[strategy]
        self._num_replays = num_replays
        self._min_stored = min_stored
        self._max_stored = max_stored
        self._is_mixed = is_mixed
        self._factor = factor
        self._max_staleness = max_staleness
        self._seed = seed
        self._stored: dict[str, deque[StoredSample]] = {}
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups with stored samples beside or among theirs."""
        replayed = [self._retrieved(group, turn) for group in groups]
        for group in groups:
            self._store(kept_group(group))
        rewards = [
            total_reward(score, turn.weights)
            for group in groups
            for score in group.scores
        ]
        ages = [
            turn.policy_step - sample.completion.policy_step
            for samples in replayed
            for sample in samples
        ]
        self._metrics = {
            "replay/replayed_samples": float(len(ages)),
            "replay/stored_samples": float(sum(map(len, self._stored.values()))),
            "replay/stored_problems": float(len(self._stored)),
            "replay/mean_age": float(np.mean(ages)) if ages else 0.0,
            "replay/online_reward": float(np.nanmean(rewards)) if rewards else 0.0,
        }
        if self._is_mixed:
            return [
                _joined(group, samples, self._factor)
                for group, samples in zip(groups, replayed, strict=True)
            ]
        own = [
            _group_of(group, samples, self._factor)
            for group, samples in zip(groups, replayed, strict=True)
            if samples
        ]
        return [*groups, *own]

    def metrics(self) -> dict[str, float]:
        """Samples replayed and stored, their age, and the reward of the new ones."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """All stored samples, as JSON can hold them."""
        return {
            problem_id: to_plain([tuple(sample) for sample in samples])
            for problem_id, samples in self._stored.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with saved samples."""
        self._stored = {
            problem_id: deque(
                [StoredSample(*sample) for sample in from_plain(samples)],
                maxlen=self._max_stored,
            )
            for problem_id, samples in state.items()
        }

    def _retrieved(self, group: Group, turn: Turn) -> list[StoredSample]:
        stored = self._stored.get(group.problem.id)
        if stored is None:
            return []
        oldest = turn.policy_step - self._max_staleness
        kept = [s for s in stored if s.completion.policy_step >= oldest]
        stored.clear()
        stored.extend(kept)
        totals = np.array([total_reward(s.score, turn.weights) for s in kept])
        usable = np.flatnonzero(~np.isnan(totals))
        number = min(len(usable), self._num_replays)
        if len(usable) < max(self._min_stored, 1):
            return []
        generator = np.random.default_rng(
            [self._seed, turn.step, *stable_hash(group.problem.id)]
        )
        places = self._choose(totals[usable], number, generator)
        return [kept[usable[place]] for place in places]

    def _store(self, group: Group) -> None:
        stored = self._stored.setdefault(
            group.problem.id, deque(maxlen=self._max_stored)
        )
        prompts = {prompt.variant: prompt for prompt in group.prompts}
        for completion, score in zip(group.completions, group.scores, strict=True):
            prompt = prompts[completion.prompt_variant]
            if not prompt.variant:  # samples of a hinted prompt are of another prompt
                stored.append(StoredSample(prompt, completion, score))


def _group_of(group: Group, samples: Sequence[StoredSample], factor: float) -> Group:
    """A group of stored samples alone."""
    prompts = {sample.prompt.variant: sample.prompt for sample in samples}
    return Group(
        problem=group.problem,
        prompts=tuple(prompts.values()),
        completions=tuple(sample.completion for sample in samples),
        scores=tuple(_weighed(sample.score, factor) for sample in samples),
    )


def _joined(group: Group, samples: Sequence[StoredSample], factor: float) -> Group:
    """The group with stored samples behind its own."""
    if not samples:
        return group
    stored = _group_of(group, samples, factor)
    prompts = {prompt.variant: prompt for prompt in (*stored.prompts, *group.prompts)}
    return replace(
        group,
        prompts=tuple(prompts.values()),
        completions=group.completions + stored.completions,
        scores=group.scores + stored.scores,
    )


def _weighed(score: Score, factor: float) -> Score:
    return replace(score, advantage_factor=score.advantage_factor * factor)
