"""Replay of single samples by prompt (RePO): what a problem's earlier samples were."""

import json
import math
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
    """One earlier completion of a problem, packed as a checkpoint holds it.

    Packed once, when it is stored: a checkpoint has to write all that are stored.
    """

    completion: dict[str, Any]
    """Plain data of it."""
    score: Score
    policy_step: int
    """Of the completion."""
    num_bytes: int
    """Of the completion, as JSON."""

    def unpacked(self) -> Completion:
        """The completion as it was."""
        return from_plain(self.completion)


def _packed(completion: dict[str, Any], score: Score) -> StoredSample:
    """A sample of a completion's plain data."""
    policy_step = completion["fields"]["policy_step"]
    num_bytes = len(json.dumps(completion))
    return StoredSample(completion, score, policy_step, num_bytes)


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
      max_staleness: Updates that a stored sample may be behind; older ones are dropped,
        those of all problems in each step.
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
        self._prompts: dict[str, Prompt] = {}
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups with stored samples beside or among theirs."""
        self._drop_stale(turn.policy_step - self._max_staleness)
        replayed = [self._retrieved(group, turn) for group in groups]
        for group in groups:
            self._store(kept_group(group), turn)
        rewards = [
            total_reward(score, turn.weights)
            for group in groups
            for score in group.scores
        ]
        ages = [
            turn.policy_step - sample.policy_step
            for samples in replayed
            for sample in samples
        ]
        stored = [sample for samples in self._stored.values() for sample in samples]
        self._metrics = {
            "replay/replayed_samples": float(len(ages)),
            "replay/stored_samples": float(len(stored)),
            "replay/stored_mb": sum(sample.num_bytes for sample in stored) / 1e6,
            "replay/stored_problems": float(len(self._stored)),
            "replay/mean_age": float(np.mean(ages)) if ages else 0.0,
            "replay/online_reward": (
                0.0 if np.isnan(rewards).all() else float(np.nanmean(rewards))
            ),
        }
        if self._is_mixed:
            return [
                self._joined(group, samples)
                for group, samples in zip(groups, replayed, strict=True)
            ]
        beside = []
        for group, samples in zip(groups, replayed, strict=True):
            # Next to each other: minibatches of neighbours hold both.
            beside.append(group)
            if samples:
                beside.append(self._group_of(group, samples))
        return beside

    def metrics(self) -> dict[str, float]:
        """Samples replayed and stored, their age, and the reward of the new ones."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """All stored samples, as JSON can hold them."""
        return {
            problem_id: {
                "prompt": to_plain(self._prompts[problem_id]),
                "completions": [sample.completion for sample in samples],
                "scores": [to_plain(sample.score) for sample in samples],
            }
            for problem_id, samples in self._stored.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with saved samples."""
        self._stored = {
            problem_id: deque(
                map(_packed, saved["completions"], from_plain(saved["scores"])),
                maxlen=self._max_stored,
            )
            for problem_id, saved in state.items()
        }
        self._prompts = {
            problem_id: from_plain(saved["prompt"])
            for problem_id, saved in state.items()
        }

    def _drop_stale(self, oldest: int) -> None:
        for problem_id, samples in list(self._stored.items()):
            kept = [sample for sample in samples if sample.policy_step >= oldest]
            if kept:
                self._stored[problem_id] = deque(kept, maxlen=self._max_stored)
            else:
                del self._stored[problem_id], self._prompts[problem_id]

    def _retrieved(self, group: Group, turn: Turn) -> list[StoredSample]:
        kept = self._stored.get(group.problem.id)
        if kept is None:
            return []
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

    def _store(self, group: Group, turn: Turn) -> None:
        # Samples of a hinted prompt are of another prompt; those that abstain would
        # take the places of those that teach.
        plain = [prompt for prompt in group.prompts if not prompt.variant]
        rows = [
            (completion, score)
            for completion, score in zip(group.completions, group.scores, strict=True)
            if not completion.prompt_variant
            and not math.isnan(total_reward(score, turn.weights))
        ]
        if not rows:
            return
        problem_id = group.problem.id
        (self._prompts[problem_id],) = plain
        stored = self._stored.setdefault(problem_id, deque(maxlen=self._max_stored))
        for completion, score in rows:
            stored.append(_packed(to_plain(completion), score))

    def _group_of(self, group: Group, samples: Sequence[StoredSample]) -> Group:
        """A group of stored samples alone."""
        return Group(
            problem=group.problem,
            prompts=(self._prompts[group.problem.id],),
            completions=tuple(sample.unpacked() for sample in samples),
            scores=tuple(_weighed(sample.score, self._factor) for sample in samples),
        )

    def _joined(self, group: Group, samples: Sequence[StoredSample]) -> Group:
        """The group with stored samples behind its own."""
        if not samples:
            return group
        stored = self._group_of(group, samples)
        prompts = {
            prompt.variant: prompt for prompt in (*stored.prompts, *group.prompts)
        }
        return replace(
            group,
            prompts=tuple(prompts.values()),
            completions=group.completions + stored.completions,
            scores=group.scores + stored.scores,
        )


def _weighed(score: Score, factor: float) -> Score:
    return replace(score, advantage_factor=score.advantage_factor * factor)
