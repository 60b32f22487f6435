"""Replay of whole groups: dead groups make room for stored live ones."""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgrpo.host.plain_records import from_plain, to_plain
from jaxgrpo.host.records import Group
from jaxgrpo.host.regroup import Turn
from jaxgrpo.host.regroup.liveness import is_live, spread_score
from jaxgrpo.host.regroup.stored import kept_group

_Entry = tuple[float, int, Group]
"""Score, number of its arrival, group. The number decides ties, first come first."""


class GroupReplay:
    """Replaces groups of equal rewards by groups of earlier steps that had something.

        score = sum_i |A_i| std r = sum_i |r_i - mean r|        over a group's rows i

    Each dead group is replaced by a group stored in an earlier step, drawn with
    probability score / sum of scores, none twice in a step. Dead groups without a
    replacement stay. Then the live groups of the step are stored: while there is room,
    and after that in place of the stored group of the lowest score, if theirs is
    higher.

    Scores are taken anew in each step, under its weights of the rewards. A stored group
    whose rewards now are all the same is not drawn, and is the first to make room; it
    may be drawn again when the weights change back.

    Stored completions keep the log-probs of the policy that sampled them, which their
    ratios are taken to; their advantages are those of their own group.

    Args:
      capacity: Groups that are stored at most.
      max_staleness: Updates that a stored group may be behind; older ones are dropped.
      seed: Of the run.

    Reference:
      TRL's experimental GRPOWithReplayBufferTrainer, in the semantics that its
      documentation describes.
      Differs from it: groups are tested one by one (its code tests the whole batch),
      ties and an empty buffer do no harm, groups have a largest age, scores follow the
      weights of the rewards, and a step's own groups, which the batch has already, are
      stored after the drawing, not before it; where fewer are stored than are dead, it
      draws some twice; it stores advantages, which are computed anew here.
    """

    name = "group_replay"

    def __init__(self, *, capacity: int, max_staleness: int, seed: int):
        self._capacity = capacity
        self._max_staleness = max_staleness
        self._seed = seed
        self._entries: list[_Entry] = []
        self._num_seen = 0
        self._metrics: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group], turn: Turn) -> list[Group]:
        """The groups, the dead ones replaced as far as there are stored ones."""
        oldest = turn.policy_step - self._max_staleness
        fresh = [entry for entry in self._entries if _policy_step(entry) >= oldest]
        num_stale = len(self._entries) - len(fresh)
        self._entries = [(_score(e[2], turn), *e[1:]) for e in fresh]
        heapq.heapify(self._entries)
        liveness = [
            is_live(group, turn.weights, is_decoupled=turn.is_decoupled)
            for group in groups
        ]
        drawn = self._drawn(liveness.count(False), turn.step)
        for group, live in zip(groups, liveness, strict=True):
            if live:
                self._store(kept_group(group), _score(group, turn))
        replacements = iter(drawn)
        changed = [
            group if live else next(replacements, group)
            for group, live in zip(groups, liveness, strict=True)
        ]
        ages = [turn.policy_step - group.completions[0].policy_step for group in drawn]
        self._metrics = {
            "replay/replaced_groups": float(len(drawn)),
            "replay/stored_groups": float(len(self._entries)),
            "replay/dropped_stale": float(num_stale),
            "replay/mean_age": float(np.mean(ages)) if ages else 0.0,
        }
        return changed

    def metrics(self) -> dict[str, float]:
        """Groups replaced and stored, and how many updates the replaced are behind."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """The buffer, as JSON can hold it."""
        return {"entries": to_plain(self._entries), "num_seen": self._num_seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with a saved buffer."""
        self._entries = from_plain(state["entries"])
        self._num_seen = state["num_seen"]

    def _drawn(self, number: int, step: int) -> list[Group]:
        alive = [entry for entry in self._entries if entry[0] > 0.0]
        if not alive or not number:
            return []
        generator = np.random.default_rng([self._seed, step])
        entries = sorted(alive, key=lambda entry: entry[1])
        scores = np.array([score for score, _, _ in entries])
        number = min(number, len(entries))
        order = generator.choice(
            len(entries), number, replace=False, p=scores / scores.sum()
        )
        return [entries[place][2] for place in order]

    def _store(self, group: Group, score: float) -> None:
        entry = (score, self._num_seen, group)
        self._num_seen += 1
        if len(self._entries) < self._capacity:
            heapq.heappush(self._entries, entry)
        elif score > self._entries[0][0]:
            heapq.heapreplace(self._entries, entry)


def _score(group: Group, turn: Turn) -> float:
    """How much a group has to teach in a step; 0 if nothing."""
    return spread_score(group, turn.weights, is_decoupled=turn.is_decoupled)


def _policy_step(entry: _Entry) -> int:
    return min(completion.policy_step for completion in entry[2].completions)
